// Tests finding and running nvdisasm, with scripts in its place.
#include "ptxbuilder/compile/nvdisasm.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "error_kit.h"
#include "folder_kit.h"

namespace ptxbuilder::test::nvdisasm_test {

TEST_CASE("nvdisasm is searched for next to ptxas, and among the packages of the Pythons in PATH") {
  const Folder folder;
  std::filesystem::create_directories(folder.path("venv/lib/python3.11/site-packages"));
  PtxasSearch search;
  search.path = folder.path("tools") + "::" + folder.path("venv/bin");
  search.cuda_path = folder.path("cuda");
  search.install_folder = folder.path("opt");
  const std::vector<std::string> files = nvdisasm_candidates(search);
  const std::vector<std::string> expected = {folder.path("tools/nvdisasm"), folder.path("venv/bin/nvdisasm"),
                                             folder.path("cuda/bin/nvdisasm"),
                                             folder.path("opt/cuda/bin/nvdisasm")};
  REQUIRE(files.size() > expected.size());
  CHECK(std::equal(expected.begin(), expected.end(), files.begin()));
  for (const char* wheel : {"nvidia/cu13/bin/nvdisasm", "triton/backends/nvidia/bin/nvdisasm"})
    CHECK(std::count(files.begin(), files.end(), folder.path("venv/lib/python3.11/site-packages/") + wheel) ==
          1);

  CHECK_ERROR(Nvdisasm{search}, "nvdisasm, which reads cubins, was not found. Put it on PATH");
  CHECK_ERROR(Nvdisasm{search}, folder.path("cuda/bin/nvdisasm"));
  const std::string triton =
      folder.script("venv/lib/python3.11/site-packages/triton/backends/nvidia/bin/nvdisasm", "echo triton");
  CHECK(Nvdisasm(search).path() == triton);
  const std::string tool = folder.script("tools/nvdisasm", "echo tool");
  CHECK(Nvdisasm(search).path() == tool);
  search.file = folder.path("nowhere");
  CHECK_ERROR(Nvdisasm{search}, "Looked at:\n  " + folder.path("nowhere"));
}

TEST_CASE("nvdisasm gets the cubin, and prints lines of PTX if requested") {
  const Folder folder;
  PtxasSearch search;
  search.file = folder.script("nvdisasm", "echo \"$@\"; cat /dev/stdin");
  const Nvdisasm tool(search);
  CHECK(tool.disassemble("CUBIN") == "-c /dev/stdin\nCUBIN");
  CHECK(tool.disassemble("CUBIN", true) == "-gp -c /dev/stdin\nCUBIN");
  folder.script("nvdisasm", "echo not a cubin >&2; exit 3");
  CHECK_ERROR(tool.disassemble("CUBIN"), "nvdisasm: exit status 3: not a cubin");
}

}  // namespace ptxbuilder::test::nvdisasm_test

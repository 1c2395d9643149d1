// Tests `--keep DIR`, which stores every stage of a kernel in one folder. Also tests warnings about registers
// and about defects of ptxas.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "command_kit.h"
#include "folder_kit.h"
#include "options.h"

namespace ptxbuilder::test::keep_command_test {
namespace {

using Json = nlohmann::json;

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
bool is_there(const std::string& path) { return std::filesystem::exists(path); }

bool has_ptxas() {
  static const Ran ran = run("ptxb emit saxpy --assembler ptxas -o /dev/null/nowhere");
  const bool is_here = ran.output.find("no ptxas") == std::string::npos;
  if (!is_here) skip(ran.output);
  return is_here;
}

}  // namespace

TEST_CASE("without an assembler the stages end with PTX, and missing stages are reported") {
  const Folder folder;
  std::ofstream(folder.path("saxpy.cubin")) << "of another time";
  const Ran ran = run("ptxb emit saxpy --assembler none --keep " + folder.path(""));
  CHECK(ran.code == 0);
  CHECK(contains(ran, "saxpy.lowered.ll\n"));
  CHECK(contains(ran, "not kept: saxpy.sass: assembling was not requested\n"));
  CHECK_FALSE(is_there(folder.path("saxpy.cubin")));
  CHECK(text_of(folder.path("saxpy.ptx")).find(".entry saxpy") != std::string::npos);
  // Both texts contain the kernel, and LLVM's passes have changed it.
  const std::string before = text_of(folder.path("saxpy.ll")),
                    after = text_of(folder.path("saxpy.lowered.ll"));
  CHECK(before.find("define ptx_kernel void @saxpy") != std::string::npos);
  CHECK(after.find("define ptx_kernel void @saxpy") != std::string::npos);
  CHECK(before != after);
  const Ran nowhere = run("ptxb emit saxpy --assembler none --keep /dev/null/nowhere");
  CHECK(nowhere.code == 1);
  CHECK(contains(nowhere, "/dev/null/nowhere: the folder cannot be created"));
}

TEST_CASE("a kernel's own executable keeps all stages too, and those before an error of ptxas") {
  if (!has_ptxas()) return;
  const Folder folder;
  const std::string nvdisasm = folder.script("nvdisasm", "echo machine code");
  Ran ran = run(fmt::format("ptxb emit saxpy --nvdisasm {} --keep {} --json", nvdisasm, folder.path("a")));
  CHECK(Json::parse(ran.output)["kept"].size() == 6);
  CHECK(text_of(folder.path("a/saxpy.sass")) == "machine code\n");
  CHECK(text_of(folder.path("a/saxpy.log")).find("Used ") != std::string::npos);
  CHECK(text_of(folder.path("a/saxpy.cubin"))
            .starts_with("\x7f"
                         "ELF"));
  ran = run("saxpy --device emulator --n 300 --keep " + folder.path("b"));
  CHECK(ran.code == 0);
  CHECK(contains(ran, "kept " + folder.path("b/saxpy.log")));
  CHECK(contains(ran, "verified"));

  const std::string ptxas = folder.script("ptxas", R"(case "$*" in
  *--version*) echo "Cuda compilation tools, release 13.0, V13.0.88"; echo "Build cuda_13.0.r13.0/compiler.1_0" ;;
  *) echo "ptxas /dev/stdin, line 9; error   : Arguments mismatch for instruction 'mov'" >&2; exit 255 ;;
esac)");
  ran = run(fmt::format("ptxb emit saxpy --no-cache --ptxas {} --keep {}", ptxas, folder.path("c")));
  CHECK(ran.code == 1);
  CHECK(contains(ran, "the stages before the error are in " + folder.path("c")));
  CHECK(text_of(folder.path("c/saxpy.log")).find("Arguments mismatch") != std::string::npos);
  CHECK(is_there(folder.path("c/saxpy.ptx")));
  CHECK_FALSE(is_there(folder.path("c/saxpy.cubin")));
}

TEST_CASE(
    "a role that cannot have its registers is reported before ptxas runs, with the numbers and the line") {
  const Folder folder;
  const std::string out = " --assembler none -o " + folder.path("out");
  const Ran large = run("ptxb emit attention --depth 64 --bn 192 --consumers 3" + out);
  CHECK(large.code == 0);
  CHECK(contains(large, "warning: kernel 'attention': a thread needs about 1"));
  CHECK(contains(large, "128 of them accumulators, but has 160: ptxas will spill or refuse"));
  CHECK(contains(large, "consumer.h:"));
  for (const char* right : {"attention --depth 64 --bn 128 --consumers 3", "attention_gradient", "gemm"})
    CHECK_FALSE(contains(run("ptxb emit " + (right + out)), "warning"));
}

TEST_CASE("a defect of the ptxas in use is reported where the kernel has its instruction") {
  if (!has_ptxas()) return;
  const Folder folder;
  // The script runs the installed ptxas, but reports another version. Defects must be reported according to
  // that version.
  const std::string ptxas = folder.script("ptxas", R"(case "$*" in
  *--version*) echo "Cuda compilation tools, release 13.0, V13.0.88"; echo "Build cuda_13.0.r13.0/compiler.1_0" ;;
  *) exec ptxas "$@" ;;
esac)");
  const std::string emit =
      fmt::format("ptxb emit gemm_tma_register_a --ptxas {} -o {} ", ptxas, folder.path("out"));
  const std::string path = "PATH=$PATH:/usr/local/cuda/bin";
  const Ran ran = run(emit, path);
  CHECK(ran.code == 0);
  CHECK(contains(
      ran, "warning: ptxas 13.0.88 has a known defect that wgmma.mma_async with A in registers may meet"));
  CHECK(contains(ran, "gemm_combination.cpp:"));
  CHECK(run(emit + "--waive wgmma-a-registers", path).output.find("warning") == std::string::npos);
  CHECK(run(fmt::format("ptxb emit gemm_tile --ptxas {} -o {}", ptxas, folder.path("out")), path)
            .output.find("warning") == std::string::npos);
  const Ran none = run(emit + "--waive wgmma-b-registers", path);
  CHECK(none.code == 2);
  CHECK(contains(none, "'wgmma-b-registers' cannot be waived"));
}

}  // namespace ptxbuilder::test::keep_command_test

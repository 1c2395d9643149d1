// Tests that the cache stores the PTX of a kernel under its IR, and returns it unchanged.
#include <doctest/doctest.h>

#include <fstream>

#include "folder_kit.h"
#include "library_kit.h"
#include "ptxbuilder/compile/compile.h"
#include "ptxbuilder/ptxbuilder.h"

namespace ptxbuilder::test::kept_ptx_test {
namespace {

Kernel add(uint32_t addend, const char* target = "sm_90a") {
  Kernel k("add", {.target = target});
  auto [out] = k.params<gptr<u32>>("out");
  out[0] = out[0] + addend;
  return k;
}

std::string ptx(Kernel k, Cache* cache) { return generate_ptx(k.builder(), cache); }

}  // namespace

TEST_CASE("PTX is found with the same IR, and with no other") {
  const Folder folder;
  Cache cache({.directory = folder.path("kept")});
  const std::string made = ptx(add(1), &cache);
  CHECK(made == ptx(add(1), nullptr));
  CHECK(cache.statistics().misses == 1);
  CHECK(ptx(add(1), &cache) == made);
  CHECK(cache.statistics().hits == 1);
  CHECK(ptx(add(2), &cache) == ptx(add(2), nullptr));
  CHECK(ptx(add(1, "sm_90"), &cache) == ptx(add(1, "sm_90"), nullptr));
  CHECK(cache.statistics().misses == 3);
}

TEST_CASE("PTX that is damaged is made anew") {
  const Folder folder;
  Cache cache({.directory = folder.path("kept")});
  const std::string made = ptx(add(1), &cache);
  std::string file;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path("kept")))
    if (entry.file_size() > made.size()) file = entry.path();
  REQUIRE(!file.empty());
  std::fstream(file, std::ios::in | std::ios::out | std::ios::ate) << "more";
  CHECK(ptx(add(1), &cache) == made);
  CHECK(cache.statistics().corrupt == 1);
}

TEST_CASE("a compiler keeps PTX even if it assembles nothing, unless it must keep nothing") {
  const Folder folder;
  const auto files = [&] {
    return std::filesystem::exists(folder.path("kept"))
               ? std::distance(std::filesystem::directory_iterator(folder.path("kept")), {})
               : 0;
  };
  CompilerOptions options{
      .assemble = false, .cache = false, .cache_options = {.directory = folder.path("kept")}};
  const auto ptx_by = [](const Compiler& compiler) {
    return compiler.compile(add(1)).ptx;
  };  // all on one line of C++
  const std::string made = ptx_by(Compiler(options));
  CHECK(files() == 0);
  options.cache = true;
  const Compiler compiler(options);
  CHECK(ptx_by(compiler) == made);
  CHECK(files() > 0);
  CHECK(ptx_by(compiler) == made);
  CHECK(compiler.cache()->statistics().hits == 1);
}

TEST_CASE("a cache that cannot be written loses nothing") {
  const Folder folder;
  std::ofstream(folder.path("file")) << "no folder";
  Cache cache({.directory = folder.path("file") + "/kept"});
  CHECK(ptx(add(1), &cache) == ptx(add(1), nullptr));
}

}  // namespace ptxbuilder::test::kept_ptx_test

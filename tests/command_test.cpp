// The command lines as a user meets them: exit codes, and what is said to wrong words, each beside right
// ones.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ptxbuilder/isa/rows.h"

namespace {

namespace fs = std::filesystem;

struct Ran {
  int code;
  std::string output;  // standard output and error
};

Ran run(const std::string& words, const std::string& before = "") {
  std::string command = fmt::format("{} {}/{} 2>&1", before, PTXBUILDER_BIN, words);
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe);
  std::string output;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, n);
  int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

bool contains(const Ran& ran, const std::string& text) {
  bool found = ran.output.find(text) != std::string::npos;
  if (!found) MESSAGE("no '", text, "' in: ", ran.output);
  return found;
}

struct Folder {
  fs::path path = fs::temp_directory_path() / fmt::format("ptxbuilder_command_test_{}", getpid());
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::string str(const char* name = "") const { return (path / name).string(); }
};

}  // namespace

TEST_CASE("help is everywhere") {
  for (const char* words :
       {"ptxb --help", "ptxb run --help", "ptxb run gemm_pipelined --help", "ptxb emit hello --help",
        "ptxb cache --help", "ptxb isa --help", "gemm_pipelined --help", "saxpy --help"}) {
    CAPTURE(words);
    Ran ran = run(words);
    CHECK(ran.code == 0);
    CHECK(contains(ran, "-h,--help"));
  }
}

TEST_CASE("wrong words are refused with the legal ones") {
  Ran kernel = run("ptxb run gemm");
  CHECK(kernel.code == 2);
  CHECK(contains(kernel, "gemm_pipelined"));

  Ran field = run("gemm_pipelined --rows 8");
  CHECK(field.code == 2);
  CHECK(contains(field, "--rows"));
  CHECK(contains(field, "--m --n --k --bm --bn --bk --stages"));

  Ran value = run("gemm_pipelined --assembler none --m 12 --emit /tmp");
  CHECK(value.code == 1);
  CHECK(contains(value, "field m = 12: it must be at least 8 and a multiple of 8"));

  CHECK(run("gemm_pipelined --m many").code == 2);
  CHECK(run("ptxb").code == 2);
  CHECK(run("ptxb emit saxpy").code == 2);  // no folder
}

TEST_CASE("configurations that cannot be are refused before ptxas sees them") {
  Ran large = run("gemm_pipelined --assembler none --stages 5 --emit /tmp");
  CHECK(large.code == 1);
  CHECK(contains(large, "bytes exceed the 232448 that a CTA may have"));
  Ran registers = run("gemm_pipelined --assembler none --bm 192 --bn 128 --stages 2 --emit /tmp");
  CHECK(registers.code == 1);
  CHECK(contains(registers, "registers, but an SM has 65536"));
}

TEST_CASE("emit writes the files, and says so in JSON") {
  Folder folder;
  Ran ran = run(fmt::format("ptxb emit gemm_tile --assembler none --json -o {}", folder.str("new/folder")));
  CHECK(ran.code == 0);
  auto json = nlohmann::json::parse(ran.output);
  CHECK(json["kernel"] == "gemm_tile");
  REQUIRE(json["files"].size() == 3);  // no cubin without an assembler
  for (const auto& file : json["files"]) CHECK(fs::file_size(file.get<std::string>()) > 100);

  Ran unwritable = run("ptxb emit gemm_tile --assembler none -o /proc/none");
  CHECK(unwritable.code == 1);
  CHECK(contains(unwritable, "/proc/none: the folder cannot be made"));
}

TEST_CASE("a missing ptxas is named, and is no obstacle to PTX") {
  Folder folder;
  Ran wanted =
      run(fmt::format("ptxb emit saxpy --assembler ptxas --ptxas /nowhere/ptxas -o {}", folder.str()));
  CHECK(wanted.code == 1);
  CHECK(contains(wanted, "/nowhere/ptxas"));
  Ran automatic = run(fmt::format("ptxb emit saxpy --ptxas /nowhere/ptxas -o {}", folder.str()));
  CHECK(automatic.code == 0);
  CHECK(contains(automatic, "no cubin is made"));
  CHECK(fs::exists(folder.path / "saxpy.ptx"));
  CHECK_FALSE(fs::exists(folder.path / "saxpy.cubin"));
}

TEST_CASE("an unknown device is refused") {
  Ran ran = run("saxpy --device fpga");
  CHECK(ran.code == 1);
  CHECK(contains(ran, "device 'fpga' is not one of"));
}

TEST_CASE("listings are complete, and their JSON is JSON") {
  auto isa = nlohmann::json::parse(run("ptxb isa --json").output);
  CHECK(isa.size() == ptxbuilder::isa::rows().size());
  auto kernels = nlohmann::json::parse(run("ptxb list --json").output);
  CHECK(kernels.size() >= 5);
  for (const auto& kernel : kernels) CHECK(contains(run("ptxb list"), kernel["name"].get<std::string>()));
  auto version = nlohmann::json::parse(run("ptxb version --json").output);
  for (const char* part : {"ptxbuilder", "llvm", "ptxas", "device"}) CHECK(version.contains(part));
}

TEST_CASE("the cache is shown, checked and cleared") {
  Folder folder;
  auto cache = [&](const char* words) {
    return nlohmann::json::parse(
        run(fmt::format("ptxb cache --json --cache-dir {} {}", folder.str("cache"), words)).output);
  };
  CHECK(cache("")["entries"] == 0);
  Ran emitted = run(fmt::format("ptxb emit saxpy --cache-dir {} -o {}", folder.str("cache"), folder.str()));
  CHECK(emitted.code == 0);
  if (!fs::exists(folder.path / "saxpy.cubin")) {
    MESSAGE("SKIPPED: a filled cache, since there is no ptxas: ", emitted.output);
    return;
  }
  CHECK(cache("")["entries"] >= 1);
  Ran again = run(fmt::format("ptxb emit saxpy --cache-dir {} -o {}", folder.str("cache"), folder.str()));
  CHECK(contains(again, "cached"));
  CHECK(cache("--verify")["removed"].empty());
  for (const auto& file : fs::directory_iterator(folder.path / "cache"))
    if (fs::file_size(file) > 500) fs::resize_file(file, fs::file_size(file) / 2);
  CHECK_FALSE(cache("--verify")["removed"].empty());
  cache("--clear");
  CHECK(cache("")["entries"] == 0);
}

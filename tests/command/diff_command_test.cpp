// Tests `ptxb diff` from a user's point of view. Compares files, fatbins and folders, and checks exit codes
// and JSON.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "command_kit.h"
#include "folder_kit.h"

namespace ptxbuilder::test::diff_command_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::string golden = PTXBUILDER_TEST_DIR "/golden/",
                  fatbins = PTXBUILDER_TEST_DIR "/compile/device_code/";

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Copies a golden file, and replaces the first `from` by `to`.
void plant(const std::string& name, const std::string& path, const std::string& from = "",
           const std::string& to = "") {
  std::string text = text_of(golden + name);
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  std::ofstream(path) << text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("diff and explain read PTX out of fatbins, by the kernel's name") {
  const Ran same = run(fmt::format("ptxb diff {0}none.fatbin {0}size.fatbin --kernel add", fatbins));
  CHECK(same.code == 0);
  CHECK(same.output == "no difference of meaning\n");
  const Ran other =
      run(fmt::format("ptxb diff {0}none.fatbin {0}speed.fatbin --kernel add --kernel-b twice", fatbins));
  CHECK(other.code == 1);
  CHECK(contains(other, "st.global.f32"));
  const Ran unnamed = run(fmt::format("ptxb diff {0}none.fatbin {0}speed.fatbin", fatbins));
  CHECK(unnamed.code == 2);
  CHECK(contains(unnamed, "none.fatbin: it holds 2 kernels; choose one by name: add, twice"));
  CHECK(contains(run(fmt::format("ptxb explain {}speed.fatbin --kernel twice", fatbins)), "twice"));
}

TEST_CASE("diff: a file that cannot be read is an error that names it, with exit code 2") {
  const Folder folder;
  const std::string cut = folder.path("cut.fatbin"), bytes = folder.path("bytes.ptx");
  std::ofstream(cut) << text_of(fatbins + "none.fatbin").substr(0, 1000);
  std::ofstream(bytes) << "\x01\x02\x03";
  for (const auto& [file, message] :
       {std::pair<std::string, const char*>{cut,
                                            "cut.fatbin: offset 0x0: a fatbin of 1888 B ends beyond 0x3e8"},
        {bytes, "bytes.ptx: ptx 1:1: byte 0x01 does not begin a PTX token"},
        {folder.path("none"), "none: it cannot be read"},
        {"/dev/zero", "/dev/zero: it has more than 268435456 B"},
        {folder.path(""), "is a folder, but"},
        {"/bin/ls", "/bin/ls: it holds no device code"}}) {
    const Ran ran = run(fmt::format("ptxb diff {} {}saxpy.ptx", file, golden));
    CHECK(ran.code == 2);
    CHECK(contains(ran, message));
  }
}

TEST_CASE(
    "explain omits properties that a kernel does not have, and returns 2 if there is nothing to explain") {
  const Ran told = run(fmt::format("ptxb explain {}gemm_cp_async_wgmma.ptx", golden));
  CHECK(told.code == 0);
  CHECK(contains(told, "\n  16 x cp.async.cg.shared::cta.global ["));
  CHECK(told.output.find(": none\n") == std::string::npos);
  CHECK(Json::parse(
            run(fmt::format("ptxb explain --json {}saxpy.ptx", golden)).output)["facts"]["ring"]["stages"] ==
        "none");
  CHECK(run("ptxb explain nowhere.ptx").code == 2);
  const Ran twice = run("ptxb diff - -");
  CHECK(twice.code == 2);
  CHECK(contains(twice, "only one of the two can be standard input, -"));
}

TEST_CASE("a page of one kernel has its design, its barriers and its loops, and links that lead somewhere") {
  const Folder folder;
  const std::string page = folder.path("page.html"), words = "ptxb explain " + std::string(golden);
  const auto page_of = [&](const std::string& kernel) {
    const Ran plain = run(words + kernel), with_page = run(words + kernel + " --html " + page);
    CHECK(with_page.code == 0);
    CHECK(with_page.output == plain.output);
    std::ifstream file(page);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string text = page_of("gemm_persistent.ptx");
  for (const char* part :
       {"<h3>ring</h3>", "<svg ", "<h3>Loop of producer</h3>", "<h3>Loop of consumer</h3>",
        "4 full at <code>", "expects, <a href=\"#L", "prefers-color-scheme: dark", "</html>"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, part);
  for (const char* part : {"http:", "https:", "src="})
    CHECK_MESSAGE(text.find(part) == std::string::npos, part);
  int links = 0;
  for (size_t at = text.find("href=\"#"); at != std::string::npos;
       at = text.find("href=\"#", at + 1), ++links) {
    const std::string line = text.substr(at + 7, text.find('"', at + 7) - at - 7);
    CHECK_MESSAGE((text.find("id=" + line + ">") != std::string::npos ||
                   text.find("id=" + line + " ") != std::string::npos),
                  line);
  }
  CHECK(links > 10);
  CHECK(page_of("hello.ptx").find("It has no loop that copies or multiplies") != std::string::npos);
  const Ran refused = run(words + "hello.ptx --html /nowhere/page.html");
  CHECK(refused.code == 2);
  CHECK(contains(refused, "/nowhere/page.html: it cannot be written"));
}

TEST_CASE("a page shows both loops, with partners, and needs nothing else") {
  const Folder folder;
  const std::string page = folder.path("page.html");
  plant("gemm_persistent.ptx", folder.path("other.ptx"), "], 49152;", "], 49136;");
  const std::string both =
      fmt::format("ptxb diff {}gemm_persistent.ptx {}", golden, folder.path("other.ptx"));
  CHECK(run(fmt::format("{} --html {}", both, page)).code == 1);
  std::ifstream file(page);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  for (const char* part : {"<h3>Loop of producer</h3>", "<h3>Loop of consumer</h3>", "49136 B", "href=\"#A",
                           "id=A", "data-pair=1", "<svg ", "prefers-color-scheme: dark", "gemm_persistent",
                           "shared::cluster", "</html>"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, part);
  for (const char* part : {"http:", "https:", "src=", " alone\""})  // all lines have a partner
    CHECK_MESSAGE(text.find(part) == std::string::npos, part);
  CHECK(contains(run(both + " --html /nowhere/page.html"), "/nowhere/page.html: it cannot be written"));
  const std::string folders = fmt::format("ptxb diff {0} {0} --html {1}", golden, page);
  CHECK(contains(run(folders), "--html shows two kernels, but these are folders"));
}

TEST_CASE("diff of two folders: by file, by kernel, and in numbers") {
  const Folder folder;
  const std::string a = folder.path("a"), b = folder.path("b");
  for (const std::string& f : {a, b}) {
    fs::create_directory(f);
    plant("gemm_tile.ptx", f + "/same.ptx");
    fs::copy(fatbins + "size.fatbin", f + "/two.fatbin");
    std::ofstream(f + "/notes.txt") << f;  // the file has no device code
  }
  const std::string both = fmt::format("ptxb diff {} {}", a, b);
  Ran ran = run(both);
  CHECK(ran.code == 0);
  CHECK(contains(ran, "== same.ptx: no difference of meaning\n"));
  CHECK(contains(ran, "== two.fatbin, twice: no difference of meaning\n"));
  CHECK(contains(ran,
                 "3 kernels or files: 3 the same, 0 different, 0 only in A, 0 only in B, 0 not compared\n"));

  plant("saxpy.ptx", a + "/changed.ptx");
  plant("saxpy.ptx", b + "/changed.ptx", "fma.rn", "fma.rz");
  plant("hello.ptx", b + "/more.ptx");
  ran = run(both);
  CHECK(ran.code == 1);
  CHECK(
      contains(ran, "== changed.ptx: 2 differences\nresult\n  epilogue: arithmetic in f32: 1 x fma.rn.f32"));
  CHECK(contains(ran, "\n  all roles outside of its loops: st.global.b32, operands: fma.rn.f32("));
  CHECK(contains(ran, "== more.ptx: only in B\n"));
  CHECK(contains(ran,
                 "5 kernels or files: 3 the same, 1 different, 0 only in A, 1 only in B, 0 not compared\n"));
  const Json json = Json::parse(run(both + " --json").output);
  CHECK(json["same"] == false);
  REQUIRE(json["files"].size() == 5);
  CHECK(json["files"][0]["file"] == "changed.ptx");
  CHECK(json["files"][0]["facts"].size() == 1);
  CHECK(json["files"][0]["differences"].size() == 1);
  CHECK(json["files"][1]["only_in"] == "b");
  CHECK(json["files"][3]["kernel"] == "add");

  ran = run(both + " --kernel add");
  CHECK(contains(ran, "1 kernels or files: 1 the same"));
  CHECK(contains(run(both + " --kernel nope"), "has a kernel 'nope'"));
  CHECK(contains(run(both + " --kernel-b add"), "--kernel-b names a kernel of B"));

  std::ofstream(b + "/same.ptx") << "no PTX";
  ran = run(both);
  CHECK(ran.code == 2);  // all other files are still compared
  CHECK(contains(ran, "/b/same.ptx: ptx 1:1: expected a directive"));
  CHECK(contains(ran, "2 the same, 1 different, 0 only in A, 1 only in B, 1 not compared\n"));
  CHECK(run(fmt::format("ptxb diff {0} {0}", folder.path("none"))).code == 2);
}

}  // namespace ptxbuilder::test::diff_command_test

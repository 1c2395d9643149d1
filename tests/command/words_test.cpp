// Tests how the command lines handle words that are numbers, files and folders. Invalid words are refused,
// and each is tested together with a valid one. Output that cannot be written is a failure.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "command_kit.h"
#include "folder_kit.h"

namespace ptxbuilder::test::words_test {
namespace {

using Json = nlohmann::json;

// Checks that a command ends with `code` and prints `text`.
void refused(const std::string& words, int code, const std::string& text) {
  CAPTURE(words);
  const Ran ran = run(words);
  CHECK(ran.code == code);
  CHECK(contains(ran, text));
}

const std::string saxpy = "ptxb run saxpy --m 1 --n 64 --device emulator --assembler none ";
const std::string gemm = "ptxb run gemm --m 64 --n 64 --k 64 --device emulator --assembler none ";

}  // namespace

TEST_CASE("output that cannot be written is a failure") {
  const std::string full = " 2>&1 >/dev/full #";  // comments out the redirection that run() appends
  for (const std::string& words :
       {std::string("ptxb list"), std::string("ptxb list --json"), std::string("ptxb --help"),
        std::string("ptxb version --device emulator"), std::string("ptxb cache --json"),
        std::string("ptxb explain-choice 64 64 64 --json"), saxpy + "--json",
        std::string("saxpy --m 1 --n 64 --device emulator --assembler none --json"),
        std::string("saxpy --list"), std::string("gemm_bench --list"), std::string("gemm_bench --help"),
        std::string("attention_bench --list"), std::string("ptxb layout 4:1")}) {
    CAPTURE(words);
    const Ran ran = run(words + full);
    CHECK(ran.code == 1);
    CHECK(contains(ran, "No space left on device"));
    CHECK(ran.output.starts_with("error: "));
    CHECK(run(words + " >/dev/null").code == 0);
  }
  // Here, 1 would mean that something was found.
  refused("ptxb lint kernel:saxpy" + full, 2, "No space left on device");
  refused("ptxb lint kernel:saxpy --json" + full, 2, "No space left on device");
  refused("ptxb lint --rules" + full, 2, "No space left on device");
  refused("ptxb explain kernel:saxpy" + full, 2, "No space left on device");
  refused("ptxb diff kernel:saxpy kernel:saxpy" + full, 2, "No space left on device");
  refused("ptxb list 2>&1 >&- #", 1, "standard output could not be written");
}

TEST_CASE("a time limit is a number of seconds above 0, however great") {
  const Folder folder;
  for (const char* limit : {"0", "-3", "nan", "-inf", "soon"}) {
    refused(saxpy + "--time-limit " + limit, 2, "--time-limit");
    refused("saxpy --time-limit " + std::string(limit), 2, "--time-limit");
    refused("ptxb sim k.ptx --launch l.json --time-limit " + std::string(limit), 2, "--time-limit");
  }
  refused("gemm_bench --list --time-limit nan", 2, "'nan' is not a number");
  for (const char* limit : {"60", "1e300", "inf", "9.3e15"}) {
    CAPTURE(limit);
    CHECK(run(saxpy + "--time-limit " + limit).code == 0);
  }
}

TEST_CASE("a number outside the range of its option is refused with the range") {
  for (const char* seed : {"99999999999999999999999", "-1", "18446744073709551616", "''"}) {
    refused(saxpy + "--seed " + seed, 2, "must be an integer from 0 to 18446744073709551615");
    refused("gemm_bench --list --seed " + std::string(seed), 2,
            "must be an integer from 0 to 18446744073709551615");
  }
  CHECK(contains(run(saxpy + "--seed 18446744073709551615"), "seed 18446744073709551615:"));
  refused(saxpy + "--seed 0x10", 2, "'0x10' is not an integer in decimal digits");
  refused(saxpy + "--cache-limit -1", 2, "Value -1 not in range 0 to 1099511627776");
  refused(saxpy + "--cache-limit 99999999999999999999", 2, "not in range 0 to 1099511627776");
  refused(saxpy + "--seeds 0", 2, "not in range 1 to 100000");
  refused(saxpy + "--n 99999999999999999999", 2, "must be an integer from -9223372036854775808 to ");
  CHECK(run(saxpy + "--cache-limit 0").code == 0);
}

TEST_CASE("a field below its least value is refused with that value, which may be 0") {
  for (const char* field : {"sms", "stages", "bk"})
    refused(fmt::format("{}--{} -4", gemm, field), 2,
            fmt::format("field {} = -4: it must be at least 0\n", field));
  refused(gemm + "--bm 0", 2, "field bm = 0: it must be at least 64 and a multiple of 64\n");
}

TEST_CASE("a stage deeper than shared memory is refused") {
  refused(gemm + "--bk 1000000000", 1,
          "depth 1000000000; a stage of 128 rows and 256 columns can have at most 302 bf16 along k");
  refused(gemm + "--bk 320", 1, "can have at most 302 bf16 along k");
  refused(gemm + "--bk 256 --stages 2", 1,
          "2 stages of 196608 B do not fit in the 232448 B that the epilogue leaves");
}

TEST_CASE(
    "options that add up 8-bit floats exactly are refused for other types, to which they do not apply") {
  refused(gemm + "--promote yes", 2,
          "field promote = yes with a = bf16: leave it out; only sums of e4m3 and e5m2 need it");
  CHECK(run(gemm + "--promote yes --a e4m3 --bn 128").code == 0);
  refused("ptxb explain-choice 64 64 64 --slow-accumulation", 2,
          "slow accumulation of bf16 is not possible: it is for e4m3 and e5m2");
  CHECK(run("ptxb explain-choice 64 64 64 --slow-accumulation --dtype e5m2").code == 0);
  refused("gemm_bench --list --slow-accumulation", 2,
          "slow accumulation of bf16 is not possible: it is for e4m3 and e5m2");
  CHECK(run("gemm_bench --list --set fp8 --slow-accumulation").code == 0);
}

TEST_CASE("explain-choice: a tuned file that cannot be read is an error") {
  const Folder folder;
  const std::string choice = "ptxb explain-choice 64 64 64 --tuned-file ";
  refused(choice + folder.path("none"), 1, folder.path("none") + ": cannot be read");
  const Ran of_folder = run(choice + folder.path("."));
  CHECK(of_folder.code == 1);
  CHECK(contains(of_folder, "it is a folder"));
  CHECK(of_folder.output.find("measured again") == std::string::npos);
  std::ofstream(folder.path("empty"));
  CHECK(run(choice + folder.path("empty")).code == 0);
}

TEST_CASE(
    "a cache that is not a folder is an error of `cache`, and is reported once if cubins are not kept") {
  const Folder folder;
  const std::string file = folder.path("file");
  std::ofstream(file) << "no cache";
  refused("ptxb cache --cache-dir " + file, 1,
          file + ": it is not a folder, so it cannot be a cache of PTX and cubins");
  CHECK(run("ptxb cache --cache-dir " + folder.path("new")).code == 0);

  const std::string emit = "ptxb emit saxpy -o " + folder.path("out") + " --cache-dir ";
  const Ran emitted = run(emit + file);
  CHECK(emitted.code == 0);
  if (!std::filesystem::exists(folder.path("out/saxpy.cubin")))
    return;  // without ptxas, there is nothing to keep
  CHECK(contains(emitted, "warning: cubins are not kept, and are assembled anew each time: cache " + file));
  CHECK(run(emit + folder.path("cache")).output.find("warning") == std::string::npos);
  const Ran exported =
      run(fmt::format("ptxb export gemm_tile --config 'n=64 if M < 9' --config n=128 -o {0}/out --no-cache",
                      folder.path(".")));
  CHECK(exported.output.find("warning") == std::string::npos);
}

TEST_CASE("a file that does not end is refused") {
  for (const std::string& words :
       {saxpy + "--ptx /dev/zero", std::string("ptxb sim k.ptx --launch /dev/zero"),
        std::string("ptxb export gemm --ptx -o /tmp --shapes /dev/zero")}) {
    CAPTURE(words);
    const Ran ran = run(words, "timeout 60");
    CHECK(ran.code == 1);
    CHECK(contains(ran, "/dev/zero: cannot be read: it does not end within 1024 MiB"));
  }
  const Folder folder;
  REQUIRE(run("ptxb emit saxpy --assembler none -o " + folder.path("out")).code == 0);
  CHECK(run(saxpy + "--ptx /dev/stdin", "cat " + folder.path("out/saxpy.ptx") + " |").code == 0);
}

TEST_CASE("errors of commands name no line of the library, and those of kernels name their own line") {
  const Ran choice = run("ptxb explain-choice 64 64 64 --dtype tf32 --layout NN");
  CHECK(choice.code == 1);
  CHECK(contains(choice, "gemm: B of tf32 stored along n, but wgmma transposes only 16-bit types"));
  CHECK(choice.output.find(".cpp") == std::string::npos);
  const Ran explained = run("ptxb explain 'kernel:gemm bm=64'");
  CHECK(explained.code == 2);
  CHECK(contains(explained, "64 rows for 2 warpgroups"));
  CHECK(explained.output.find(".cpp") == std::string::npos);
  CHECK(contains(run(gemm + "--bm 64"),
                 "64 rows for 2 warpgroups; each must have a multiple of 64 (gemm_family.cpp:"));
}

TEST_CASE("export: shapes do not override a given field, even if it has its default value") {
  const Folder folder;
  const std::string exported = "ptxb export gemm --ptx --name p -o " + folder.path("out") + " ";
  refused(exported + "--shapes 64x64x64 --bm 128", 2,
          "--bm 128: --shapes chooses this field, and for 64x64x64 its value is 64: pass only one of the two "
          "options");
  refused(exported + "--shapes 64x64x64 --k 512", 2, "--k 512: --shapes chooses this field");
  CHECK_FALSE(std::filesystem::exists(folder.path("out")));
  CHECK(run(exported + "--shapes 64x64x64 --bm 64 --a bf16").code == 0);
}

TEST_CASE("export: invalid shapes are refused") {
  const Folder folder;
  const std::string exported = "ptxb export gemm --ptx --name p -o " + folder.path("out") + " --shapes ";
  refused(exported + "''", 2, "'' has no shape at all");
  refused(exported + "64x64x64,", 2, "'64x64x64,' has no shape after a comma");
  refused(exported + ",64x64x64", 2, "has no shape before a comma");
  refused(exported + "'64x64x64, ,64x64x64'", 2, "has no shape before a comma");
  CHECK_FALSE(std::filesystem::exists(folder.path("out")));
  CHECK(run(exported + "'64x64x64, 64x64x128'").code == 0);
  std::string many = "64x64x64";
  for (int i = 0; i < 40; ++i) many += ",64x64x64";
  CHECK(run(exported + many).code == 0);  // longer than the name of a file may be
}

TEST_CASE("waive: invalid names are refused") {
  for (const char* words :
       {"ptxb run saxpy", "ptxb bench saxpy", "ptxb emit saxpy -o /tmp", "ptxb annotate saxpy",
        "ptxb export saxpy -o /tmp", "ptxb compile saxpy.ll", "saxpy"})
    refused(words + std::string(" --waive spill"), 2, "'spill' cannot be waived; ");
}

TEST_CASE("tune model prints its fit as JSON") {
  const Folder folder;
  std::ifstream all(PTXBUILDER_TEST_DIR "/../kernels/gemm/fit_times.txt");
  std::ofstream some(folder.path("times"));
  size_t lines = 0;
  for (std::string line; std::getline(all, line) && lines < 20; ++lines) some << line << "\n";
  some.close();
  const Json json = Json::parse(run("ptxb tune model --parts 1 --json " + folder.path("times")).output);
  CHECK(json["fitted"]["error"] <= json["as_it_is"]["error"]);
  CHECK(json["fitted"]["products"] > 0);
  CHECK(json["constants"]["launch"] > 0);
  CHECK_FALSE(json.contains("by_others_fit"));
}

}  // namespace ptxbuilder::test::words_test

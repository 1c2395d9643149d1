// Tests the --profile option of the kernels' executables, on the emulator.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "command_kit.h"
#include "ptxbuilder/file_text.h"

namespace ptxbuilder::test::profile_command_test {
namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path = fs::temp_directory_path() / fmt::format("ptxbuilder_profile_test_{}", getpid());
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::string str(const char* name) const { return (path / name).string(); }
};

const std::string kRun = " --device emulator --assembler none --no-cache --profile ";

}  // namespace

TEST_CASE("a profile has each role's regions, each as often as it is entered") {
  const Folder folder;
  const std::string file = folder.str("trace");
  const struct {
    const char* words;
    std::vector<std::string> producer, consumer;
    int tiles;  // tiles that a consumer's warp multiplies, over all CTAs
  } cases[] = {
      {"gemm_warp_specialized --m 264 --n 256 --k 256", {"wait", "load"}, {"mainloop", "store"}, 3},
      {"gemm_pingpong --m 264 --n 128 --k 200 --ctas 1", {"wait", "load"}, {"turn", "mainloop", "store"}, 0},
      {"gemm --m 264 --n 256 --k 256", {"wait", "load"}, {"mainloop", "epilogue"}, 0},
      {"attention --queries 128 --keys 512 --heads 1",
       {"wait", "load"},
       {"wait for queries", "products", "scores", "softmax", "sums", "store"},
       0}};
  for (const auto& c : cases) {
    CAPTURE(c.words);
    const Ran ran = run(c.words + kRun + file + " --json");
    REQUIRE_MESSAGE(ran.code == 0, ran.output);
    const auto json = nlohmann::json::parse(ran.output);
    CHECK(json["verify"]["wrong"] == 0);
    const auto& profile = json["profile"];
    CHECK(profile["file"] == file);
    CHECK(profile["lost"] == 0);
    CHECK(profile["unfinished_warps"] == 0);
    CHECK(profile["event_ns"] >= 0);  // the emulator's clock is coarse
    for (const char* role : {"producer", "consumer"}) {
      CAPTURE(role);
      std::vector<std::string> regions = role == std::string("producer") ? c.producer : c.consumer;
      double share = 0;
      for (const auto& row : profile["rows"])
        if (row["role"] == role && row["region"] != "") {
          const auto region = row["region"].get<std::string>();
          if (region.find('/') == std::string::npos) share += row["share"].get<double>();
          std::erase(regions, region);
          if (row["region"] == "mainloop" && c.tiles) CHECK(row["count"] == 8 * c.tiles);
          CHECK(row["p50_ns"] <= row["p95_ns"]);
        }
      CHECK_MESSAGE(regions.empty(), regions[0]);
      CHECK(share >= 0);
      CHECK(share <= 1.001);
    }
    CHECK(file_text(file).size() > 1000);
  }
}

TEST_CASE("a kernel without regions has its warps' time, and a full buffer says what to do") {
  const Folder folder;
  const Ran none = run("saxpy --m 10 --n 10" + kRun + folder.str("trace"));
  CHECK(none.code == 0);
  CHECK(contains(none, "wrote " + folder.str("trace") + ", for ui.perfetto.dev"));
  CHECK(contains(none, "all warps "));
  CHECK(contains(none, "no regions: region(\"name\", ...) in the kernel makes them"));
  const Ran full = run("gemm_warp_specialized --m 128 --n 256 --k 4096" + kRun + folder.str("trace") +
                       " --profile-records 32");
  CHECK(full.code == 0);
  CHECK(contains(full, "records of events are lost: a warp has room for 32"));
  CHECK(contains(full, "--profile-records N gives a warp room for more records"));
}

TEST_CASE("ptxb profile writes a trace of the kernel's name, or to the file that is given") {
  const Folder folder;
  const std::string words = "ptxb profile saxpy --m 10 --n 10 --device emulator --assembler none --no-cache";
  const Ran named = run(words, "cd " + folder.path.string() + " &&");
  CHECK(named.code == 0);
  CHECK(contains(named, "wrote saxpy.pftrace, for ui.perfetto.dev"));
  CHECK(file_text(folder.str("saxpy.pftrace")).size() > 100);
  const Ran given = run(words + " --profile " + folder.str("other.svg"));
  CHECK(given.code == 0);
  CHECK(file_text(folder.str("other.svg")).starts_with("<svg "));
}

TEST_CASE("where the first run has more events than room, a second has room for all") {
  const Folder folder;
  const Ran ran =
      run("gemm_pingpong --m 128 --n 128 --k 8192 --seed 1 --profile-all" + kRun + folder.str("trace"));
  CHECK(ran.code == 0);
  CHECK(contains(ran,
                 "a warp had room for 512 records of events, but needs more: running again, with room for "));
  CHECK_FALSE(contains(ran, "lost"));
  CHECK(contains(ran, "verified"));
  CHECK(contains(ran, "regions that end in \"completion\" are waits that only this build of the kernel has"));
  for (const char* region : {"wgmma group ", "wgmma completion ", "store completion "})
    CHECK_MESSAGE(contains(ran, region), region);
  CHECK(contains(ran, "wrote " + folder.str("trace")));
}

TEST_CASE("a kernel with watchdog, checks and jitter computes the same, and invalid words are refused") {
  for (const char* kernel :
       {"gemm_warp_specialized --m 264 --n 256 --k 256", "gemm --m 264 --n 256 --k 256"}) {
    const Ran ran = run(std::string(kernel) +
                        " --device emulator --assembler none --no-cache --watchdog --checks --jitter 3");
    CHECK(ran.code == 0);
    CHECK(contains(ran, "verified"));
  }
  const Ran none = run("saxpy --watchdog=0 --device emulator");
  CHECK(none.code == 2);
  CHECK(contains(none, "--watchdog"));
  const Ran word = run("saxpy --jitter often --device emulator");
  CHECK(word.code == 2);
  CHECK(contains(word, "--jitter"));
}

TEST_CASE("a profile in a file that ends in .svg is a picture of each role and a CTA's warps") {
  const Folder folder;
  const Ran ran = run("gemm_pingpong --m 264 --n 128 --k 200 --ctas 1" + kRun + folder.str("turns.svg"));
  CHECK(ran.code == 0);
  CHECK(contains(ran, "wrote " + folder.str("turns.svg") + "\n"));
  const std::string svg = file_text(folder.str("turns.svg"));
  CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  CHECK(svg.ends_with("</svg>\n"));
  for (const char* part :
       {">producer</text>", ">consumer</text>", ">turn</text>", "<title>mainloop: ", "CTA 0 over "})
    CHECK_MESSAGE(svg.find(part) != std::string::npos, part);
}

TEST_CASE("an impossible profile is refused before anything runs") {
  const Folder folder;
  const Ran unwritable = run("saxpy" + kRun + folder.str("no/trace"));
  CHECK(unwritable.code == 1);
  CHECK(contains(unwritable, folder.str("no/trace") + ": cannot be written"));
  const Ran idle = run("saxpy --emit " + folder.str("emitted") + kRun + folder.str("trace"));
  CHECK(idle.code == 1);
  CHECK(contains(idle, "a profile needs a run: pass --verify or --bench with --profile"));
  const Ran few = run("saxpy --profile-records 31" + kRun + folder.str("trace"));
  CHECK(few.code == 2);
  CHECK(contains(few, "--profile-records"));
  const Ran edited = run("ptxb run saxpy --ptx x.ptx" + kRun + folder.str("trace"));
  CHECK(edited.code == 2);
  CHECK(contains(edited, "--profile excludes --ptx"));
}

}  // namespace ptxbuilder::test::profile_command_test

// Differences of kernels: none where a kernel is disguised, and what was planted first where something was.
#include "ptxbuilder/analysis/diff.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/kit/ptx_disguise.h"

using namespace ptxbuilder;
using namespace ptxbuilder::analysis;

namespace {

std::vector<Region> regions_of(const std::string& text) {
  const ptx::Module module = ptx::parse(text);
  const Code code = Code::of(module);
  const Graph graph = Graph::of(code);
  Values values(code, graph);
  return regions(portrait(code, graph, values), code, graph, values);
}

std::string golden(const std::string& name) {
  std::ifstream file(PTXBUILDER_TEST_DIR "/golden/" + name + ".ptx");
  return {std::istreambuf_iterator<char>(file), {}};
}

// Something that is changed, and what the first difference has to say of it.
struct Plant {
  const char* kernel;
  const char* from;
  const char* to;
  const char* region;  // and the event and attribute of the first difference
  const char* event;
  const char* attribute;
  int place = 1;  // which of the places that are so
};

constexpr Plant kPlants[] = {
    {"gemm_warp_specialized", "], 49152", "], 49136", "loop of producer", "expect", "bytes"},
    {"gemm_warp_specialized", "setmaxnreg.dec.sync.aligned.u32 40", "setmaxnreg.dec.sync.aligned.u32 56",
     "role producer", "setmaxnreg", "registers"},
    {"gemm_warp_specialized", "setmaxnreg.inc.sync.aligned.u32 232", "setmaxnreg.inc.sync.aligned.u32 240",
     "role consumer", "setmaxnreg", "registers"},
    {"gemm_warp_specialized", ".maxntid 384", ".maxntid 256", "entry", "threads", "value"},
    {"gemm_warp_specialized", "], 8;", "], 7;", "barriers", "empty", "arrivals of a phase"},
    {"gemm_warp_specialized", "m64n256k16.f32.bf16.bf16", "m64n256k16.f32.f16.f16", "loop of consumer",
     "wgmma", "shape and types"},
    {"gemm_warp_specialized", "1, 1, 0, 0;", "1, -1, 0, 0;", "loop of consumer", "wgmma",
     "scales and transposes"},
    {"gemm_warp_specialized", "1, 1, 0, 0;", "1, 1, 0, 1;", "loop of consumer", "wgmma",
     "scales and transposes", 3},
    {"gemm_warp_specialized", "wgmma.wait_group.sync.aligned 0", "wgmma.wait_group.sync.aligned 1",
     "loop of consumer", "wgmma.wait_group.sync.aligned", "groups left"},
    {"gemm_warp_specialized", "wgmma.fence.sync.aligned;", "", "loop of consumer", "wgmma.fence.sync.aligned",
     ""},
    {"gemm_warp_specialized", "wgmma.commit_group.sync.aligned;", "", "loop of consumer",
     "wgmma.commit_group.sync.aligned", ""},
    {"gemm_warp_specialized", "fence.proxy.async.shared::cta;", "", "consumer outside of its loops",
     "fence.proxy.async.shared::cta", "", 2},
    {"gemm_warp_specialized", "fence.mbarrier_init.release.cluster;", "", "producer outside of its loops",
     "fence.mbarrier_init.release.cluster", ""},
    {"gemm_warp_specialized", "cp.async.bulk.commit_group;", "", "consumer outside of its loops",
     "cp.async.bulk.commit_group", ""},
    {"gemm_warp_specialized", "cp.async.bulk.wait_group.read 1", "cp.async.bulk.wait_group.read 2",
     "consumer outside of its loops", "cp.async.bulk.wait_group.read", "groups left"},
    {"gemm_warp_specialized", "bar.sync 0", "bar.sync 1", "all roles outside of its loops", "bar.sync",
     "operands"},
    {"gemm_warp_specialized", "mbarrier.try_wait.parity.shared::cta.b64",
     "mbarrier.test_wait.parity.shared::cta.b64", "loop of producer", "wait", "form"},
    {"gemm_warp_specialized", "stmatrix.sync.aligned.m8n8.x4.shared",
     "stmatrix.sync.aligned.m8n8.x4.trans.shared", "consumer outside of its loops",
     "stmatrix.sync.aligned.m8n8.x4.shared::cta.b16", ""},
    {"gemm_warp_specialized", "cvt.rn.bf16x2.f32", "cvt.rz.bf16x2.f32", "consumer outside of its loops",
     "cvt.rz.bf16x2.f32", ""},
    {"gemm_warp_specialized", "setp.eq.b32", "setp.ne.b32", "", "", ""},
    {"gemm_warp_specialized", "4611686293305360386", "4611686293305360388", "loop of consumer", "wgmma",
     "A at"},
    {"gemm_warp_specialized", "4611686293305360384", "4611686843061174272", "loop of consumer", "wgmma", "A"},
    {"gemm_warp_specialized", ".2d.shared::cluster", ".3d.shared::cluster", "loop of producer", "copy in",
     "dimensions"},
    {"gemm_warp_specialized", ".minnctapersm 1", ".minnctapersm 2", "entry", ".minnctapersm", "value"},
    {"gemm_warp_specialized", "196640", "196704", "", "", ""},
    {"gemm_pingpong", "], 32768", "], 16384", "loop of producer", "expect", "bytes"},
    {"gemm_warp_specialized", "{%r311, %r9}", "{%r9, %r311}", "loop of producer", "copy in", "coordinates"},
    {"gemm_warp_specialized", "%p20, %r294, 4", "%p20, %r294, 3", "loop of consumer", "wgmma", "A at"},
    {"gemm_warp_specialized", ", 196608;", ", 196616;", "loop of consumer", "wait", "barrier", 3},
    {"gemm_warp_specialized", "mov.pred \t%p24, 0", "mov.pred \t%p24, 1", "loop of consumer", "wgmma",
     "adds to the accumulator"},
    {"saxpy", "@%p1 bra", "@!%p1 bra", "all roles outside of its loops", "branches", "conditions"},
    {"saxpy", "add.s64 \t%rd1,", "add.frobnicate \t%rd1,", "", "", ""},
    {"saxpy", "fma.rn.f32", "fma.rz.f32", "", "st.global.b32", "operands"},
    {"add_multicast", ".multicast::cluster", "", "", "copy in", ""},
    {"gemm_persistent", "wgmma.wait_group.sync.aligned 0", "wgmma.wait_group.sync.aligned 1",
     "loop of consumer", "wgmma.wait_group.sync.aligned", "groups left"},
};

std::string planted(const Plant& plant) {
  std::string text = golden(plant.kernel);
  CAPTURE(std::string(plant.from));
  size_t at = std::string::npos;
  for (int i = 0; i < plant.place; ++i) at = text.find(plant.from, at + 1);
  REQUIRE(at != std::string::npos);
  return text.replace(at, std::string(plant.from).size(), plant.to);
}

}  // namespace

TEST_CASE("a kernel does not differ from itself, however it is disguised") {
  uint64_t seed = std::random_device()();
  for (const auto& entry : std::filesystem::directory_iterator(PTXBUILDER_TEST_DIR "/golden")) {
    if (entry.path().extension() != ".ptx") continue;
    const std::string text = golden(entry.path().stem());
    const std::vector<Region> regions = regions_of(text);
    for (int draw = 0; draw < 12; ++draw) {
      CAPTURE(entry.path());
      CAPTURE(++seed);
      const std::vector<Difference> differences = diff(regions, regions_of(test::Disguise(seed)(text)));
      const std::string first = differences.empty() ? "" : analysis::text(differences[0]);
      REQUIRE(first == "");
    }
  }
}

TEST_CASE("what is planted is the first difference") {
  for (const Plant& plant : kPlants) {
    CAPTURE(std::string(plant.kernel));
    CAPTURE(std::string(plant.from));
    const std::vector<Difference> differences =
        diff(regions_of(golden(plant.kernel)), regions_of(planted(plant)));
    CHECK_FALSE(differences.empty());
    if (differences.empty()) continue;
    const Difference& first = differences[0];
    CAPTURE(analysis::text(first));
    if (*plant.region) CHECK(first.region == plant.region);
    if (*plant.event) CHECK(first.event == plant.event);
    if (*plant.attribute) CHECK(first.attribute == plant.attribute);
  }
}

TEST_CASE("other kernels differ in all their regions, from either side") {
  const auto a = regions_of(golden("gemm_persistent")), b = regions_of(golden("saxpy"));
  const auto forth = diff(a, b), back = diff(b, a);
  CHECK(forth.size() == back.size());
  CHECK(forth.size() > 20);
  for (size_t i = 1; i < forth.size(); ++i) CHECK(forth[i - 1].weight <= forth[i].weight);
}

// Tests the facts of golden kernels, as their authors wrote them.
#include "ptxbuilder/analysis/facts.h"

#include <doctest/doctest.h>

#include "tests/kit/golden_kit.h"

namespace ptxbuilder::test::facts_test {
using namespace analysis;

namespace {

std::vector<Region> facts_of(const std::string& text) {
  KernelAnalysis kernel(text);
  return facts(kernel);
}

struct Fact {
  const char* kernel;
  const char* region;
  const char* kind;
  const char* value;
};

constexpr Fact kFacts[] = {
    {"gemm", "launch", "waits for the previous launch", "consumer, producer"},
    {"gemm", "launch", "lets the next launch begin", "producer"},
    {"gemm", "roles", "producer", "1 warp of 24 registers"},
    {"gemm", "roles", "consumer", "8 warps of 240 registers"},
    {"gemm", "roles", "other", "3 warps"},
    {"gemm", "ring", "from a stage to the next", "16384 B, 32768 B"},
    {"gemm", "ring", "the producer's first parity", "1"},
    {"gemm", "copies in", "step along the tensors in an iteration", "64"},
    {"gemm", "copies in", "multicast", "no"},
    {"gemm", "mainloop", "A by warp", "4 warps at 0 B, 4 warps at 8192 B"},
    {"gemm", "mainloop", "a stage is freed", "the one multiplied last"},
    {"gemm", "mainloop", "products outside of the loop", "16 x wgmma.mma_async.m64n256k16.f32.bf16.bf16"},
    {"gemm", "epilogue", "out of shared memory", "4 x cp.async.bulk.tensor.2d.global.bulk_group"},
    {"gemm", "epilogue", "into shared memory", "16 x stmatrix.m8n8.x4"},
    {"gemm", "epilogue", "products among the stores", "12"},
    {"gemm", "epilogue", "meetings", "8 of 128 threads"},
    {"gemm", "schedule", "tiles of a CTA", "several, in a loop"},
    {"gemm", "start and end", "prefetched tensor maps", "3"},
    {"gemm_pingpong", "mainloop", "A by warp", "8 warps at 0 B"},
    {"gemm_pingpong", "mainloop", "places of B", "at 2 x (0, 32, 64, 96) B"},
    {"gemm_pingpong", "schedule", "barriers for other ends", "2 of 4 arrivals"},
    {"gemm_pingpong", "epilogue", "arithmetic in f32", "none"},  // integers are divided through f32
    {"gemm_tma_register_a", "mainloop", "A", "registers"},
    {"gemm_tma_register_a", "mainloop", "scales and transposes", "1, 1, 0"},
    {"add_multicast", "launch", "cluster", "2,1,1"},
    {"add_multicast", "start and end", "synchronization before the loops",
     "barrier.cluster.arrive, barrier.cluster.wait, bar.sync, barrier.cluster.arrive, barrier.cluster.wait"},
    {"saxpy", "epilogue", "arithmetic in f32", "1 x fma.rn.f32"},
    {"saxpy", "schedule", "sums through memory", "1 x st.global.b32"},
};

const Region& region_of(const std::vector<Region>& all, const std::string& name) {
  for (const Region& region : all)
    if (region.name == name) return region;
  FAIL("no region ", name);
  return all[0];
}

}  // namespace

TEST_CASE("facts of golden kernels") {
  std::string kernel;
  std::vector<Region> all;
  for (const Fact& fact : kFacts) {
    if (kernel != fact.kernel) all = facts_of(golden(kernel = fact.kernel));
    CAPTURE(kernel);
    CAPTURE(std::string(fact.kind));
    std::string found;
    for (const Event& e : region_of(all, fact.region).events)
      if (e.kind == fact.kind) found = e.attributes.at(0).value;
    CHECK(found == fact.value);
  }
}

TEST_CASE("every kernel has the same facts, and each says what another value may mean") {
  const std::vector<Region> a = facts_of(golden("gemm")), b = facts_of(golden("saxpy"));
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].name == b[i].name);
    CHECK(a[i].is_fact);
    REQUIRE(a[i].events.size() == b[i].events.size());
    for (size_t e = 0; e < a[i].events.size(); ++e) {
      CHECK(a[i].events[e].kind == b[i].events[e].kind);
      CHECK_FALSE(a[i].events[e].attributes.at(0).effect.empty());
      CHECK(a[i].events[e].attributes[0].value.find('#') == std::string::npos);
    }
  }
}

}  // namespace ptxbuilder::test::facts_test

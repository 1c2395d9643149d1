// Tests CTAs whose order affects the results. A seed must have one result with any number of host threads.
#include <doctest/doctest.h>

#include "emulator_kit.h"

namespace ptxbuilder::runtime {
namespace emulator_turns_test {
namespace {

// Each CTA adds to 256 sums, in an order that affects their rounding. It then reads one of its sums, takes a
// ticket, and stores to the place that the ticket names.
const char* const adds = R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 sums, .param .u64 tickets, .param .u32 tickets_too) {
.reg .pred %p<3>; .reg .b32 %r<20>; .reg .f32 %f<10>; .reg .b64 %rd<12>;
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [sums]; ld.param.u64 %rd3, [tickets]; ld.param.u32 %r9, [tickets_too];
mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.s32 %r3, %r1, 256, %r2;
mul.wide.u32 %rd4, %r3, 4; add.s64 %rd4, %rd1, %rd4; ld.global.f32 %f1, [%rd4];
mul.wide.u32 %rd5, %r2, 4; add.s64 %rd5, %rd2, %rd5;
red.relaxed.gpu.global.add.f32 [%rd5], %f1; mul.f32 %f2, %f1, 0f3EAAAAAB; red.relaxed.gpu.global.add.f32 [%rd5], %f2;
setp.eq.u32 %p1, %r9, 0; @%p1 bra D; setp.ne.u32 %p2, %r2, 0; @%p2 bra D;
ld.relaxed.gpu.global.f32 %f3, [%rd5]; atom.relaxed.gpu.global.add.u32 %r5, [%rd3], 1;
mul.wide.u32 %rd6, %r5, 8; add.s64 %rd6, %rd3, %rd6; st.global.u32 [%rd6+8], %r1; st.global.f32 [%rd6+12], %f3;
D: ret; })";

std::vector<uint32_t> run(uint64_t seed, int threads, bool race_check, uint32_t tickets_too) {
  constexpr uint32_t kCtas = 24;
  EmulatorOptions options;
  options.seed = seed;
  options.threads = threads;
  options.race_check = race_check;
  Bench bench(adds, 256, options);
  std::mt19937 engine(7);
  std::normal_distribution<float> normal;
  std::vector<float> x(kCtas * 256);
  for (float& v : x) v = normal(engine);
  const Address from = bench.upload(x), sums = bench.upload(std::vector<float>(256)),
                tickets = bench.upload(std::vector<uint32_t>(2 + 2 * kCtas));
  bench.run({kCtas, 1, 1}, 0, from, sums, tickets, tickets_too);
  std::vector<uint32_t> all = bench.download<uint32_t>(sums, 256);
  const std::vector<uint32_t> more = bench.download<uint32_t>(tickets, 2 + 2 * kCtas);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST_CASE("sums and tickets of CTAs are the same with any number of host threads") {
  for (const uint32_t tickets_too : {0u, 1u})
    for (const bool race_check : {true, false})
      for (const uint64_t seed : {0u, 1u, 2u, 3u, 5u}) {
        const std::vector<uint32_t> one = run(seed, 1, race_check, tickets_too);
        CAPTURE(seed);
        CHECK(run(seed, 2, race_check, tickets_too) == one);
        CHECK(run(seed, 5, race_check, tickets_too) == one);
      }
}

TEST_CASE("a CTA that fails ahead of its turn is reported once those before it are done") {
  const std::string fails =
      std::string(adds).insert(std::string(adds).find("red.relaxed"), "setp.eq.u32 %p1, %r1, 3; @%p1 trap; ");
  for (const int threads : {1, 4}) {
    EmulatorOptions options;
    options.threads = threads;
    Bench bench(fails, 256, options);
    const Address x = bench.upload(std::vector<float>(24 * 256, 1)),
                  sums = bench.upload(std::vector<float>(256));
    CHECK(fault_of([&] { bench.run({24, 1, 1}, 0, x, sums, Address{0}, 0u); }) == Fault::trap);
    CHECK(bench.download<float>(sums, 1)[0] > 3.9f);
    CHECK(bench.download<float>(sums, 1)[0] < 4.1f);
  }
}

}  // namespace
}  // namespace emulator_turns_test
}  // namespace ptxbuilder::runtime

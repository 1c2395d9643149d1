// The lanes of a warp go their own ways: they leave alone, wait for each other, and come together where the
// program asks for it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "emulator_kit.h"

namespace ptxbuilder::runtime::emulator_threads_test {
namespace {

// A kernel of `threads` threads around `body`: %r0 tid.x, %r1 the lane, %rd0 of a word of global memory for
// each thread, which is 0 at first, %rd1 of this thread's own, %r2 the address of `lock` in shared memory,
// %r3 of tile + 4 tid.
std::string kernel(const std::string& body) {
  return fmt::format(R"(.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p) {{
.shared .align 8 .b8 lock[8]; .shared .align 16 .b8 tile[1024];
.reg .b32 %r<20>; .reg .b64 %rd<8>; .reg .pred %p<6>; .reg .f32 %f<8>;
mov.u32 %r0, %tid.x; mov.u32 %r1, %laneid; mov.u32 %r2, lock; mov.u32 %r3, tile; shl.b32 %r4, %r0, 2; add.u32 %r3, %r3, %r4;
ld.param.u64 %rd0, [p]; mul.wide.u32 %rd1, %r0, 4; add.s64 %rd1, %rd0, %rd1;
{}
ret;
}}
)",
                     body);
}

// What all threads have stored on every schedule, or the first report.
struct Result {
  std::vector<uint32_t> words;
  std::optional<Fault> fault;
  std::string what;
};

Result run(const std::string& body, uint32_t threads = 64, uint64_t seeds = 12) {
  Result r;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    EmulatorOptions options;
    options.seed = seed;
    r.fault = fault_of(
        [&] {
          Bench bench(kernel(body), threads, options);
          Address p = bench.upload(std::vector<uint32_t>(threads));
          bench.run_for(std::chrono::seconds(10), {1, 1, 1}, 0, p);
          const auto words = bench.download<uint32_t>(p, threads);
          if (seed == 0) r.words = words;
          CHECK(words == r.words);
        },
        &r.what);
    if (r.fault) return r;
  }
  return r;
}

// The words that lanes below `from` leave as they are.
std::vector<uint32_t> constant(uint32_t threads, uint32_t value, uint32_t below = 1000) {
  std::vector<uint32_t> words(threads);
  for (uint32_t i = 0; i < std::min(threads, below); ++i) words[i] = value;
  return words;
}

void check(const char* name, const std::string& body, const std::vector<uint32_t>& expected) {
  CAPTURE(name);
  const Result r = run(body, static_cast<uint32_t>(expected.size()));
  CHECK_MESSAGE(!r.fault, r.what);
  CHECK(r.words == expected);
}

const std::string early = "setp.ge.u32 %p1, %r0, 50;\n@%p1 bra END;\n";

TEST_CASE("emulator: lanes that return leave, also those that jump to the last ret") {
  check("bar.sync",
        early +
            "st.shared.b32 [%r3], 7;\nbar.sync 0;\nld.shared.b32 %r5, [tile+4];\nst.global.b32 [%rd1], "
            "%r5;\nEND:",
        constant(64, 7, 50));
  check("barrier.sync without .aligned",
        early +
            "st.shared.b32 [%r3], 7;\nbarrier.sync 0;\nld.shared.b32 %r5, [tile+4];\nst.global.b32 [%rd1], "
            "%r5;\nEND:",
        constant(64, 7, 50));
  check("barrier.sync for a count of threads",
        early + "barrier.sync 1, 64;\nst.global.b32 [%rd1], 3;\nEND:", constant(64, 3, 50));
  check("barrier.red",
        early +
            "setp.lt.u32 %p2, %r0, 60;\nbarrier.red.popc.u32 %r5, 0, %p2;\nst.global.b32 [%rd1], %r5;\nEND:",
        constant(64, 50, 50));
  check("bar.warp.sync", early + "bar.warp.sync -1;\nst.global.b32 [%rd1], 3;\nEND:", constant(64, 3, 50));
  check("a vote",
        early +
            "setp.lt.u32 %p2, %r0, 60;\nvote.sync.all.pred %p3, %p2, -1;\nselp.u32 %r5, 1, 2, %p3;\n"
            "st.global.b32 [%rd1], %r5;\nEND:",
        constant(64, 1, 50));
  check("a shuffle", early + "shfl.sync.idx.b32 %r5, %r1, 4, 31, -1;\nst.global.b32 [%rd1], %r5;\nEND:",
        constant(64, 4, 50));
  check("the barrier of a cluster",
        early + "barrier.cluster.arrive;\nbarrier.cluster.wait;\nst.global.b32 [%rd1], 3;\nEND:",
        constant(64, 3, 50));
  check("those that arrived and left without waiting count once",
        "setp.lt.u32 %p1, %r0, 40;\n@%p1 bra A;\nbarrier.arrive 2, 64;\nbra END;\nA: barrier.sync 2, "
        "64;\nst.global.b32 [%rd1], 3;\nEND:",
        constant(64, 3, 40));
}

TEST_CASE("emulator: lanes of a warp that wait for each other go on") {
  check(
      "a lock that every lane takes",
      "setp.eq.u32 %p1, %r0, 0;\n@%p1 st.shared.b32 [%r2], 0;\n@%p1 st.shared.b32 [%r2+4], 0;\nbar.sync 0;\n"
      "L: atom.acquire.cta.shared.cas.b32 %r5, [%r2], 0, 1;\nsetp.ne.u32 %p2, %r5, 0;\n@%p2 bra L;\n"
      "ld.shared.b32 %r6, [%r2+4];\nadd.u32 %r6, %r6, 1;\nst.shared.b32 [%r2+4], %r6;\n"
      "atom.release.cta.shared.exch.b32 %r7, [%r2], 0;\nbar.sync 0;\nld.shared.b32 %r6, [%r2+4];\n"
      "st.global.b32 [%rd1], %r6;",
      constant(64, 64));
  check("a lane waits for what the next one stores",
        "st.shared.b32 [%r3], 0;\nbar.warp.sync -1;\nsetp.eq.u32 %p1, %r1, 31;\n@%p1 bra T;\n"
        "W: ld.volatile.shared.b32 %r5, [%r3+4];\nsetp.eq.u32 %p2, %r5, 0;\n@%p2 bra W;\n"
        "T: st.volatile.shared.b32 [%r3], 1;\nst.global.b32 [%rd1], 1;",
        constant(32, 1));
}

TEST_CASE("emulator: each group of lanes has its own mask") {
  const std::string group =
      "and.b32 %r5, %r1, 24;\nmov.u32 %r6, 255;\nshl.b32 %r6, %r6, %r5;\n";  // eight lanes each
  auto sums = constant(32, 0);
  for (uint32_t i = 0; i < 32; ++i) sums[i] = 8 * (i / 8 * 8) + 28;
  check("a sum of each eight lanes", group + "redux.sync.add.u32 %r7, %r1, %r6;\nst.global.b32 [%rd1], %r7;",
        sums);
  check(
      "the same by shuffles",
      group +
          "mov.u32 %r7, %r1;\nshfl.sync.bfly.b32 %r8, %r7, 4, 0x181f, %r6;\nadd.u32 %r7, %r7, %r8;\n"
          "shfl.sync.bfly.b32 %r8, %r7, 2, 0x181f, %r6;\nadd.u32 %r7, %r7, %r8;\n"
          "shfl.sync.bfly.b32 %r8, %r7, 1, 0x181f, %r6;\nadd.u32 %r7, %r7, %r8;\nst.global.b32 [%rd1], %r7;",
      sums);
  auto alike = constant(32, 0);
  for (uint32_t i = 0; i < 32; ++i) alike[i] = (i % 5 < 2 ? 7u : 6u);
  check("lanes of one value, which match.sync finds",
        "rem.u32 %r5, %r1, 5;\nmatch.any.sync.b32 %r6, %r5, -1;\nredux.sync.add.u32 %r7, 1, %r6;\n"
        "st.global.b32 [%rd1], %r7;",
        alike);
  check("one warp barrier for lanes that come from several places",
        "st.shared.b32 [%r3], %r1;\nsetp.lt.u32 %p1, %r1, 16;\n@%p1 bra A;\nbar.warp.sync -1;\nmov.u32 %r5, "
        "2;\nbra "
        "B;\nA: mov.u32 %r5, 2;\nbar.warp.sync -1;\nB: st.global.b32 [%rd1], %r5;",
        constant(32, 2));
  check("a guard that only some lanes pass",
        "setp.lt.u32 %p1, %r1, 16;\nmov.u32 %r5, 9;\n@%p1 redux.sync.add.u32 %r5, 1, 0xffff;\n"
        "@!%p1 redux.sync.add.u32 %r5, 1, 0xffff0000;\nst.global.b32 [%rd1], %r5;",
        constant(32, 16));
}

TEST_CASE("emulator: an .aligned instruction of a part of a warp is named, whichever it is") {
  const std::string half = "setp.ge.u32 %p1, %r1, 16;\n";
  for (const char* instruction :
       {"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r2];",
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {%r0};",
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0, %f1, %f2, %f3}, {%r0, %r0, %r0, %r0}, "
        "{%r0, %r0}, "
        "{0f00000000, 0f00000000, 0f00000000, 0f00000000};",
        "movmatrix.sync.aligned.m8n8.trans.b16 %r5, %r0;", "wgmma.fence.sync.aligned;",
        "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;",
        "setmaxnreg.dec.sync.aligned.u32 24;", "bar.sync 0;", "barrier.sync.aligned 0;", "bar.arrive 1, 128;",
        "barrier.cluster.arrive.aligned;"}) {
    CAPTURE(instruction);
    const std::string call = std::string(instruction) + "\n";
    for (const std::string& body :
         {half + "@%p1 bra A;\n" + call + "A: bar.sync 0;",
          half + "@%p1 bra A;\n" + call + "bra B;\nA: " + call + "B:", half + "@%p1 " + call}) {
      CAPTURE(body);
      const Result r = run(body, 128, 4);
      CHECK_MESSAGE(r.fault == Fault::divergence, r.what);
      CHECK_MESSAGE(r.what.find("of the warp must execute it together") != std::string::npos, r.what);
    }
  }
}

TEST_CASE("emulator: a mask that leaves out its own lane is named") {
  const Result r = run("redux.sync.add.u32 %r5, %r1, 0x7fffffff;", 32, 1);
  CHECK(r.fault == Fault::divergence);
  CHECK_MESSAGE(r.what.find("lane 31") != std::string::npos, r.what);
}

}  // namespace
}  // namespace ptxbuilder::runtime::emulator_threads_test

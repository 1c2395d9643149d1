// Tests `ptxb sim --explore` without its command line: all schedules of small programs, the relevant
// schedules of a large program, and reports of faults, which name the schedule that reproduces the fault.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "error_kit.h"
#include "kernels/simulate/simulate.h"
#include "runtime/emulator/exploration.h"

namespace ptxbuilder::test::explore_test {
using namespace command;
namespace {

// Explores a kernel around `body`, with one or more threads in each CTA. %rd1 is the address of zeros, and
// %r1 the CTA.
Simulation explore(const std::string& body, uint32_t ctas, uint64_t most, const std::string& outputs,
                   const std::string& schedule = {}, uint32_t threads = 1) {
  const std::string ptx =
      ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {\n"
      ".reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .pred %p<4>;\n"
      "ld.param.u64 %rd1, [p]; mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 1;\n" +
      body + "ret;\n}\n";
  const std::string file = fmt::format(R"({{"grid": {}, "block": {},
"buffers": [{{"name": "m", "dtype": "u32", "shape": [64]}}], "parameters": [{{"pointer": "m"}}], "outputs": [{}]}})",
                                       ctas, threads, outputs);
  SimulateOptions options;
  if (schedule.empty())
    options.explore = most;
  else
    options.schedule = schedule;
  return simulate(ptx, launch_from_json(file, "launch.json"), options);
}

std::string print(int elements) { return fmt::format(R"({{"buffer": "m", "print": {}}})", elements); }

std::string equals(const char* formula) {
  return fmt::format(R"({{"buffer": "m", "equals": {{"formula": "{}"}}}})", formula);
}

// Returns the text after "schedule " in a report, up to the end of its line.
std::string schedule_in(const std::string& report) {
  const size_t at = report.rfind("schedule ");
  REQUIRE_MESSAGE(at != std::string::npos, report);
  return report.substr(at + 9, report.find_first_of("\n)", at) - at - 9);
}

const std::string buffering =
    "@%p1 bra T;\nst.relaxed.gpu.global.u32 [%rd1+64], 1;\nld.relaxed.gpu.global.u32 %r2, [%rd1+128];\n"
    "st.global.u32 [%rd1], %r2;\nret;\n"
    "T: st.relaxed.gpu.global.u32 [%rd1+128], 1;\nld.relaxed.gpu.global.u32 %r2, [%rd1+64];\n"
    "st.global.u32 [%rd1+4], %r2;\n";
const std::string lock =
    "W: atom.acquire.gpu.global.cas.b32 %r5, [%rd1+64], 0, 1;\nsetp.ne.u32 %p2, %r5, 0;\n@%p2 bra W;\n"
    "ld.global.u32 %r6, [%rd1];\nadd.u32 %r6, %r6, 1;\nst.global.u32 [%rd1], %r6;\n"
    "st.release.gpu.global.u32 [%rd1+64], 0;\n";
const std::string lost_update =
    "ld.relaxed.gpu.global.u32 %r6, [%rd1];\nadd.u32 %r6, %r6, 1;\nst.relaxed.gpu.global.u32 [%rd1], %r6;\n";

TEST_CASE(
    "an exploration of a small program says what it prints in how many schedules, and that it has run all") {
  const Simulation s = explore(buffering, 2, 1000, print(2));
  CHECK(s.explored_all);
  CHECK(s.faults.empty());
  REQUIRE(s.outcomes.size() == 4);
  uint64_t all = 0;
  for (const Simulation::Outcome& outcome : s.outcomes) {
    all += outcome.schedules;
    const Simulation again = explore(buffering, 2, 1, print(2), outcome.first);
    REQUIRE(again.outcomes.size() == 1);
    CHECK(again.outcomes[0].printed == outcome.printed);
  }
  CHECK(all == static_cast<uint64_t>(s.schedules));
  CHECK(std::ranges::count(s.outcomes, "m = 0 0 ...", &Simulation::Outcome::printed) == 1);
  const Simulation some = explore(buffering, 2, 3, print(2));
  CHECK(!some.explored_all);
  CHECK(some.schedules == 3);
}

TEST_CASE(
    "an exploration passes a lock, whose waiting threads it does not run for ever, and names a broken one") {
  const Simulation right = explore(lock, 3, 100000, equals("select(i == 0, 3, 0)"));
  CHECK(right.explored_all);
  CHECK(right.right());
  CHECK(right.faults.empty());
  std::string broken = lock;
  broken.replace(broken.find("st.release"), 10, "st.relaxed");
  const Simulation s = explore(broken, 2, 1000, print(1));
  REQUIRE(!s.faults.empty());
  CHECK(s.faults[0].kind == runtime::Fault::race);
  const Simulation again = explore(broken, 2, 1, print(1), schedule_in(s.faults[0].report));
  REQUIRE(!again.faults.empty());
  CHECK(again.faults[0].report == s.faults[0].report);
}

TEST_CASE("a deadlock that few schedules have is found, and its schedule shows it again") {
  // Each of two CTAs takes two locks, in its own order.
  auto take = [](int at, const char* label) {
    return fmt::format(
        "{}: atom.acquire.gpu.global.cas.b32 %r5, [%rd1+{}], 0, 1;\nsetp.ne.u32 %p2, %r5, 0;\n@%p2 bra {};\n",
        label, at, label);
  };
  const std::string give =
      "st.release.gpu.global.u32 [%rd1+64], 0;\nst.release.gpu.global.u32 [%rd1+128], 0;\n";
  const std::string crossed = "@%p1 bra T;\n" + take(64, "A") + take(128, "B") + give + "ret;\nT:\n" +
                              take(128, "C") + take(64, "D") + give;
  const Simulation s = explore(crossed, 2, 1000, "");
  REQUIRE(s.faults.size() == 1);
  CHECK(s.faults[0].kind == runtime::Fault::deadlock);
  CHECK(s.schedules > 1);
  const Simulation again = explore(crossed, 2, 1, "", schedule_in(s.faults[0].report));
  REQUIRE(again.faults.size() == 1);
  CHECK(again.faults[0].kind == runtime::Fault::deadlock);
  const std::string ordered = "@%p1 bra T;\n" + take(64, "A") + take(128, "B") + give + "ret;\nT:\n" +
                              take(64, "C") + take(128, "D") + give;
  const Simulation right = explore(ordered, 2, 1000, "");
  CHECK(right.explored_all);
  CHECK(right.faults.empty());
}

TEST_CASE("lanes that part go on where a barrier waits for them, or a lock that one of them holds") {
  // Lanes 20 and above of the second warp return before the barrier.
  const Simulation returned = explore(
      ".shared .align 4 .b8 s[256]; mov.u32 %r2, %tid.x; setp.gt.u32 %p2, %r2, 51; @%p2 ret;\n"
      "mov.u32 %r3, s; shl.b32 %r4, %r2, 2; add.u32 %r4, %r4, %r3; st.shared.u32 [%r4], %r2;\nbar.sync 0;\n"
      "ld.shared.u32 %r5, [s+204]; setp.ne.u32 %p2, %r2, 0; @%p2 bra E; st.global.u32 [%rd1], %r5;\nE:\n",
      1, 100, print(1), {}, 64);
  CHECK(returned.explored_all);
  CHECK(returned.faults.empty());
  REQUIRE(returned.outcomes.size() == 1);
  CHECK(returned.outcomes[0].printed == "m = 51 ...");
  const Simulation locked = explore(lock, 1, 20, equals("select(i == 0, 4, 0)"), {}, 4);
  CHECK(locked.right());
  CHECK(locked.faults.empty());
}

// A thread of one warp copies rows of 16 bytes into a ring of two stages, and a thread of another warp adds
// them up.
std::string ring(int rows) {
  return fmt::format(
      R"(.shared .align 128 .b8 s[32]; .shared .align 8 .b8 full[16]; .shared .align 8 .b8 empty[16];
.reg .b32 %s<24>; .reg .b64 %sd<4>;
mov.u32 %s0, %tid.x; mov.u32 %s1, s; mov.u32 %s2, full; mov.u32 %s3, empty;
setp.ne.u32 %p0, %s0, 0; @%p0 bra I;
mbarrier.init.shared::cta.b64 [%s2], 1; mbarrier.init.shared::cta.b64 [%s2+8], 1;
mbarrier.init.shared::cta.b64 [%s3], 1; mbarrier.init.shared::cta.b64 [%s3+8], 1;
fence.mbarrier_init.release.cluster;
I: bar.sync 0;
and.b32 %s4, %s0, 31; setp.ne.u32 %p2, %s4, 0; @%p2 ret;
mov.u32 %s5, 0; mov.u32 %s15, 0; add.u64 %sd1, %rd1, 64;
@%p0 bra C;
P: and.b32 %s6, %s5, 1; shl.b32 %s7, %s6, 3; add.u32 %s8, %s3, %s7; add.u32 %s9, %s2, %s7;
shr.u32 %s10, %s5, 1; and.b32 %s10, %s10, 1; xor.b32 %s10, %s10, 1;
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%s8], %s10; @!%p2 bra W;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%s9], 16;
shl.b32 %s11, %s6, 4; add.u32 %s11, %s11, %s1;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s11], [%sd1], 16, [%s9];
add.u64 %sd1, %sd1, 16; add.u32 %s5, %s5, 1; setp.lt.u32 %p2, %s5, {0}; @%p2 bra P;
ret;
C: and.b32 %s6, %s5, 1; shl.b32 %s7, %s6, 3; add.u32 %s8, %s3, %s7; add.u32 %s9, %s2, %s7;
shr.u32 %s10, %s5, 1; and.b32 %s10, %s10, 1;
V: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%s9], %s10; @!%p2 bra V;
shl.b32 %s11, %s6, 4; add.u32 %s11, %s11, %s1;
ld.shared.u32 %s12, [%s11]; add.u32 %s15, %s15, %s12;
mbarrier.arrive.shared::cta.b64 _, [%s8];
add.u32 %s5, %s5, 1; setp.lt.u32 %p2, %s5, {0}; @%p2 bra C;
st.global.u32 [%rd1], %s15;
)",
      rows);
}

TEST_CASE("all schedules of a ring of bulk copies are run, and those that miss a wait are named") {
  const Simulation right = explore(ring(4), 1, 5000, print(1), {}, 64);
  CHECK_MESSAGE(right.explored_all, right.schedules);
  CHECK(right.faults.empty());
  CHECK(right.outcomes.size() == 1);
  std::string early = ring(3);  // the stage is given back before its load
  const std::string load = "ld.shared.u32 %s12, [%s11]; add.u32 %s15, %s15, %s12;\n",
                    give = "mbarrier.arrive.shared::cta.b64 _, [%s8];\n";
  early.replace(early.find(load), load.size() + give.size(), give + load);
  const Simulation s = explore(early, 1, 20000, print(1), {}, 64);
  REQUIRE(!s.faults.empty());
  CHECK(s.faults[0].kind == runtime::Fault::race);
  const Simulation again = explore(early, 1, 1, print(1), schedule_in(s.faults[0].report), 64);
  REQUIRE(!again.faults.empty());
  CHECK(again.faults[0].report == s.faults[0].report);
}

TEST_CASE("of a program with too many schedules, those are run that preempt where accesses clash") {
  // Each of eight CTAs adds to its own counters. The first two CTAs also add to a shared counter, in two
  // steps.
  std::string body = "mul.wide.u32 %rd2, %r1, 16;\nadd.u64 %rd2, %rd2, %rd1;\n";
  body += "setp.gt.u32 %p3, %r1, 1;\n@%p3 bra O;\n" + lost_update + "O:\n";
  for (int i = 0; i < 12; ++i)
    body += "red.relaxed.gpu.global.add.u32 [%rd2+64], 1;\nred.relaxed.gpu.global.add.u32 [%rd1+32], 1;\n";
  const std::string outputs =
      equals("select(i == 0, 2, select(i == 8, 96, select((i >= 16) * (i % 4 == 0) * (i < 48), 12, 0)))");
  const Simulation s = explore(body, 8, 300, outputs);
  CHECK(!s.explored_all);
  REQUIRE(s.comparisons.size() == 1);
  CHECK_MESSAGE(s.comparisons[0].first_wrong.find("m[0] is 1, expected 2") == 0,
                s.comparisons[0].first_wrong);
  const Simulation again = explore(body, 8, 1, outputs, schedule_in(s.comparisons[0].first_wrong));
  CHECK(!again.right());
}

TEST_CASE("a schedule's name that is none, or of another program, is refused") {
  for (const char* name : {"x", "1:", "1:2,", ":3", "1:2;3:4", "1"})
    CHECK_ERROR(runtime::Exploration{std::string(name)}, "it must be 'plain' or PLACE:CHOICE,...");
  CHECK_ERROR(explore(buffering, 2, 1, "", "2:7"), "choice 7 was requested at place 2");
}

}  // namespace
}  // namespace ptxbuilder::test::explore_test

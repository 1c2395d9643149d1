// Tests planted hangs and their twins. A hang must be reported with its line, its barrier and the likely
// cause, and a twin must end.
//
//   watchdog_test [--device=emulator|cuda|auto]
#include "ptxbuilder/tile/watchdog.h"

#include <fmt/format.h>
#include <unistd.h>

#include "copy_kit.h"
#include "library_kit.h"
#include "ptxbuilder/tile/barrier.h"
#include "ptxbuilder/tile/bulk.h"
#include "ptxbuilder/tile/pipeline.h"
#include "ptxbuilder/tile/semaphore.h"

namespace ptxbuilder::test::watchdog_test {
namespace {

constexpr uint32_t kCtas = 2, kLimit = 1;  // kLimit is in milliseconds

// A kernel with a planted hang, and the line of the hang.
struct Made {
  Kernel kernel;
  unsigned line;
};

struct Plant {
  const char* name;
  Made (*make)(bool planted);
  std::vector<std::string> told;  // other words of the report, besides the line
  // Text that the word of an mbarrier adds to the report. An H100 does not reveal the word, because a load of
  // it returns 0.
  std::vector<std::string> decoded = {};
};

using Memory = gptr<u32>;

// Returns a kernel with two roles of one warpgroup each. One thread of the first role runs `producer`, and
// all threads of the second run `consumer`.
Made with_roles(const std::vector<int>& arrivals,
                const std::function<void(const Barriers&, Memory)>& producer,
                const std::function<unsigned(const Barriers&, Memory)>& consumer) {
  Kernel k("subject");
  auto [memory] = k.params<Memory>("memory");
  const Barriers bars(k, arrivals, {"ready"});
  unsigned line = 0;
  k.warpgroups("producer", 1, 40, [&, m = memory](u32) { elect([&] { producer(bars, m); }); });
  k.warpgroups("consumer", 1, 232, [&, m = memory](u32) { line = consumer(bars, m); });
  return {std::move(k), line};
}

Made count_too_great(bool planted) {
  return with_roles(
      {planted ? 2 : 1}, [](const Barriers& bars, Memory) { mbarrier_arrive(bars[0]); },
      [](const Barriers& bars, Memory) { return barrier_wait(bars[0], 0), __LINE__; });
}

Made bytes_too_many(bool planted) {
  Kernel k("subject");
  auto [memory] = k.params<Memory>("memory");
  const uint32_t place = k.builder().allocate_shared("tile", 256, 1, 16);
  const Barriers bars(k, {1}, {"loaded"});
  sync_threads();
  elect([&, m = memory] {
    mbarrier_arrive_expect_tx(bars[0], planted ? 512 : 256);
    ptx("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{to:smem}], [{from:gmem}], 256, "
        "[{bar:smem}];",
        {{"to", Builder::current().shared_base() + place}, {"from", gmem(m)}, {"bar", bars[0]}});
  });
  const unsigned line = (barrier_wait(bars[0], 0), __LINE__);
  return {std::move(k), line};
}

Made missing_copy(bool planted) {
  Kernel k("subject");
  auto [memory] = k.params<Memory>("memory");
  const Barriers bars(k, {1, 1}, {"a", "b"});
  sync_threads();
  elect([&] {
    mbarrier_arrive(bars[0]);
    if (planted)
      mbarrier_arrive_expect_tx(bars[1], 1024);
    else
      mbarrier_arrive(bars[1]);
  });
  barrier_wait(bars[0], 0);
  const unsigned line = (barrier_wait(bars[1], 0), __LINE__);
  return {std::move(k), line};
}

Made role_that_left(bool planted) {
  return with_roles(
      {1},
      [=](const Barriers& bars, Memory) {
        for (int i = 0; i < (planted ? 0 : 1); ++i) mbarrier_arrive(bars[0]);
      },
      [](const Barriers& bars, Memory) { return barrier_wait(bars[0], 0), __LINE__; });
}

Made one_wait_too_many(bool planted) {
  return with_roles(
      {1},
      [](const Barriers& bars, Memory m) {
        mbarrier_arrive(bars[0]);
        Semaphore(m + ctaid_x() * 32).wait(1);
      },
      [=](const Barriers& bars, Memory m) {
        Phases phases(bars);
        phases.wait(0);
        const unsigned line = planted ? (phases.wait(0), __LINE__) : 0;
        if_(tid_x() == 128, [&, m] { Semaphore(m + ctaid_x() * 32).signal(); });
        return line;
      });
}

Made circle(bool planted) {
  return with_roles(
      {1, 1},
      [=](const Barriers& bars, Memory) {
        if (planted) barrier_wait(bars[1], 0);
        mbarrier_arrive(bars[0]);
      },
      [](const Barriers& bars, Memory) {
        const unsigned line = (barrier_wait(bars[0], 0), __LINE__);
        mbarrier_arrive.when(tid_x() == 128)(bars[1]);
        return line;
      });
}

Made turn_that_is_not_passed(bool planted) {
  Kernel k("subject");
  auto [memory] = k.params<Memory>("memory");
  const Turns turns(k, 2);
  unsigned line = 0;
  k.warpgroups("worker", 2, 104, [&](u32 wg) {
    WarpgroupTurn turn = turns.of(wg);
    line = (turn.wait(), __LINE__);
    if (!planted) turn.pass();
  });
  return {std::move(k), line};
}

Made named_barrier(bool planted) {
  Kernel k("subject");
  auto [memory] = k.params<Memory>("memory");
  const NamedBarrier all = k.named_barrier(256);
  unsigned line = 0;
  k.warpgroups("first", 1, 104, [&](u32) { line = (all.sync(), __LINE__); });
  k.warpgroups("second", 1, 104, [&](u32) {
    if (!planted) all.sync();
  });
  return {std::move(k), line};
}

Made grid_barrier(bool planted) {
  Kernel k("subject");
  auto [memory] = k.params<Memory>("memory");
  const GridBarrier grid(memory);
  unsigned line = 0;
  if_(planted ? ctaid_x() == 0 : ctaid_x() < kCtas, [&] { line = (grid.sync(), __LINE__); });
  return {std::move(k), line};
}

Made semaphore(bool planted) {
  Kernel k("subject");
  auto [memory] = k.params<Memory>("memory");
  const Semaphore s(memory);
  k.cooperative();
  unsigned line = 0;
  if_((tid_x() == 0) & (ctaid_x() == 1), [&] { s.signal(); });
  if_((tid_x() == 0) & (ctaid_x() == 0), [&] { line = (s.wait(planted ? 2 : 1), __LINE__); });
  return {std::move(k), line};
}

Made semaphore_to_take(bool planted) {
  Kernel k("subject");
  auto [memory] = k.params<Memory>("memory");
  const Semaphore s(memory);
  k.cooperative();
  unsigned line = 0;
  if_(tid_x() == 0, [&] {
    if_(ctaid_x() == 0, [&] { s.signal(planted ? 1 : 2); });
    line = (s.take(), __LINE__);
  });
  return {std::move(k), line};
}

Made cluster(bool planted) {
  Kernel k("subject");
  auto [memory] = k.params<Memory>("memory");
  k.cluster(2);
  ClusterBarriers met(k, 1, ClusterAxis::x, "met");
  sync_cluster();
  Phases phases(met);
  if_(planted ? cluster_ctaid_x() == 1 : cluster_ctaid_x() < 2, [&] { met.arrive(0); });
  const unsigned line = (phases.wait(0), __LINE__);
  return {std::move(k), line};
}

const Plant kPlants[] = {
    {"count too great",
     count_too_great,
     {"(consumer)", "mbarrier ready"},
     {"1 of 2 arrivals are missing", "count is too high"}},
    {"bytes too many",
     bytes_too_many,
     {"mbarrier loaded"},
     {"0 of 1 arrivals", "256 B are expected but have not arrived", "expect_tx has too many"}},
    {"missing copy", missing_copy, {"mbarrier b"}, {"1024 B more than its copies deliver"}},
    {"role that left",
     role_that_left,
     {"the role producer has ended", "warps 0 to 3 (producer) have ended"},
     {"nobody arrives at ready in this phase"}},
    {"one wait too many", one_wait_too_many, {"phase parity 1 of mbarrier ready", "a semaphore at"}},
    {"circle",
     circle,
     {"mbarrier ready[0]", "mbarrier ready[1]"},
     {"the threads that should arrive are waiting"}},
    {"turn that is not passed",
     turn_that_is_not_passed,
     {"(worker)", "mbarrier turn[1]"},
     {"4 of 4 arrivals"}},
    {"named barrier",
     named_barrier,
     {"of 256 threads, watchdog_test.cpp", "4 warps have reached it", "the role second has ended"}},
    {"grid barrier", grid_barrier, {"for the grid's barrier at"}},
    {"semaphore", semaphore, {"for a semaphore at", "which is 1 but should become 2", "1 fewer signals"}},
    {"semaphore to take",
     semaphore_to_take,
     {"for a semaphore to take from at", "which is 0 but should become 1"}},
    {"cluster", cluster, {"mbarrier met"}, {"4 of 8 arrivals are missing"}},
};

Made watched(const Plant& plant, bool planted) {
  const WatchdogScope scope(kLimit);
  return plant.make(planted);
}

// Returns the message of the Error that the launch throws, or "" if the launch succeeds.
std::string launched(const Made& made, const Running& running, Compiled compiled) {
  runtime::LoadedKernel kernel(*running.device, compiled.ptx, compiled.signature);
  runtime::Buffer memory(*running.device, 1024);
  memory.fill(0);
  (void)made;
  try {
    kernel.launch({.grid = {kCtas}}, {runtime::pointer(memory, DType::u32)});
    running.device->synchronize(std::chrono::seconds(10));
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a planted hang is reported with its line, its barrier and the likely cause; its twin ends") {
  for (const Plant& plant : kPlants) {
    CAPTURE(std::string(plant.name));
    Running running;  // a device cannot be used again after a hang
    Made right = watched(plant, false);
    CHECK(launched(right, running, running.compile(std::move(right.kernel))) == "");
    if (!running.device->wants_ptx()) continue;  // the process has one GPU, which a hang makes unusable
    Made wrong = watched(plant, true);
    const std::string told = launched(wrong, running, running.compile(std::move(wrong.kernel)));
    CAPTURE(told);
    CHECK(contains(told, "watchdog: "));
    CHECK(contains(told, fmt::format("watchdog_test.cpp:{}", wrong.line)));
    CHECK(contains(told, "likely: "));
    for (const auto* parts : {&plant.told, &plant.decoded})
      for (const std::string& part : *parts) CHECK_MESSAGE(contains(told, part), part);
  }
}

// Each hang must run in a separate process, because the GPU cannot be used again in the same process:
//   library_tests watchdog_test --device=cuda --no-skip -tc="a hang on a GPU" -sc="count too great"
TEST_CASE("a hang on a GPU" * doctest::skip()) {
  for (const Plant& plant : kPlants) SUBCASE(plant.name) {
      CAPTURE(std::string(plant.name));
      Running running;
      Made wrong = watched(plant, true);
      const std::string told = launched(wrong, running, running.compile(std::move(wrong.kernel)));
      MESSAGE(plant.name, ": ", told);
      CHECK(contains(told, fmt::format("watchdog_test.cpp:{}", wrong.line)));
      for (const std::string& part : plant.told) CHECK_MESSAGE(contains(told, part), part);
    }
}

TEST_CASE("without a watchdog a kernel has no code of it, and the sidecar describes one with it") {
  Kernel plain = count_too_great(false).kernel;
  CHECK_FALSE(contains(ptx_of(plain), "%globaltimer"));
  CHECK(plain.signature().parameters.size() == 1);
  CHECK_FALSE(plain.signature().report);
  Kernel on = watched(kPlants[0], false).kernel;
  CHECK(contains(ptx_of(on), "%globaltimer"));
  CHECK(on.signature().parameters.back().name == "report");
  REQUIRE(on.signature().report);
  CHECK(on.signature().report->watchdog_milliseconds == kLimit);
  CHECK(signature_from_json(to_json(on.signature()), "subject.json") == on.signature());
}

TEST_CASE("a limit is of 1 to 2^20 milliseconds, and the report's parameter has its name alone") {
  CHECK(contains(error_of([] { WatchdogScope scope(0); }),
                 "WatchdogScope: the limit is 0 ms, but must be 1 to 1048576"));
  CHECK(contains(error_of([] { WatchdogScope scope((1 << 20) + 1); }), "must be 1 to 1048576"));
  const WatchdogScope scope;
  CHECK(WatchdogScope::milliseconds() == 1000);
  CHECK(contains(error_of([] {
                   Kernel k("named");
                   k.params<u32>("report");
                 }),
                 "the library adds a parameter of this name"));
}

}  // namespace ptxbuilder::test::watchdog_test

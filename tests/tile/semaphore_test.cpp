// Tests semaphores and grid barriers, which let CTAs of a grid wait for each other through global memory.
//
//   semaphore_test [--device=emulator|cuda|auto]
#include "ptxbuilder/tile/semaphore.h"

#include <fmt/format.h>

#include <chrono>

#include "copy_kit.h"
#include "library_kit.h"
#include "runtime/emulator/emulator.h"

namespace ptxbuilder::test::semaphore_test {
namespace {

constexpr uint32_t kCtas = 12;

// Thread 0 of a CTA adds the value of `sum` to `seen`, adds the CTA's number + 1 to `sum`, and signals the
// next CTA.
Kernel in_turn(Scope scope, bool sets = false) {
  Kernel k("in_turn");
  auto [counter, sum, seen] = k.params<gptr<u32>, gptr<u32>, gptr<u32>>("counter", "sum", "seen");
  if_(tid_x() == 0, [=] {
    Semaphore turn(counter, scope);
    turn.wait(ctaid_x());
    u32 now = sum[0];
    seen[ctaid_x()] = now;
    sum[0] = now + ctaid_x() + 1;
    sets ? turn.set(ctaid_x() + 1) : turn.signal();
  });
  return k;
}

// The CTAs in the first three quarters add 1 to 3 signals each. Each CTA in the last quarter waits for 6
// signals, from three CTAs.
Kernel taking(Scope scope) {
  Kernel k("taking");
  auto [counter, taken] = k.params<gptr<u32>, gptr<u32>>("counter", "taken");
  if_(tid_x() == 0, [=] {
    Semaphore signals(counter, scope);
    u32 cta = ctaid_x();
    if_(
        cta < kCtas / 4 * 3, [&] { signals.signal(cta % 3 + 1); },
        [&] {
          signals.take(4);
          signals.take();
          signals.take();
          taken[cta] = 6;
        });
  });
  return k;
}

// CTA 0 writes a number and, after one fence, signals each of the other CTAs with a separate semaphore. They
// read the number.
Kernel to_all() {
  Kernel k("to_all");
  auto [counters, number, seen] = k.params<gptr<u32>, gptr<u32>, gptr<u32>>("counters", "number", "seen");
  if_(tid_x() == 0, [=] {
    if_(
        ctaid_x() == 0,
        [&] {
          number[0] = u32(77);
          std::vector<SemaphoreSignal> signals;
          for (uint32_t i = 1; i < kCtas; ++i) signals.push_back({Semaphore(counters + i), 1 + i % 2});
          semaphore_signal_parallel(signals);
        },
        [&] {
          Semaphore(counters + ctaid_x()).take(ctaid_x() % 2 + 1);
          seen[ctaid_x()] = u32(number[0]) + ctaid_x();
        });
  });
  return k;
}

// In each round, each number in a row becomes the sum of its neighbours.
Kernel neighbours(uint32_t rounds) {
  Kernel k("neighbours");
  auto [a, b, counter] = k.params<gptr<u32>, gptr<u32>, gptr<u32>>("a", "b", "counter");
  GridBarrier all(counter);
  u32 i = ctaid_y() * nctaid_x() + ctaid_x(), thread = tid_x(), last = nctaid_x() * nctaid_y() - 1;
  u32 left = select(i == 0, last, i - 1), right = select(i == last, u32(0), i + 1);
  gptr<u32> from = a, to = b;
  for (uint32_t round = 0; round < rounds; ++round) {
    to[i * 128 + thread] = from[left * 128 + thread] + from[right * 128 + (thread ^ 64)];
    all.sync();
    std::swap(from, to);
  }
  return k;
}

}  // namespace

TEST_CASE("a grid barrier makes a kernel cooperative, and a grid that does not fit at once is refused") {
  Running running;
  Compiled compiled = running.compile(neighbours(1));
  CHECK(compiled.signature.cooperative);
  CHECK_FALSE(running.compile(in_turn(Scope::gpu)).signature.cooperative);
  if (device_name != "emulator") return;  // a GPU's driver refuses with its own message
  runtime::LoadedKernel kernel(*running.device, compiled.ptx, compiled.signature);
  runtime::Buffer memory(*running.device, 4096);
  const auto pointer = runtime::pointer(memory, DType::u32);
  // If a CTA has 128 threads, 16 CTAs fit on each of the 132 multiprocessors.
  CHECK(error_of([&] {
          kernel.launch({.grid = {2113, 1, 1}}, {pointer, pointer, pointer});
        }).find("the grid 2113 x 1 x 1 has 2113, but only 2112 fit, 16 on each of 132 multiprocessors") !=
        std::string::npos);
}

TEST_CASE("CTAs take turns") {
  Running running;
  for (const auto& [scope, sets] :
       {std::pair{Scope::gpu, false}, {Scope::sys, false}, {Scope::gpu, true}, {Scope::sys, true}}) {
    Compiled compiled = running.compile(in_turn(scope, sets));
    const std::string signal = sets ? "st.release." : "red.release.";
    CHECK(contains(compiled.ptx, signal + (scope == Scope::gpu ? "gpu.global" : "sys.global")));
    CHECK(contains(compiled.ptx, scope == Scope::gpu ? "ld.acquire.gpu.global" : "ld.acquire.sys.global"));
    runtime::LoadedKernel kernel(*running.device, compiled.ptx, compiled.signature);
    runtime::Buffer counter(*running.device, 4), sum(*running.device, 4), seen(*running.device, 4 * kCtas);
    for (runtime::Buffer* b : {&counter, &sum, &seen}) b->fill(0);
    kernel.launch({.grid = {kCtas}}, {runtime::pointer(counter, DType::u32),
                                      runtime::pointer(sum, DType::u32), runtime::pointer(seen, DType::u32)});
    running.device->synchronize();
    std::vector<uint32_t> wanted;
    for (uint32_t i = 0; i < kCtas; ++i) wanted.push_back(i * (i + 1) / 2);
    CHECK(seen.copy_out<uint32_t>() == wanted);
    CHECK(counter.copy_out<uint32_t>()[0] == kCtas);
  }
}

TEST_CASE("setting a count needs a scope that others see") {
  for (const Scope scope : {Scope::gpu, Scope::cluster}) {
    Kernel k("sets");
    auto [counter] = k.params<gptr<u32>>("counter");
    const Semaphore semaphore(counter, scope);
    if (scope == Scope::gpu)
      semaphore.set(1);
    else
      CHECK_THROWS_WITH_AS(semaphore.set(1),
                           doctest::Contains("semaphore: the scope is cluster, but must be gpu or sys"),
                           Error);
  }
}

TEST_CASE("a waiting CTA consumes signals") {
  Running running;
  for (Scope scope : {Scope::gpu, Scope::sys}) {
    Compiled compiled = running.compile(taking(scope));
    runtime::LoadedKernel kernel(*running.device, compiled.ptx, compiled.signature);
    runtime::Buffer counter(*running.device, 4), taken(*running.device, 4 * kCtas);
    for (runtime::Buffer* b : {&counter, &taken}) b->fill(0);
    for (int launch = 0; launch < 3; ++launch)
      kernel.launch({.grid = {kCtas}},
                    {runtime::pointer(counter, DType::u32), runtime::pointer(taken, DType::u32)});
    running.device->synchronize();
    std::vector<uint32_t> wanted(kCtas, 0);
    for (uint32_t i = kCtas / 4 * 3; i < kCtas; ++i) wanted[i] = 6;
    CHECK(taken.copy_out<uint32_t>() == wanted);
    CHECK(counter.copy_out<uint32_t>()[0] == 0);  // all signals were taken
  }
}

TEST_CASE("one fence precedes the signals to many CTAs, which all arrive") {
  Running running;
  Compiled compiled = running.compile(to_all());
  CHECK(count(compiled.ptx, "fence.acq_rel.gpu") == 1);
  CHECK(count(compiled.ptx, "red.relaxed.gpu.global.add.u32") == kCtas - 1);
  CHECK(compiled.ptx.find("fence.acq_rel.gpu") < compiled.ptx.find("red.relaxed.gpu"));
  auto* emulator = dynamic_cast<runtime::Emulator*>(running.device.get());
  for (const bool mutant : {false, true}) {
    if (mutant && !emulator) continue;
    std::string text = compiled.ptx;
    const size_t last = text.rfind("red.relaxed.gpu");
    if (mutant) text.erase(last, text.find(';', last) + 1 - last);  // makes a CTA wait forever
    runtime::LoadedKernel kernel(*running.device, text, compiled.signature);
    runtime::Buffer counters(*running.device, 4 * kCtas), number(*running.device, 4),
        seen(*running.device, 4 * kCtas);
    const std::string report = error_of([&] {
      for (uint64_t seed = 0; seed < (mutant || !emulator ? 1u : 20u); ++seed) {
        if (emulator) emulator->seed(seed);
        for (runtime::Buffer* b : {&counters, &number, &seen}) b->fill(0);
        kernel.launch({.grid = {kCtas}},
                      {runtime::pointer(counters, DType::u32), runtime::pointer(number, DType::u32),
                       runtime::pointer(seen, DType::u32)});
        running.device->synchronize(std::chrono::milliseconds(mutant ? 200 : 60000));
        std::vector<uint32_t> wanted(kCtas);
        for (uint32_t i = 1; i < kCtas; ++i) wanted[i] = 77 + i;
        CHECK(seen.copy_out<uint32_t>() == wanted);
        CHECK(counters.copy_out<uint32_t>() == std::vector<uint32_t>(kCtas));
      }
    });
    CAPTURE(report);
    CHECK(contains(report, "time limit: kernel to_all") == mutant);
  }
}

TEST_CASE("a grid synchronizes repeatedly") {
  constexpr uint32_t kRounds = 4;
  Running running;
  Compiled compiled = running.compile(neighbours(kRounds));
  runtime::LoadedKernel kernel(*running.device, compiled.ptx, compiled.signature);
  std::vector<uint32_t> values(kCtas * 128);
  for (uint32_t i = 0; i < values.size(); ++i) values[i] = i * 2654435761u >> 8;
  runtime::Buffer a = runtime::Buffer::of(*running.device, values), b(*running.device, 4 * values.size());
  runtime::Buffer counter(*running.device, 4);
  b.fill(0xff);
  counter.fill(0);
  for (runtime::Dim3 grid : {runtime::Dim3{kCtas}, runtime::Dim3{4, 3}}) {
    kernel.launch({.grid = grid}, {runtime::pointer(a, DType::u32), runtime::pointer(b, DType::u32),
                                   runtime::pointer(counter, DType::u32)});
    running.device->synchronize();
    for (uint32_t round = 0; round < kRounds; ++round) {
      std::vector<uint32_t> next(values.size());
      for (uint32_t i = 0; i < kCtas; ++i)
        for (uint32_t t = 0; t < 128; ++t)
          next[i * 128 + t] =
              values[(i + kCtas - 1) % kCtas * 128 + t] + values[(i + 1) % kCtas * 128 + (t ^ 64)];
      values = next;
    }
    CHECK(a.copy_out<uint32_t>() == values);
  }
}

// Runs two rounds with each of several seeds, and returns the first report.
std::string report_of_barrier(const std::string& text, const Signature& signature, uint64_t seeds) {
  const auto device = runtime::open_emulator({});
  runtime::LoadedKernel kernel(*device, text, signature);
  runtime::Buffer a(*device, 512 * kCtas), b(*device, 512 * kCtas), counter(*device, 4);
  return error_of([&] {
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      device->seed(seed);
      for (runtime::Buffer* x : {&a, &b, &counter}) x->fill(0);
      // Numbers differ, since a store of the same value is not a race.
      std::vector<uint32_t> values(kCtas * 128);
      for (uint32_t i = 0; i < values.size(); ++i) values[i] = i;
      a.copy_in(values);
      kernel.launch({.grid = {kCtas}}, {runtime::pointer(a, DType::u32), runtime::pointer(b, DType::u32),
                                        runtime::pointer(counter, DType::u32)});
      device->synchronize(std::chrono::seconds(20));
    }
  });
}

TEST_CASE("a grid barrier without one of its waits or orders is a race") {
  Running running;
  const Compiled compiled = running.compile(neighbours(2));
  CHECK(report_of_barrier(compiled.ptx, compiled.signature, 20).empty());
  const auto expect_race = [&](const std::string& what, const std::string& text) {
    const std::string report = report_of_barrier(text, compiled.signature, 20), shown = what + ": " + report;
    CHECK_MESSAGE(report.find("race:") == 0, shown);
  };
  const auto first_changed = [&](const std::string& from, const std::string& to) {
    std::string text = compiled.ptx;
    const size_t at = text.find(from);
    REQUIRE_MESSAGE(at != std::string::npos, from);
    return text.replace(at, from.size(), to);
  };
  for (const char* order : {"atom.relaxed.gpu", "atom.acquire.gpu", "atom.acq_rel.cta"})
    expect_race(order, first_changed("atom.acq_rel.gpu", order));
  for (const char* order : {"ld.relaxed.gpu", "ld.acquire.cta"})
    expect_race(order, first_changed("ld.acquire.gpu", order));
  const std::string barrier = "bar.sync";
  for (size_t i = 0, at = compiled.ptx.find(barrier); i < 2; ++i) {
    REQUIRE(at != std::string::npos);
    std::string text = compiled.ptx;
    text.erase(at, text.find(';', at) + 1 - at);
    expect_race("barrier " + std::to_string(i), text);
    at = compiled.ptx.find(barrier, at + 1);
  }
}

}  // namespace ptxbuilder::test::semaphore_test

// Tests planted races, which jitter must reveal on a GPU and the emulator must report, and their twins, whose
// results jitter must not change.
//
//   jitter_test [--device=emulator|cuda|auto] [--seeds=N]
#include "ptxbuilder/tile/jitter.h"

#include <fmt/format.h>

#include "copy_kit.h"
#include "library_kit.h"
#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/tile/barrier.h"
#include "ptxbuilder/tile/semaphore.h"

namespace ptxbuilder::test::jitter_test {
namespace {

const int& seeds = option("seeds", 2);

constexpr uint32_t kCtas = 2, kThreads = 256;

// If there is no race, every thread of every CTA stores 7. Memory at `free` and above is initially zero.
using Memory = gptr<u32>;
constexpr uint32_t kFree = kCtas * kThreads;

struct Plant {
  const char* name;
  void (*emit)(Kernel& k, Memory memory, bool planted);
};

u32 index() { return ctaid_x() * kThreads + tid_x(); }

sptr<u32> words(Kernel& k) {
  Builder& builder = k.builder();
  const uint32_t place = builder.allocate_shared("words", 4 * kThreads, 1, 16);
  return sptr<u32>(builder.shared_base() + place);
}

// Each warp reads the data that the next warp writes.
void missing_barrier(Kernel& k, Memory m, bool planted) {
  k.threads(kThreads);
  const sptr<u32> s = words(k);
  s[tid_x()] = u32(0);
  sync_threads();
  instruction<"fence.acq_rel.cta">();
  s[tid_x()] = u32(7);
  if (!planted) sync_threads();
  m[index()] = s[(tid_x() + 32) % kThreads];
}

// The second role reads the data of the first.
void roles(Kernel& k, Memory m, const std::function<void(const Barriers&, sptr<u32>)>& first,
           const std::function<void(const Barriers&, sptr<u32>)>& second) {
  const sptr<u32> s = words(k);
  const Barriers bars(k, {1, 1}, {"full", "empty"});
  k.warpgroups("first", 1, 104, [&](u32) {
    first(bars, s);
    m[index()] = u32(7);
  });
  k.warpgroups("second", 1, 104, [&](u32) { second(bars, s); });
}

// The writer arrives before it has written.
void early_arrival(Kernel& k, Memory m, bool planted) {
  roles(
      k, m,
      [=](const Barriers& bars, sptr<u32> s) {
        const auto arrive = [&] { mbarrier_arrive.when(tid_x() == 0)(bars[0]); };
        if_(tid_x() == 0, [&] { s[0] = u32(0); });
        if (planted) arrive();
        instruction<"fence.acq_rel.cta">();
        if_(tid_x() == 0, [&] { s[0] = u32(7); });
        if (!planted) arrive();
      },
      [=](const Barriers& bars, sptr<u32> s) {
        barrier_wait(bars[0], 0);
        m[index()] = s[0];
      });
}

// The reader releases the place before it has read it.
void early_release(Kernel& k, Memory m, bool planted) {
  roles(
      k, m,
      [](const Barriers& bars, sptr<u32> s) {
        if_(tid_x() == 0, [&] { s[0] = u32(7); });
        mbarrier_arrive.when(tid_x() == 0)(bars[0]);
        barrier_wait(bars[1], 0);
        if_(tid_x() == 0, [&] { s[0] = u32(1); });
      },
      [=](const Barriers& bars, sptr<u32> s) {
        barrier_wait(bars[0], 0);
        const auto release = [&] {
          sync_warpgroup();
          mbarrier_arrive.when(tid_x() == 128)(bars[1]);
        };
        if (planted) release();
        instruction<"fence.acq_rel.cta">();
        m[index()] = s[0];
        if (!planted) release();
      });
}

// Warps synchronize at a named barrier. One warp arrives before the write that it announces.
void early_named_arrival(Kernel& k, Memory m, bool planted) {
  const NamedBarrier written = k.named_barrier(kThreads);
  roles(
      k, m,
      [=](const Barriers&, sptr<u32> s) {
        s[tid_x()] = u32(0);
        instruction<"fence.acq_rel.cta">();
        if (planted) written.arrive();
        instruction<"fence.acq_rel.cta">();
        s[tid_x()] = u32(7);
        if (!planted) written.arrive();
      },
      [=](const Barriers&, sptr<u32> s) {
        written.sync();
        m[index()] = s[tid_x() - 128];
      });
}

// CTA 1 reads the data of CTA 0 after a signal that is too early.
void early_signal(Kernel& k, Memory m, bool planted) {
  k.threads(kThreads);
  k.cooperative();
  const Semaphore given(m + kFree);
  m[index()] = u32(7);
  if_((tid_x() == 0) & (ctaid_x() == 0), [&] {
    if (planted) given.signal();
    instruction<"fence.acq_rel.gpu">();
    m[kFree + 32] = u32(7);
    if (!planted) given.signal();
  });
  if_((tid_x() == 0) & (ctaid_x() == 1), [&] {
    given.wait(1);
    m[index()] = m[kFree + 32];
  });
}

// A CTA reads the other CTA's shared memory before it has been written.
void missing_cluster_barrier(Kernel& k, Memory m, bool planted) {
  k.threads(kThreads);
  k.cluster(kCtas);
  const sptr<u32> s = words(k);
  s[tid_x()] = u32(0);
  sync_cluster();
  instruction<"fence.acq_rel.cluster">();
  s[tid_x()] = u32(7);
  if (!planted) sync_cluster();
  m[index()] = instruction<"ld.shared::cluster.u32">(mapa(smem(s + tid_x()), cluster_ctarank() ^ 1u));
  sync_cluster();
}

const Plant kPlants[] = {
    {"missing barrier", missing_barrier}, {"early arrival", early_arrival},
    {"early release", early_release},     {"early named arrival", early_named_arrival},
    {"early signal", early_signal},       {"missing cluster barrier", missing_cluster_barrier}};

Kernel make(const Plant& plant, bool planted, std::optional<uint64_t> seed) {
  std::optional<JitterScope> scope;
  if (seed) scope.emplace(*seed);
  Kernel k("subject");
  auto [memory] = k.params<Memory>("memory");
  plant.emit(k, memory, planted);
  return k;
}

struct Came {
  std::string error;
  size_t wrong = 0;
};

Came run(const Running& running, Kernel k, int launches = 1) {
  const Compiled compiled = running.compile(std::move(k));
  runtime::LoadedKernel kernel(*running.device, compiled.ptx, compiled.signature);
  runtime::Buffer memory(*running.device, 4 * (kFree + 64));
  Came came;
  for (int i = 0; i < launches; ++i) {
    memory.fill(0);
    came.error = error_of([&] {
      kernel.launch({.grid = {kCtas}}, {runtime::pointer(memory, DType::u32)});
      running.device->synchronize();
    });
    if (!came.error.empty()) return came;
    const auto values = memory.copy_out<uint32_t>();
    came.wrong += static_cast<size_t>(
        std::count_if(values.begin(), values.begin() + kFree, [](uint32_t v) { return v != 7; }));
  }
  return came;
}

}  // namespace

TEST_CASE("jitter depends on its seed, and a kernel without it has no code of it") {
  const auto ptx = [](std::optional<uint64_t> seed) {
    Kernel k = make(kPlants[1], false, seed);
    return ptx_of(k);
  };
  CHECK_FALSE(contains(ptx({}), "nanosleep"));
  CHECK(ptx(7) == ptx(7));
  CHECK(ptx(7) != ptx(8));
  CHECK(count(ptx(7), "nanosleep") >= 3);
}

TEST_CASE("a right kernel stays right under jitter, and a race that is planted is shown") {
  for (const Plant& plant : kPlants) {
    CAPTURE(std::string(plant.name));
    const Running running;
    const bool emulated = running.device->wants_ptx();
    size_t wrong = 0, wrong_by_itself = 0;
    for (int seed = 0; seed < seeds; ++seed) {
      const Came right = run(running, make(plant, false, seed), emulated ? 1 : 4);
      CHECK(right.error == "");
      CHECK(right.wrong == 0);
      if (emulated) continue;
      wrong += run(running, make(plant, true, seed), 4).wrong;
      wrong_by_itself += run(running, make(plant, true, {}), 4).wrong;
    }
    if (emulated) {
      CHECK(contains(run(running, make(plant, true, 0)).error, "race"));
    } else {
      MESSAGE(fmt::format("{}: {} words wrong with jitter, {} without", plant.name, wrong, wrong_by_itself));
      CHECK(wrong > 0);
    }
  }
}

}  // namespace ptxbuilder::test::jitter_test

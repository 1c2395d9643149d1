// The checks (runtime/emulator/checks) watch a cluster run. The machine tells them of what
// happens, and none of them changes what it does. An event comes ahead of its effect.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "ptxbuilder/signature.h"
#include "runtime/emulator/machine/lane_order.h"
#include "runtime/emulator/machine/memory.h"
#include "runtime/emulator/machine/program.h"
#include "runtime/emulator/machine/shadow.h"

namespace ptxbuilder::runtime::emulator {

class Cluster;
class Cta;
class Warp;
struct Mbarrier;

// Writes the bytes that a store stores to a buffer of that size, for callers that need them; returns false if
// they are not known.
class StoredBytes {
 public:
  StoredBytes() = default;
  template <class F>
  StoredBytes(const F& write)  // NOLINT: a lambda is what callers have
      : context_(&write),
        write_([](const void* context, std::byte* to) { return (*static_cast<const F*>(context))(to); }) {}
  bool operator()(std::byte* to) const { return write_ && write_(context_, to); }

 private:
  const void* context_ = nullptr;
  bool (*write_)(const void*, std::byte*) = nullptr;
};

// An access of [offset, offset + bytes) of a CTA's shared memory by a thread, or by threads of a warp one
// after the other, who access `each` bytes from `lane` on; or one of `bytes` by each of `lanes`, anywhere.
struct SharedAccess {
  Cta& cta;
  uint32_t offset, bytes;
  bool writes;
  int lane;
  StoredBytes values = {};
  uint32_t each = 0;  // 0 for an access by one thread
  // The place of each lane's access, if they are not side by side. `values` writes `bytes` for each lane of
  // the warp then.
  const std::array<uint32_t, 32>* offsets = nullptr;
  Lanes lanes = 0;

  Lanes who() const { return offsets ? lanes : (all_lanes >> (32 - (each ? bytes / each : 1))) << lane; }
  // Calls f(offset, lane) for each place of `bytes`.
  template <class F>
  void each_place(F f) const {
    if (!offsets) return f(offset, lane);
    each_lane([&](uint32_t at, uint32_t, int by) { f(at, by); });
  }
  // Calls f(offset, end, lane) for each lane.
  template <class F>
  void each_lane(F f) const {
    const uint32_t size = each ? each : bytes;
    for (Lanes rest = who(); rest; rest &= rest - 1) {
      const int by = __builtin_ctz(rest);
      const uint32_t at =
          offsets ? (*offsets)[static_cast<size_t>(by)] : offset + static_cast<uint32_t>(by - lane) * size;
      f(at, at + size, by);
    }
  }
};

// An access by an asynchronous operation, at any later time. `deed` says who performs it and when.
struct AsyncAccess {
  Cta& cta;
  uint32_t offset, bytes;
  bool writes;
  Access deed;
  const char* what;  // "this copy writes"
};

// An access of [address, address + bytes) of global memory, by one thread, or by consecutive threads of a
// warp, who access `each` bytes each from `lane` on, or all the same bytes. `deed` says who performs it and
// when, in the cluster's clocks.
struct GlobalAccess {
  Address address;
  uint32_t bytes;
  bool writes;
  Access deed;
  const char* what;  // "this reads"
  int lane = -1;
  uint32_t each = 0;       // 0 for one thread's access, a copy, or an access of the same bytes
  uint32_t count = 1;      // of lanes that access the same bytes
  bool updates = false;    // it reads what it writes, as a reduction does
  bool is_strong = false;  // it does not race with strong ones of a scope that both reach
  Scope scope = Scope::gpu;
  StoredBytes values = {};
};

// A box that a tensor copy moves between a tensor and shared memory. The event is sent when the copy is
// issued.
struct TileCopy {
  Cta& cta;
  uint32_t offset, bytes;
  Swizzle swizzle;
  Address tensor;
  // Each has a number for each dimension, innermost first: where the box begins, its elements, and the
  // tensor's.
  std::span<const int32_t> at;
  std::span<const uint16_t> box;
  std::span<const uint64_t> shape;
  bool is_plain;      // neither pixels nor a tensor whose rows have several coordinates
  uint32_t mask = 0;  // of the CTAs that a load goes to, 0 for one
};

// An operation that completes bytes or arrivals of an mbarrier.
enum class SignalledBy : uint8_t { thread, copy };

// A lane's wait for a phase of an mbarrier, by its parity or by a state.
struct MbarrierWait {
  int lane;
  bool by_parity;
  uint32_t parity;
  bool is_complete;
};

class Observer {
 public:
  virtual ~Observer() = default;

  virtual void shared_access(Warp&, const SharedAccess&) {}
  // The same access by one lane of a warp to its own CTA, to order it among the warp's lanes.
  virtual void lane_access(Warp&, const SharedAccess&, LaneAccess) {}
  virtual void async_access(Warp&, const AsyncAccess&) {}
  virtual void global_access(Warp&, const Allocation&, const GlobalAccess&) {}
  // The accesses of this actor and time have finished their stores to global memory.
  virtual void global_stored(Actor, uint32_t /*time*/) {}

  virtual void mbarrier_use(Warp&, const Mbarrier&, int /*lane*/, SignalledBy) {}
  virtual void mbarrier_arrival(Warp&, const Mbarrier&, int /*lane*/) {}
  virtual void mbarrier_wait(Warp&, const Mbarrier&, const MbarrierWait&) {}
  virtual void phase_completion(Warp&, const Mbarrier&) {}

  // The running instruction names registers that some wgmma or tcgen05.ld still uses; or a wgmma starts.
  virtual void matrix_touch(Warp&) {}
  virtual void wgmma(Warp&, const MatrixRegisters&) {}
  // A wgmma reads operand "A" or "B", which begins at an offset of its CTA's shared memory; a tensor copy
  // fills a tile, or sends one.
  virtual void tile_read(Warp&, const char* /*operand*/, uint32_t /*offset*/, Swizzle) {}
  virtual void tile_fill(Warp&, const TileCopy&) {}
  virtual void tile_send(Warp&, const TileCopy&) {}

  virtual void cta_exit(Cta&) {}
};

// The observers of a cluster, by event: an observer is called only for events that it overrides.
class Observers {
 public:
  template <class T>
  void add(std::unique_ptr<T> observer) {
    Observer* o = observer.get();
    listen(&T::shared_access, &Observer::shared_access, shared_access, o);
    listen(&T::lane_access, &Observer::lane_access, lane_access, o);
    listen(&T::async_access, &Observer::async_access, async_access, o);
    listen(&T::global_access, &Observer::global_access, global_access, o);
    listen(&T::global_stored, &Observer::global_stored, global_stored, o);
    listen(&T::mbarrier_use, &Observer::mbarrier_use, mbarrier_use, o);
    listen(&T::mbarrier_arrival, &Observer::mbarrier_arrival, mbarrier_arrival, o);
    listen(&T::mbarrier_wait, &Observer::mbarrier_wait, mbarrier_wait, o);
    listen(&T::phase_completion, &Observer::phase_completion, phase_completion, o);
    listen(&T::matrix_touch, &Observer::matrix_touch, matrix_touch, o);
    listen(&T::wgmma, &Observer::wgmma, wgmma, o);
    listen(&T::tile_read, &Observer::tile_read, tile_read, o);
    listen(&T::tile_fill, &Observer::tile_fill, tile_fill, o);
    listen(&T::tile_send, &Observer::tile_send, tile_send, o);
    listen(&T::cta_exit, &Observer::cta_exit, cta_exit, o);
    all_.push_back(std::move(observer));
  }

  using List = std::vector<Observer*>;
  List shared_access, lane_access, async_access, global_access, global_stored, mbarrier_use, mbarrier_arrival,
      mbarrier_wait, phase_completion, matrix_touch, wgmma, tile_read, tile_fill, tile_send, cta_exit;

 private:
  template <class F, class Base>
  static void listen(F, Base, List& list, Observer* observer) {
    if constexpr (!std::is_same_v<F, Base>) list.push_back(observer);
  }

  std::vector<std::unique_ptr<Observer>> all_;
};

// Adds the checks to a cluster that is about to run.
void add_checks(Cluster& cluster);

}  // namespace ptxbuilder::runtime::emulator

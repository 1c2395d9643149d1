// The interface through which the checks (runtime/emulator/checks) observe a cluster. The machine reports
// each event before it takes effect, and observers do not change what the machine does.
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

// Copies the data of a store to a buffer that has the size of the access. Returns false if the data is not
// known.
class StoredBytes {
 public:
  StoredBytes() = default;
  template <class F>
  StoredBytes(const F& write)  // NOLINT: callers pass a lambda
      : context_(&write),
        write_([](const void* context, std::byte* to) { return (*static_cast<const F*>(context))(to); }) {}
  bool operator()(std::byte* to) const { return write_ && write_(context_, to); }

 private:
  const void* context_ = nullptr;
  bool (*write_)(const void*, std::byte*) = nullptr;
};

// An access to a CTA's shared memory. There are three kinds: one thread accesses [offset, offset + bytes);
// consecutive threads of a warp, starting at `lane`, access `each` bytes apiece in that range; or each thread
// of `lanes` accesses `bytes` bytes at its own offset.
struct SharedAccess {
  Cta& cta;
  uint32_t offset, bytes;
  bool writes;
  int lane;
  StoredBytes values = {};
  uint32_t each = 0;  // 0 for an access by one thread
  // The offset of each lane's access, if the accesses are not consecutive. `values` then writes `bytes` bytes
  // for each lane of the warp.
  const std::array<uint32_t, 32>* offsets = nullptr;
  Lanes lanes = 0;

  Lanes who() const { return offsets ? lanes : (all_lanes >> (32 - (each ? bytes / each : 1))) << lane; }
  // Calls f(offset, lane) for each separate range of `bytes` bytes.
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

// An access by an asynchronous operation, at any later time. `deed` describes its actor and time.
struct AsyncAccess {
  Cta& cta;
  uint32_t offset, bytes;
  bool writes;
  Access deed;
  const char* what;  // for example "this copy writes"
};

// An access to [address, address + bytes) of global memory by one thread, or by consecutive threads of a warp
// starting at `lane`. These threads access `each` bytes apiece, or all access the same bytes. `deed`
// describes the actor and the time in the cluster's clocks.
struct GlobalAccess {
  Address address;
  uint32_t bytes;
  bool writes;
  Access deed;
  const char* what;  // for example "this reads"
  int lane = -1;
  uint32_t each = 0;       // 0 for a single thread, a copy, or threads that access the same bytes
  uint32_t count = 1;      // number of lanes that access the same bytes
  bool updates = false;    // whether the access also reads the bytes that it writes, like a reduction
  bool is_strong = false;  // strong accesses do not race if each scope includes both threads
  Scope scope = Scope::gpu;
  StoredBytes values = {};
};

// A box that a tensor copy moves between a tensor and shared memory. The event is reported when the copy is
// issued.
struct TileCopy {
  Cta& cta;
  uint32_t offset, bytes;
  Swizzle swizzle;
  Address tensor;
  // Each span has one number per dimension, innermost first: the coordinates at which the box begins, the
  // size of the box, and the size of the tensor.
  std::span<const int32_t> at;
  std::span<const uint16_t> box;
  std::span<const uint64_t> shape;
  bool is_plain;      // false for copies of pixels, and for tensors whose rows have several coordinates
  uint32_t mask = 0;  // the CTAs to which a load is multicast; 0 for a single CTA
};

// The kind of operation that arrives at an mbarrier or completes bytes of it.
enum class SignalledBy : uint8_t { thread, copy };

// A lane's wait for a phase of an mbarrier, which the lane names by parity or by a state.
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
  // Reports an access by lanes of a warp to their own CTA's memory once more, so that it is ordered among the
  // lanes.
  virtual void lane_access(Warp&, const SharedAccess&, LaneAccess) {}
  virtual void async_access(Warp&, const AsyncAccess&) {}
  virtual void global_access(Warp&, const Allocation&, const GlobalAccess&) {}
  // Called when this actor's accesses of this time have written their data to global memory.
  virtual void global_stored(Actor, uint32_t /*time*/) {}

  virtual void mbarrier_use(Warp&, const Mbarrier&, int /*lane*/, SignalledBy) {}
  virtual void mbarrier_arrival(Warp&, const Mbarrier&, int /*lane*/) {}
  virtual void mbarrier_wait(Warp&, const Mbarrier&, const MbarrierWait&) {}
  virtual void phase_completion(Warp&, const Mbarrier&) {}

  // matrix_touch() is called if the instruction names registers that a wgmma or tcgen05.ld may still use;
  // wgmma() is called when a wgmma starts.
  virtual void matrix_touch(Warp&) {}
  virtual void wgmma(Warp&, const MatrixRegisters&) {}
  // tile_read() is called when a wgmma reads operand "A" or "B", which begins at an offset of its CTA's
  // shared memory. tile_fill() and tile_send() are called when a tensor copy fills or sends a tile.
  virtual void tile_read(Warp&, const char* /*operand*/, uint32_t /*offset*/, Swizzle) {}
  virtual void tile_fill(Warp&, const TileCopy&) {}
  virtual void tile_send(Warp&, const TileCopy&) {}

  virtual void cta_exit(Cta&) {}
};

// The observers of a cluster, indexed by event. An observer is called only for events that it overrides.
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

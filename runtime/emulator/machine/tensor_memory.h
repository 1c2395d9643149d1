// The tensor memory of one CTA (PTX ISA, "Tensor Memory"). It has 128 lanes of 512 columns of 32 bits. This
// file also records which columns are allocated, who wrote and read each column, and how warps order these
// accesses.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/emulator/machine/clock.h"

namespace ptxbuilder::runtime::emulator {

class TensorMemory {
 public:
  static constexpr uint32_t lanes = 128, columns = 512, quarter = 32, half = 16;

  enum class Operation : uint8_t { load, store, product, copy };
  // An access by an actor at a time; the time is 0 if there was no access. `number` counts the operations of
  // the warp.
  struct Deed {
    Actor actor = 0;
    uint32_t time = 0, pc = 0, warp = 0, number = 0;
    Operation operation = Operation::load;

    // Returns true for a product or a copy, which is asynchronous to the threads.
    bool is_behind() const { return operation == Operation::product || operation == Operation::copy; }
  };
  // The numbers up to which a warp's own threads know its operations to be done. A load is done once its
  // tcgen05.wait::ld has ended. A product or a copy counts as done when it is issued, because later products
  // are executed in order.
  struct Done {
    uint32_t loads = 0, stores = 0, products = 0;
    bool has(const Deed& d) const {
      return d.number <= (d.operation == Operation::load    ? loads
                          : d.operation == Operation::store ? stores
                                                            : products);
    }
  };
  // If a tcgen05.fence::before_thread_sync precedes a warp's release, the release also passes on the numbers
  // of the operations that are done. These fences are the times of the actor `fences`.
  struct WarpOrder {
    Actor fences = 0;
    uint32_t issued = 0;
    Done done;
    std::vector<Done> fenced = std::vector<Done>(1);  // indexed by the time of the fence
    Clock seen;  // what the warp knew at its last tcgen05.fence::after_thread_sync
  };
  // The last accesses to a column in half of a quarter of the lanes. Each warp of a warpgroup accesses one
  // quarter of the lanes, and a product with 64 rows accesses half of each quarter.
  struct Column {
    Deed wrote, read;
  };

  uint32_t& at(uint32_t lane, uint32_t column) { return words_[lane * columns + column]; }
  Column& deeds(uint32_t of_half, uint32_t column) { return deeds_[of_half * columns + column]; }

  // Allocates `count` consecutive free columns and returns the first. Returns nothing if there is no such
  // range.
  std::optional<uint32_t> allocate(uint32_t count, uint32_t pc) {
    uint32_t from = 0;
    for (const auto& [first, taken] : allocated_) {
      if (first - from >= count) break;
      from = first + taken.count;
    }
    if (from + count > columns) return std::nullopt;
    allocated_[from] = {count, pc};
    for (uint32_t h = 0; h < lanes / half; ++h) std::fill_n(&deeds(h, from), count, Column{});
    return from;
  }
  bool free(uint32_t first, uint32_t count) {
    const auto taken = allocated_.find(first);
    if (taken == allocated_.end() || taken->second.count != count) return false;
    allocated_.erase(taken);
    return true;
  }
  // Returns true if one allocation contains all of these columns.
  bool has(uint32_t first, uint32_t count) const {
    auto after = allocated_.upper_bound(first);
    if (after == allocated_.begin()) return false;
    --after;
    return first + count <= after->first + after->second.count;
  }
  struct Taken {
    uint32_t count, pc;
  };
  const std::map<uint32_t, Taken>& allocated() const { return allocated_; }

  std::vector<WarpOrder> warps;  // one element per warp of the CTA
  bool may_allocate = true;      // until relinquish_alloc_permit
  // The actor of a thread's products and copies. Their numbers are the actor's times. Only the thread's own
  // commits wait for them.
  struct Issuer {
    Actor actor = 0;
    uint32_t issued = 0;
  };
  std::map<std::pair<uint32_t, int>, Issuer> issuers;  // indexed by warp and lane
  std::deque<std::function<void()>> queue;  // products, copies and commits, which are executed in order

 private:
  std::map<uint32_t, Taken> allocated_;  // indexed by the first column
  std::vector<uint32_t> words_ = std::vector<uint32_t>(lanes * columns);
  std::vector<Column> deeds_ = std::vector<Column>(lanes / half * columns);
};

}  // namespace ptxbuilder::runtime::emulator

// Sums in global memory that a cluster postpones while it runs ahead of its turn, because their order
// determines how they are rounded. They are operations that add to memory and return nothing, and reductions
// by bulk copies.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <unordered_set>
#include <vector>

#include "runtime/device.h"

namespace ptxbuilder::runtime::emulator {

class Sums {
 public:
  // `has_turn` is true for a cluster that already has the turn but executes as if it ran ahead. Such a
  // cluster performs sums at once.
  explicit Sums(bool has_turn) : has_turn_(has_turn) {}

  // Records that a postponed operation adds to [address, address + bytes).
  void note(Address address, uint64_t bytes) {
    for (uint64_t line = address / line_bytes; line <= (address + bytes - 1) / line_bytes; ++line)
      if (line != last_line_) lines_.insert(last_line_ = line);
    from_ = std::min(from_, address);
    to_ = std::max(to_, address + bytes);
    bytes_ += bytes;
  }
  template <class F>
  void put_off(F add) {
    if (has_turn_) return add();
    adds_.push_back(std::move(add));
  }
  bool has_turn() const { return has_turn_; }
  bool empty() const { return bytes_ == 0; }
  bool is_full() const { return bytes_ > most_bytes; }
  // Returns true if a sum that affects some of these bytes is postponed.
  bool touches(Address address, uint64_t bytes) const {
    if (address >= to_ || address + bytes <= from_) return false;
    for (uint64_t line = address / line_bytes; line <= (address + bytes - 1) / line_bytes; ++line)
      if (lines_.contains(line)) return true;
    return false;
  }
  // Performs all additions, in the order in which they were postponed.
  void add() const {
    for (const auto& add : adds_) add();
  }

 private:
  static constexpr uint64_t line_bytes = 128, most_bytes = uint64_t{16} << 20;

  bool has_turn_;
  std::vector<std::function<void()>> adds_;
  std::unordered_set<uint64_t> lines_;
  uint64_t last_line_ = ~uint64_t{0}, bytes_ = 0;
  Address from_ = ~Address{0}, to_ = 0;  // [from_, to_) contains all sums
};

}  // namespace ptxbuilder::runtime::emulator

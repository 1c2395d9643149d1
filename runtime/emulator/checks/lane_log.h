// The last accesses of a warp's lanes to global memory since all lanes have met: only what the lanes do
// together orders these accesses (machine/lane_order.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "runtime/device.h"
#include "runtime/emulator/machine/lane_order.h"

namespace ptxbuilder::runtime::emulator {

// Consecutive lanes from `lane` on access `each` bytes one after the other; or, if `each` is 0, `count` lanes
// access the same bytes.
struct LoggedAccess {
  Address address;
  uint32_t bytes, each, stamp, pc;
  uint8_t lane, count;
  bool writes, is_strong;

  int first_lane(Address at) const { return each ? lane + static_cast<int>((at - address) / each) : lane; }
  int last_lane(Address at) const { return each ? first_lane(at) : lane + count - 1; }
};

class LaneLog {
 public:
  void add(const LaneOrder& order, const LoggedAccess& access) {
    if (!accesses_) accesses_ = std::make_unique_for_overwrite<std::array<LoggedAccess, most>>();
    if (order.all_know(newest_)) begin_ = end_;
    newest_ = access.stamp;
    (*accesses_)[end_++ % most] = access;
    begin_ = std::max(begin_, end_ < most ? 0 : end_ - most);
  }
  // Calls f for each access that overlaps and conflicts with it, the last first, until f returns true.
  template <class F>
  void each_conflict(const LaneOrder& order, const LoggedAccess& now, F f) const {
    for (uint64_t i = end_; i > begin_; --i) {
      const LoggedAccess& earlier = (*accesses_)[(i - 1) % most];
      if (order.all_know(earlier.stamp)) return;
      if (!(earlier.writes || now.writes) || (earlier.is_strong && now.is_strong)) continue;
      if (earlier.address >= now.address + now.bytes || now.address >= earlier.address + earlier.bytes)
        continue;
      if (f(earlier)) return;
    }
  }

 private:
  static constexpr uint64_t most = 128;  // older accesses are forgotten
  std::unique_ptr<std::array<LoggedAccess, most>> accesses_;
  uint64_t begin_ = 0, end_ = 0;
  uint32_t newest_ = 0;
};

}  // namespace ptxbuilder::runtime::emulator

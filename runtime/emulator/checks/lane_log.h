// The last accesses of a warp's lanes to global memory since all lanes have met: only what the lanes do
// together orders these accesses (machine/lane_order.h).
#pragma once

#include <cstdint>
#include <vector>

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
    if (order.all_know(newest_)) {
      accesses_.clear();
      next_ = 0;
    }
    newest_ = access.stamp;
    if (accesses_.size() < most) {
      if (accesses_.empty()) accesses_.reserve(least);
      accesses_.push_back(access);
    } else {
      accesses_[next_] = access;
      next_ = (next_ + 1) % most;
    }
  }
  // Calls f for each access that overlaps and conflicts with it, the last first, until f returns true.
  template <class F>
  void each_conflict(const LaneOrder& order, const LoggedAccess& now, F f) const {
    const size_t count = accesses_.size();
    for (size_t i = 1; i <= count; ++i) {
      const LoggedAccess& earlier = accesses_[(next_ + count - i) % count];
      if (order.all_know(earlier.stamp)) return;
      if (!(earlier.writes || now.writes) || (earlier.is_strong && now.is_strong)) continue;
      if (earlier.address >= now.address + now.bytes || now.address >= earlier.address + earlier.bytes)
        continue;
      if (f(earlier)) return;
    }
  }

 private:
  static constexpr size_t least = 32, most = 128;  // older accesses are forgotten
  std::vector<LoggedAccess> accesses_;
  size_t next_ = 0;  // the oldest, once there are so many
  uint32_t newest_ = 0;
};

}  // namespace ptxbuilder::runtime::emulator

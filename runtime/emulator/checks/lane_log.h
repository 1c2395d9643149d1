// A log of the latest accesses of a warp's lanes to global memory. It is cleared when all lanes have met,
// because later accesses of the lanes are then ordered after those in the log (machine/lane_order.h).
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/device.h"
#include "runtime/emulator/machine/lane_order.h"

namespace ptxbuilder::runtime::emulator {

// An access by consecutive lanes, starting with lane `lane`. Each lane accesses `each` bytes, one lane after
// the other; or, if `each` is 0, `count` lanes access the same bytes.
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
  // Calls f for each logged access that overlaps and conflicts with `now`, starting with the latest, until f
  // returns true.
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
  static constexpr size_t least = 32, most = 128;  // beyond `most`, an access replaces the oldest
  std::vector<LoggedAccess> accesses_;
  size_t next_ = 0;  // index of the oldest access, once there are `most`
  uint32_t newest_ = 0;
};

}  // namespace ptxbuilder::runtime::emulator

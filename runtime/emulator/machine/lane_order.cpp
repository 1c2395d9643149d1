#include "runtime/emulator/machine/lane_order.h"

#include <algorithm>

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

void LaneOrder::part() {
  if (!known_) known_ = std::make_unique<std::array<uint32_t, 1024>>();
  if (!apart_) known_->fill(all_);
  apart_ = true;
}

void LaneOrder::meet_some(Lanes who) {
  part();
  std::array<uint32_t, 32> joined{};
  for_lanes(who, [&](int lane) {
    for (size_t k = 0; k < 32; ++k)
      joined[k] = std::max(joined[k], (*known_)[static_cast<size_t>(lane) * 32 + k]);
  });
  for_lanes(who, [&](int lane) { joined[static_cast<size_t>(lane)] = now_; });
  for_lanes(who, [&](int lane) { std::ranges::copy(joined, known_->begin() + lane * 32); });
  ++now_;
}

void LaneOrder::learn_some(Lanes who) {
  part();
  for_lanes(who, [&](int lane) { std::fill_n(known_->begin() + lane * 32, 32, now_); });
  ++now_;
}

}  // namespace ptxbuilder::runtime::emulator

// Finds consecutive lanes of a warp that access adjacent memory, so that they can be reported as one access.
#pragma once

#include <optional>

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

// A group of `count` lanes, starting at lane `first`, that access memory together. Each lane's address is
// `each` bytes after that of the previous lane; if `each` is 0, all access the same bytes.
struct Together {
  int first = 0;
  uint32_t count = 0, each = 0;
};

// Returns the distance between the addresses of neighbouring lanes, which must be 0 or `bytes` for all of the
// `count` lanes. Otherwise returns nothing.
template <class T>
std::optional<uint32_t> distance(const T* base, uint32_t count, uint32_t bytes) {
  const auto step = static_cast<T>(base[1] - base[0]);
  if (step != 0 && step != bytes) return std::nullopt;
  T differs = 0;
  for (uint32_t k = 1; k < count; ++k) differs |= base[k] - base[k - 1] - step;
  if (differs) return std::nullopt;
  return static_cast<uint32_t>(step);
}

inline std::optional<Together> together(const Warp& w, const AddressOperand& address, Lanes lanes,
                                        uint32_t bytes) {
  const int first = __builtin_ctz(lanes);
  const Lanes run = lanes >> first;
  if ((run & (run + 1)) != 0) return std::nullopt;  // the lanes are not consecutive
  const auto count = static_cast<uint32_t>(__builtin_popcount(run));
  if (count == 1 || address.base_bytes == 0) return Together{first, count, 0};
  const std::optional<uint32_t> each = address.base_bytes == 4
                                           ? distance(w.at<uint32_t>(address.base) + first, count, bytes)
                                           : distance(w.at<uint64_t>(address.base) + first, count, bytes);
  if (!each) return std::nullopt;
  return Together{first, count, *each};
}

inline bool reaches_global(Space space, uint64_t address) {
  return space == Space::global ||
         (space == Space::generic && !in_window(address, local_window) && !in_window(address, param_window));
}

}  // namespace ptxbuilder::runtime::emulator

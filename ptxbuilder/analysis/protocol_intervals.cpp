#include "ptxbuilder/analysis/protocol_intervals.h"

#include <algorithm>

namespace ptxbuilder::analysis {

Intervals united(Intervals all) {
  std::sort(all.begin(), all.end());
  Intervals apart;
  for (const auto& one : all)
    if (!apart.empty() && (apart.back().second == ~uint64_t{0} || one.first <= apart.back().second + 1))
      apart.back().second = std::max(apart.back().second, one.second);
    else
      apart.push_back(one);
  return apart;
}

Intervals common(const Intervals& a, const Intervals& b) {
  Intervals both;
  for (const auto& x : a)
    for (const auto& y : b)
      if (std::max(x.first, y.first) <= std::min(x.second, y.second))
        both.emplace_back(std::max(x.first, y.first), std::min(x.second, y.second));
  return united(both);
}

Intervals complement(const Intervals& of, int bits) {
  Intervals rest;
  uint64_t next = 0;
  for (const auto& [first, last] : of) {
    if (first > next) rest.emplace_back(next, first - 1);
    if (last == mask(bits)) return rest;
    next = last + 1;
  }
  rest.emplace_back(next, mask(bits));
  return rest;
}

void add_wrapped(Intervals& to, uint64_t first, uint64_t last, int bits) {
  first &= mask(bits), last &= mask(bits);
  if (first <= last) {
    to.emplace_back(first, last);
  } else {
    to.emplace_back(first, mask(bits));
    to.emplace_back(0, last);
  }
}

void add_multiplied(Intervals& to, uint64_t first, uint64_t last, int64_t factor, int64_t constant,
                    int bits) {
  const __int128 by = factor < 0 ? -static_cast<__int128>(factor) : factor, largest = mask(bits - 1) / by;
  for (const __int128 wrap : {__int128{0}, -static_cast<__int128>(mask(bits)) - 1}) {
    // The product factor * x must be between low and high.
    __int128 low = wrap + first - constant, high = wrap + last - constant;
    if (factor < 0) low = -(wrap + last) + constant, high = -(wrap + first) + constant;
    low = low <= 0 ? 0 : (low + by - 1) / by;
    high = high < 0 ? -1 : std::min(high / by, largest);
    if (low <= high) to.emplace_back(static_cast<uint64_t>(low), static_cast<uint64_t>(high));
  }
}

}  // namespace ptxbuilder::analysis

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

}  // namespace ptxbuilder::analysis

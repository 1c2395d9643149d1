// Inequalities between sums of integers, and whether all can hold together.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace ptxbuilder::analysis {

// constant + the sum of factor times unknown; unknowns are numbered by their user.
struct Linear {
  __int128 constant = 0;
  std::map<int, __int128> factors = {};

  void add(const Linear& other, __int128 by = 1);
};

class LinearSystem {
 public:
  void at_least_zero(const Linear& sum) { rows_.push_back(sum); }
  void between(const Linear& sum, __int128 first, __int128 last);
  // False only if no integers fulfil all of them. Unknowns are eliminated one after the other (Fourier and
  // Motzkin); where that takes too many sums at once, or more than are `left` of those of all calls, all may
  // hold.
  bool may_hold(size_t& left) const;

 private:
  std::vector<Linear> rows_;
};

}  // namespace ptxbuilder::analysis

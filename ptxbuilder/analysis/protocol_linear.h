// Decides whether linear inequalities between integers can hold at the same time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace ptxbuilder::analysis {

// A constant plus the sum of factors times unknowns. The caller numbers the unknowns.
struct Linear {
  __int128 constant = 0;
  std::map<int, __int128> factors = {};

  void add(const Linear& other, __int128 by = 1);
};

class LinearSystem {
 public:
  void at_least_zero(const Linear& sum) { rows_.push_back(sum); }
  void between(const Linear& sum, __int128 first, __int128 last);
  // Returns false only if no integers satisfy all inequalities. Eliminates the unknowns one by one
  // (Fourier-Motzkin elimination). Also returns true if the elimination needs too many sums at once, or more
  // sums in total than `left`, a limit that all calls share and decrease.
  bool may_hold(size_t& left) const;

 private:
  std::vector<Linear> rows_;
};

}  // namespace ptxbuilder::analysis

#include "ptxbuilder/analysis/protocol_linear.h"

#include <algorithm>

namespace ptxbuilder::analysis {
namespace {

constexpr __int128 kLargest = __int128{1} << 100;
constexpr size_t kMostRows = 2000;

__int128 magnitude(__int128 x) { return x < 0 ? -x : x; }

__int128 common_divisor(__int128 a, __int128 b) {
  while (b != 0) {
    const __int128 rest = a % b;
    a = b, b = rest;
  }
  return a;
}

__int128 divided_down(__int128 a, __int128 by) { return a / by - (a % by < 0 ? 1 : 0); }

// For each set of factors, holds the smallest constant of the sums with these factors.
using Rows = std::map<std::map<int, __int128>, __int128>;

// Adds a sum, divided by the greatest common divisor of its factors. The constant can be rounded down, since
// the unknowns are integers. Returns false if the sum is a negative constant.
bool put(Rows& rows, Linear sum) {
  std::erase_if(sum.factors, [](const auto& f) { return f.second == 0; });
  if (sum.factors.empty()) return sum.constant >= 0;
  __int128 divisor = 0;
  for (const auto& [unknown, factor] : sum.factors) divisor = common_divisor(divisor, magnitude(factor));
  for (auto& [unknown, factor] : sum.factors) factor /= divisor;
  const auto [row, is_new] = rows.try_emplace(std::move(sum.factors), divided_down(sum.constant, divisor));
  if (!is_new) row->second = std::min(row->second, divided_down(sum.constant, divisor));
  return true;
}

}  // namespace

void Linear::add(const Linear& other, __int128 by) {
  constant += other.constant * by;
  for (const auto& [unknown, factor] : other.factors) factors[unknown] += factor * by;
}

void LinearSystem::between(const Linear& sum, __int128 first, __int128 last) {
  Linear above = sum, below;
  above.constant -= first;
  below.constant = last;
  below.add(sum, -1);
  at_least_zero(above), at_least_zero(below);
}

bool LinearSystem::may_hold(size_t& left_of_all) const {
  Rows rows;
  for (const Linear& row : rows_)
    if (!put(rows, row)) return false;
  for (;;) {
    // Eliminates the unknown that creates the fewest sums.
    std::map<int, std::pair<size_t, size_t>> signs;
    for (const auto& [factors, constant] : rows) {
      if (magnitude(constant) > kLargest) return true;
      for (const auto& [unknown, factor] : factors) {
        if (magnitude(factor) > (kLargest >> 50)) return true;
        ++(factor > 0 ? signs[unknown].first : signs[unknown].second);
      }
    }
    if (signs.empty() || rows.size() > kMostRows || left_of_all < rows.size()) return true;
    left_of_all -= rows.size();
    const auto product = [](const auto& s) { return s.second.first * s.second.second; };
    const int unknown = std::min_element(signs.begin(), signs.end(), [&](const auto& a, const auto& b) {
                          return product(a) < product(b);
                        })->first;
    Rows left;
    std::vector<Linear> lower, upper;
    for (const auto& [factors, constant] : rows) {
      const auto found = factors.find(unknown);
      if (found == factors.end())
        left.emplace(factors, constant);
      else
        (found->second > 0 ? lower : upper).push_back({constant, factors});
    }
    for (const Linear& low : lower)
      for (const Linear& high : upper) {
        const __int128 by_low = -high.factors.at(unknown), by_high = low.factors.at(unknown);
        if (magnitude(low.constant) > kLargest / by_low || magnitude(high.constant) > kLargest / by_high)
          return true;
        Linear sum;
        sum.add(low, by_low), sum.add(high, by_high);
        if (!put(left, std::move(sum))) return false;
      }
    rows = std::move(left);
  }
}

}  // namespace ptxbuilder::analysis

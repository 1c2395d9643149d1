// Chooses some rows of a form that represent all of them.
#pragma once

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "ptxbuilder/isa/manual.h"

namespace ptxbuilder::test {

// The number of the chosen entry for each axis.
using Choosing = std::vector<size_t>;

inline isa::MadeRow row_of(const isa::Form& form, const std::vector<std::vector<isa::Choice>>& axes,
                           const Choosing& chosen) {
  isa::Choices choices;
  for (size_t axis = 0; axis < axes.size(); ++axis) choices.push(axes[axis][chosen[axis]]);
  return isa::detail::row_of(form, choices);
}

inline size_t count_rows(const isa::Form& form) {
  size_t rows = 1;
  for (const auto& axis : isa::axes_of(form)) rows *= axis.size();
  return rows;
}

// Calls `visit` with rows that together cover every choice of each axis. Their number is the length of the
// longest axis.
inline void for_each_choice(const isa::Form& form, const std::function<void(const isa::MadeRow&)>& visit) {
  const auto axes = isa::axes_of(form);
  size_t longest = 1;
  for (const auto& axis : axes) longest = std::max(longest, axis.size());
  for (size_t nth = 0; nth < longest; ++nth) {
    Choosing chosen;
    for (const auto& axis : axes) chosen.push_back(nth % axis.size());
    visit(row_of(form, axes, chosen));
  }
}

// Calls `visit` with rows that together cover every pair of choices on any two axes. `random` chooses for the
// other axes.
inline void for_each_pair(const isa::Form& form, std::mt19937_64& random,
                          const std::function<void(const isa::MadeRow&)>& visit) {
  const auto axes = isa::axes_of(form);
  std::set<std::tuple<size_t, size_t, size_t, size_t>> had;  // axis, choice, a later axis, choice
  const auto visit_one = [&](Choosing chosen) {
    for (size_t i = 0; i < axes.size(); ++i)
      for (size_t j = i + 1; j < axes.size(); ++j) had.emplace(i, chosen[i], j, chosen[j]);
    visit(row_of(form, axes, chosen));
  };
  for (size_t i = 0; i < axes.size(); ++i)
    for (size_t j = i + 1; j < axes.size(); ++j)
      for (size_t a = 0; a < axes[i].size(); ++a)
        for (size_t b = 0; b < axes[j].size(); ++b) {
          if (had.contains({i, a, j, b})) continue;
          Choosing chosen;
          for (const auto& axis : axes)
            chosen.push_back(std::uniform_int_distribution<size_t>(0, axis.size() - 1)(random));
          chosen[i] = a, chosen[j] = b;
          visit_one(chosen);
        }
}

}  // namespace ptxbuilder::test

// Computes a value in one thread of a CTA, if it follows from the thread's number.
#pragma once

#include <optional>
#include <vector>

#include "ptxbuilder/analysis/values.h"

namespace ptxbuilder::analysis {

class ThreadValues {
 public:
  // Determines the values of a loop that start from a known value: they are unknown, or have their initial
  // values.
  enum class Loops : uint8_t { unknown, at_start };

  // `thread` counts along x; without a thread, values that depend on its number are unknown. `values` must
  // outlive this object.
  ThreadValues(const Values& values, std::optional<int64_t> thread, Loops loops = Loops::unknown)
      : values_(values), thread_(thread), loops_(loops) {}

  // Returns the value of a sum. elect.sync is assumed to choose lane 0.
  std::optional<int64_t> operator()(const Sum& sum);

  // Computes a function from the known values of its inputs.
  static std::optional<int64_t> computed(const Atom& function,
                                         const std::vector<std::optional<int64_t>>& inputs);

  // Returns a sum whose known terms are folded into the constant; the unknown terms remain.
  Sum rest(const Sum& sum);

 private:
  enum class State : uint8_t { open, unknown, known };

  std::optional<int64_t> atom(int number);
  std::optional<int64_t> special(std::string_view name) const;
  std::optional<int64_t> found(const Atom& a);

  const Values& values_;
  std::optional<int64_t> thread_;
  Loops loops_;
  std::vector<State> states_ = {};  // by position among the atoms of threads or, if loops count too, by atom
  std::vector<int64_t> numbers_ = {};
  int depth_ = 0;  // number of nested atoms that are being computed
};

}  // namespace ptxbuilder::analysis

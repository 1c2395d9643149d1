// Computes the value of a sum in one thread of a CTA, if it depends only on the thread's number.
#pragma once

#include <optional>
#include <vector>

#include "ptxbuilder/analysis/values.h"

namespace ptxbuilder::analysis {

class ThreadValues {
 public:
  // Determines whether a value that a loop changes, and whose initial value is known, counts as unknown or as
  // equal to its initial value.
  enum class Loops : uint8_t { unknown, at_start };

  // `thread` is the thread's number along x. If `thread` is empty, values that depend on the thread's number
  // are unknown. `values` must outlive this object.
  ThreadValues(const Values& values, std::optional<int64_t> thread, Loops loops = Loops::unknown)
      : values_(values), thread_(thread), loops_(loops) {}

  // Returns the value of a sum, or nothing if it is not known. elect.sync is assumed to choose lane 0.
  std::optional<int64_t> operator()(const Sum& sum);

  // Computes a function from the known values of its inputs.
  static std::optional<int64_t> computed(const Atom& function,
                                         const std::vector<std::optional<int64_t>>& inputs);

  // Returns the sum with its known terms folded into the constant.
  Sum rest(const Sum& sum);

 private:
  enum class State : uint8_t { open, unknown, known };

  std::optional<int64_t> atom(int number);
  std::optional<int64_t> special(std::string_view name) const;
  std::optional<int64_t> found(const Atom& a);

  const Values& values_;
  std::optional<int64_t> thread_;
  Loops loops_;
  std::vector<State> states_ = {};  // states of atoms, indexed by place_in_thread() or, with Loops::at_start,
                                    // by the number of the atom
  std::vector<int64_t> numbers_ = {};
  int depth_ = 0;  // number of nested atoms that are being computed
};

}  // namespace ptxbuilder::analysis

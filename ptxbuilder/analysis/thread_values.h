// Computes what a value is in one thread of a CTA, where that follows from the thread's number.
#pragma once

#include <optional>
#include <vector>

#include "ptxbuilder/analysis/values.h"

namespace ptxbuilder::analysis {

class ThreadValues {
 public:
  // Some of a loop's values start from a known one, and can be taken as they are when it begins.
  enum class Loops : uint8_t { unknown, at_start };

  // `thread` counts along x; without one no value follows from it. `values` has to live as long as this does.
  ThreadValues(const Values& values, std::optional<int64_t> thread, Loops loops = Loops::unknown)
      : values_(values), thread_(thread), loops_(loops) {}

  // elect.sync is taken to choose lane 0.
  std::optional<int64_t> operator()(const Sum& sum);

  // This computes a function of what is known of its inputs.
  static std::optional<int64_t> computed(const Atom& function,
                                         const std::vector<std::optional<int64_t>>& inputs);

  // A sum as what is known of it, and terms that are unknown.
  Sum rest(const Sum& sum);

 private:
  enum class State : uint8_t { open, unknown, known };

  std::optional<int64_t> atom(int number);
  std::optional<int64_t> special(std::string_view name) const;
  std::optional<int64_t> found(const Atom& a);

  const Values& values_;
  std::optional<int64_t> thread_;
  Loops loops_;
  std::vector<State> states_ = {};  // by place among the atoms of threads, or by atom where loops count too
  std::vector<int64_t> numbers_ = {};
  int depth_ = 0;  // of atoms that are being found
};

}  // namespace ptxbuilder::analysis

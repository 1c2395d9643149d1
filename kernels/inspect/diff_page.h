// `ptxb diff --html`: two kernels on one self-contained page, with their differences, a drawing of their
// roles and barriers, and their loops side by side.
#pragma once

#include <string>
#include <vector>

#include "ptxbuilder/analysis/diff.h"

namespace ptxbuilder::command {

struct PageSide {
  std::string from;  // the user's words
  const std::string& ptx;
  const analysis::KernelAnalysis& kernel;
};

std::string diff_page(const PageSide& a, const PageSide& b,
                      const std::vector<analysis::Difference>& differences);

}  // namespace ptxbuilder::command

// Writes the page of `ptxb diff --html`. The self-contained page shows the differences of two kernels, a
// drawing of their roles and barriers, and their loops side by side.
#pragma once

#include <string>
#include <vector>

#include "ptxbuilder/analysis/diff.h"

namespace ptxbuilder::command {

struct PageSide {
  std::string from;  // the user's name for the kernel
  const std::string& ptx;
  const analysis::KernelAnalysis& kernel;
};

std::string diff_page(const PageSide& a, const PageSide& b,
                      const std::vector<analysis::Difference>& differences);

}  // namespace ptxbuilder::command

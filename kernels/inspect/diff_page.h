// `ptxb diff --html`: two kernels on one page that needs nothing else: what differs, their roles and barriers
// drawn, and their loops side by side.
#pragma once

#include <string>
#include <vector>

#include "ptxbuilder/analysis/diff.h"

namespace ptxbuilder::command {

struct PageSide {
  std::string from;  // as the user named it
  const std::string& ptx;
  const analysis::KernelAnalysis& kernel;
};

std::string diff_page(const PageSide& a, const PageSide& b,
                      const std::vector<analysis::Difference>& differences);

}  // namespace ptxbuilder::command

// Writes the page of `ptxb explain --html`. The self-contained page shows a kernel's design, a drawing of its
// roles and barriers, and the steps of each loop next to the loop's PTX.
#pragma once

#include <string>
#include <vector>

#include "ptxbuilder/analysis/regions.h"

namespace ptxbuilder::command {

// Returns the page. `from` is the user's name for the PTX; `design` holds the facts to show.
std::string explain_page(const std::string& from, const std::string& ptx,
                         const analysis::KernelAnalysis& kernel, const std::vector<analysis::Region>& design);

}  // namespace ptxbuilder::command

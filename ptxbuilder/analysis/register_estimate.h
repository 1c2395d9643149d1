// Estimates from PTX, before ptxas runs, how many registers a thread will need.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ptxbuilder/analysis/graph.h"

namespace ptxbuilder::analysis {

// The registers that are needed by the code after one setmaxnreg, or by all code if there is none. This is
// the greatest number of registers that are live at once. Two orders of each block are tried, the order of
// the text and an order that keeps few registers live, and the better one counts. Blocks with more than 8192
// instructions are skipped. A value that is equal in all lanes counts as a uniform register. ptxas uses more
// registers if they are available.
struct RegisterEstimate {
  std::optional<int> granted = {};  // registers that setmaxnreg grants, or otherwise each thread's share of
                                    // its CTA's registers, at most 255
  int accumulators = 0;             // accumulators of wgmma that are live at the maximum
  int others = 0;                   // other registers that are live at the maximum
  int registers = 0;                // the estimate
  int operation = kNone;            // instruction at which most registers are live
  uint32_t line = 0;                // line of `operation` in the PTX

  // Returns the greatest amount by which the estimate exceeded ptxas's need for any of the kernels on which
  // it was tested.
  int tolerance() const { return accumulators > 0 ? 20 : 48; }
  // Returns whether the need exceeds the granted registers, even if the estimate is too high by the
  // tolerance.
  bool is_too_large() const { return granted && registers - tolerance() > *granted; }
};

// Returns one estimate for each setmaxnreg, in the order of the text.
std::vector<RegisterEstimate> estimate_registers(const Code& code, const Graph& graph);

}  // namespace ptxbuilder::analysis

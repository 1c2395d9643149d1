// Estimates from PTX, before ptxas runs, the number of registers that a thread will need.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ptxbuilder/analysis/graph.h"

namespace ptxbuilder::analysis {

// The number of registers that the code after one setmaxnreg needs, or that all code needs if there is no
// setmaxnreg. It is the greatest number of registers that are live at once. Two orders of each block are
// tried, namely the order of the text and an order in which few registers are live, and the lower number is
// used. Blocks with more than 8192 instructions are skipped. A value that is equal in all lanes counts as a
// uniform register. ptxas uses more registers if they are available.
struct RegisterEstimate {
  std::optional<int> granted = {};  // number of registers that setmaxnreg grants; without setmaxnreg, each
                                    // thread's share of its CTA's registers, at most 255
  int accumulators = 0;             // accumulators of wgmma that are live at the maximum
  int others = 0;                   // other registers that are live at the maximum
  int registers = 0;                // the estimate
  int operation = kNone;            // instruction at which most registers are live
  uint32_t line = 0;                // line of `operation` in the PTX

  // Returns the greatest amount by which the estimate exceeded the number of registers that ptxas needed for
  // any of the tested kernels.
  int tolerance() const { return accumulators > 0 ? 20 : 48; }
  // Returns whether the kernel needs more registers than it is granted, even if the estimate is too high by
  // tolerance().
  bool is_too_large() const { return granted && registers - tolerance() > *granted; }
};

// Returns one estimate for each setmaxnreg, in the order of the text.
std::vector<RegisterEstimate> estimate_registers(const Code& code, const Graph& graph);

}  // namespace ptxbuilder::analysis

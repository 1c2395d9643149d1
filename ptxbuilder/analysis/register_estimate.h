// Estimates from PTX, before ptxas runs, how many registers a thread will need.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ptxbuilder/analysis/graph.h"

namespace ptxbuilder::analysis {

// The registers that the code after one setmaxnreg needs, or all code if there is none: the greatest number
// that are live at once, in the better of two orders of each block, the order of the text and one that keeps
// few registers live. Blocks of more than 8192 instructions are skipped. A value that is equal in all lanes
// is counted as a uniform register. ptxas uses more registers if they are available.
struct RegisterEstimate {
  std::optional<int> granted = {};  // by setmaxnreg; otherwise each thread's share of its CTA's registers, at
                                    // most 255
  int accumulators = 0;             // accumulators of wgmma that are live at the maximum
  int others = 0;                   // other registers that are live there
  int registers = 0;                // the estimate
  int operation = kNone;            // instruction at which most registers are live
  uint32_t line = 0;                // in the PTX

  // Returns the greatest amount by which the estimate exceeded the registers that ptxas needs, among the
  // kernels on which it was tested.
  int tolerance() const { return accumulators > 0 ? 20 : 48; }
  // Returns whether the need is too large even if the estimate is too high by the tolerance.
  bool is_too_large() const { return granted && registers - tolerance() > *granted; }
};

// Returns the estimates, in the order of setmaxnreg in the text.
std::vector<RegisterEstimate> estimate_registers(const Code& code, const Graph& graph);

}  // namespace ptxbuilder::analysis

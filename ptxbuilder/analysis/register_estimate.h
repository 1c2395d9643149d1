// Estimates from PTX, before ptxas runs, the registers that a thread will need.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ptxbuilder/analysis/graph.h"

namespace ptxbuilder::analysis {

// The need of the code that follows one setmaxnreg, or of all code if there is none: the most registers that
// are alive at once, in the better of two orders of each block, the text's and one that keeps few alive;
// blocks of more than 8192 instructions are skipped. A value that is equal in all lanes is kept in a uniform
// register. ptxas uses more registers if they are available.
struct RegisterEstimate {
  std::optional<int> granted = {};  // in setmaxnreg; else each thread's share of its CTA's, at most 255
  int accumulators = 0;             // of wgmma, alive at the maximum
  int others = 0;                   // other registers alive there
  int registers = 0;                // the estimate
  int operation = kNone;            // the instruction at which most registers are live
  uint32_t line = 0;                // of the PTX

  // The largest amount by which the estimate exceeded the registers that ptxas needs, over the kernels on
  // which it was tested.
  int tolerance() const { return accumulators > 0 ? 20 : 48; }
  // Returns whether even the smallest need within the tolerance does not fit.
  bool is_too_large() const { return granted && registers - tolerance() > *granted; }
};

// Returns the estimates in the order of setmaxnreg in the text.
std::vector<RegisterEstimate> estimate_registers(const Code& code, const Graph& graph);

}  // namespace ptxbuilder::analysis

// The registers that a thread will need are estimated from PTX before ptxas allocates them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ptxbuilder/analysis/graph.h"

namespace ptxbuilder::analysis {

// The need of the code that follows one setmaxnreg, or of all code where there is none: the registers that
// are alive at once where most are, of the better of two orders of each block, the text's and one that keeps
// few alive; blocks of more than 8192 instructions are left out. A value that is the same in all lanes is in
// a uniform register. ptxas takes more where there are more.
struct RegisterEstimate {
  std::optional<int> granted = {};  // by setmaxnreg; else what a CTA's threads leave for each, at most 255
  int accumulators = 0;             // of wgmma, alive where most registers are
  int others = 0;                   // alive there together with these
  int registers = 0;                // the estimate
  int operation = kNone;            // the instruction where most are alive
  uint32_t line = 0;                // of the PTX

  // The estimate is above what ptxas makes do with by no more than this, for the kernels that it was tried
  // on.
  int tolerance() const { return accumulators > 0 ? 20 : 48; }
  // Even the least that the tolerance allows does not fit.
  bool is_too_large() const { return granted && registers - tolerance() > *granted; }
};

// The estimates come in the order of setmaxnreg in the text.
std::vector<RegisterEstimate> estimate_registers(const Code& code, const Graph& graph);

}  // namespace ptxbuilder::analysis

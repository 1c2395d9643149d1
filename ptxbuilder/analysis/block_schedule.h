// Orders the instructions of a basic block so that few registers are live at once.
#pragma once

#include <functional>
#include <vector>

#include "ptxbuilder/analysis/graph.h"

namespace ptxbuilder::analysis {

// The registers that an instruction needs, including its guard, and the registers that it writes. The result
// of a copy shares the register of its source. The first wgmma of a product writes its accumulators but does
// not need them.
struct RegisterEffect {
  std::vector<int> needs = {}, makes = {};
};
std::vector<RegisterEffect> register_effects(const Code& code);

// Calls `step` with each instruction of the block, last instruction first. Of the instructions that may be
// next, it chooses the one with the greatest `gain`. An instruction precedes all uses of its results.
// Ordinary loads and stores stay in order if they may access the same bytes. Every other instruction that
// accesses memory, waits or has a side effect stays in order relative to all instructions that access memory.
void schedule_from_end(const Code& code, const std::vector<RegisterEffect>& effects, const Block& block,
                       const std::function<int(int)>& gain, const std::function<void(int)>& step);

}  // namespace ptxbuilder::analysis

// Orders the instructions of a basic block so that few registers are live at once.
#pragma once

#include <functional>
#include <vector>

#include "ptxbuilder/analysis/graph.h"

namespace ptxbuilder::analysis {

// The registers that an instruction needs, including its guard, and those that it writes. A copy shares the
// register of its source. The first wgmma of a product writes its accumulators without needing them.
struct RegisterEffect {
  std::vector<int> needs = {}, makes = {};
};
std::vector<RegisterEffect> register_effects(const Code& code);

// Calls `step` with each instruction of the block, last instruction first. Among the instructions that may
// come next, the one with the greatest `gain` is chosen. Results stay before their uses. Ordinary loads and
// stores keep their order if they may touch the same bytes. Every other instruction that accesses memory,
// waits or has a side effect keeps its order relative to all instructions that access memory.
void schedule_from_end(const Code& code, const std::vector<RegisterEffect>& effects, const Block& block,
                       const std::function<int(int)>& gain, const std::function<void(int)>& step);

}  // namespace ptxbuilder::analysis

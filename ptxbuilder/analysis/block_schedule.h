// An order of a basic block's instructions that keeps few registers alive.
#pragma once

#include <functional>
#include <vector>

#include "ptxbuilder/analysis/graph.h"

namespace ptxbuilder::analysis {

// An instruction needs registers and makes some: the guard is needed, a copy shares the register of what
// it copies, and the first wgmma of a product makes its accumulators without needing them.
struct RegisterEffect {
  std::vector<int> needs = {}, makes = {};
};
std::vector<RegisterEffect> register_effects(const Code& code);

// Calls `step` with each instruction of the block, the last one first. Of those that may come next, the one
// goes first for which `gain` is the greatest. Results stay ahead of what needs them; plain loads and stores
// keep their order where they may touch the same bytes, and all else that touches memory, waits or has an
// effect of its own keeps its order with everything that touches memory.
void schedule_from_end(const Code& code, const std::vector<RegisterEffect>& effects, const Block& block,
                       const std::function<int(int)>& gain, const std::function<void(int)>& step);

}  // namespace ptxbuilder::analysis

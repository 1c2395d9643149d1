// Describes a kernel's design as facts, such as "stages" and "groups under way". The list of facts is the
// same for every kernel. Kernels of different origin differ in nearly all instructions, but in only a few
// facts.
#pragma once

#include <vector>

#include "ptxbuilder/analysis/regions.h"

namespace ptxbuilder::analysis {

// Returns the facts as events of regions. Each event has one value. Values do not contain names or hashes.
std::vector<Region> facts(KernelAnalysis& kernel);

}  // namespace ptxbuilder::analysis

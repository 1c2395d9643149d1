// A kernel's design as facts, the same ones for every kernel: "stages", "groups under way". Kernels of other
// origin differ in nearly every instruction, but in few facts.
#pragma once

#include <vector>

#include "ptxbuilder/analysis/regions.h"

namespace ptxbuilder::analysis {

// Regions of events with one value each, in which no name and no hash is.
std::vector<Region> facts(KernelAnalysis& kernel);

}  // namespace ptxbuilder::analysis

// Describes a kernel's design as facts, with the same list for every kernel: "stages", "groups under way".
// Kernels of different origin differ in nearly every instruction, but in few facts.
#pragma once

#include <vector>

#include "ptxbuilder/analysis/regions.h"

namespace ptxbuilder::analysis {

// Returns regions whose events have one value each; the values do not contain names or hashes.
std::vector<Region> facts(KernelAnalysis& kernel);

}  // namespace ptxbuilder::analysis

// Writes a problem as JSON.
#pragma once

#include <string>

#include "kernels/measure/workload.h"

namespace ptxbuilder::bench {

// Each returns an object: the sizes of the problem, how it is stored and computed, and both.
std::string size_json(const Problem& problem);
std::string type_json(const Problem& problem);
std::string problem_json(const Problem& problem);

}  // namespace ptxbuilder::bench

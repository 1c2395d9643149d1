// A problem as words of JSON.
#pragma once

#include <string>

#include "kernels/measure/workload.h"

namespace ptxbuilder::bench {

// Each is an object: its sizes, how it is stored and computed, and both as one.
std::string size_json(const Problem& problem);
std::string type_json(const Problem& problem);
std::string problem_json(const Problem& problem);

}  // namespace ptxbuilder::bench

// This writes a problem as words of JSON.
#pragma once

#include <string>

#include "kernels/measure/workload.h"

namespace ptxbuilder::bench {

// Each gives an object: of its sizes, of how it is stored and computed, and of both.
std::string size_json(const Problem& problem);
std::string type_json(const Problem& problem);
std::string problem_json(const Problem& problem);

}  // namespace ptxbuilder::bench

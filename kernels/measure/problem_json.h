// Writes a problem as JSON.
#pragma once

#include <string>

#include "kernels/measure/workload.h"

namespace ptxbuilder::bench {

// Return a JSON object with the problem's sizes, with its types and layout, and with both, respectively.
std::string size_json(const Problem& problem);
std::string type_json(const Problem& problem);
std::string problem_json(const Problem& problem);

}  // namespace ptxbuilder::bench

// Writes a problem as JSON.
#pragma once

#include <string>

#include "kernels/measure/workload.h"

namespace ptxbuilder::bench {

// These functions return a JSON object with the problem's sizes, with its types and layout, and with all of
// these, respectively.
std::string size_json(const Problem& problem);
std::string type_json(const Problem& problem);
std::string problem_json(const Problem& problem);

}  // namespace ptxbuilder::bench

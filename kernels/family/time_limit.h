// The option --time-limit.
#pragma once

#include <chrono>

#include "kernels/family/command_line.h"

namespace ptxbuilder::command {

// Adds it; `seconds` holds what is given.
void add_time_limit(const Arguments& app, double& seconds);

// The limit in seconds for what waits so long: a part of a millisecond is one, and of more than anybody
// waits, infinity too, so many are left that adding them to the time overflows nowhere.
std::chrono::milliseconds time_limit(double seconds);

}  // namespace ptxbuilder::command

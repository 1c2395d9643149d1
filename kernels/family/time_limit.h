// The option --time-limit.
#pragma once

#include <chrono>

#include "kernels/family/command_line.h"

namespace ptxbuilder::command {

// Adds the option; `seconds` holds the given value.
void add_time_limit(const Arguments& app, double& seconds);

// Returns the limit in milliseconds for waits: a fraction of a millisecond counts as one, and a limit longer
// than anybody waits, including infinity, becomes a number that can be added to the current time without
// overflow.
std::chrono::milliseconds time_limit(double seconds);

}  // namespace ptxbuilder::command

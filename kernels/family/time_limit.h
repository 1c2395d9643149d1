// Defines the option --time-limit.
#pragma once

#include <chrono>

#include "kernels/family/command_line.h"

namespace ptxbuilder::command {

// Adds the option; `seconds` receives its value.
void add_time_limit(const Arguments& app, double& seconds);

// Returns the limit for waits in milliseconds, rounded up. An extremely long limit, such as infinity, is
// reduced to a duration that can be added to the current time without overflow.
std::chrono::milliseconds time_limit(double seconds);

}  // namespace ptxbuilder::command

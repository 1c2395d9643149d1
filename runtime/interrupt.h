// How a thread that runs work itself, as on the emulator, is asked to leave off.
#pragma once

#include <functional>

namespace ptxbuilder::runtime {

// What the emulator asks now and then while this thread runs a launch whose CTAs are its own: where it gives
// true, the launch ends as one whose time is over. Empty for nothing.
void interrupt_by(std::function<bool()> is_interrupted);

bool is_interrupted();

}  // namespace ptxbuilder::runtime

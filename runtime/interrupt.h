// A thread that runs work itself, as on the emulator, is asked to leave off by this.
#pragma once

#include <functional>

namespace ptxbuilder::runtime {

// The emulator asks this now and then while the thread runs a launch whose CTAs are its own: where it gives
// true, the launch ends as one whose time is over. An empty function asks for nothing.
void interrupt_by(std::function<bool()> is_interrupted);

bool is_interrupted();

}  // namespace ptxbuilder::runtime

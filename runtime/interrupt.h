// Interrupts work that a thread runs itself, such as a launch on the emulator.
#pragma once

#include <functional>

namespace ptxbuilder::runtime {

// The emulator calls the function now and then while the calling thread itself runs a launch's CTAs. If it
// returns true, the launch ends as if its time limit had passed. An empty function turns this off.
void interrupt_by(std::function<bool()> is_interrupted);

bool is_interrupted();

}  // namespace ptxbuilder::runtime

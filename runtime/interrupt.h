// Interrupts work that a thread executes itself, such as a launch on the emulator.
#pragma once

#include <functional>

namespace ptxbuilder::runtime {

// Makes the emulator call the function from time to time while the calling thread itself executes a launch's
// CTAs. If the function returns true, the launch ends as if its time limit had passed. An empty function
// disables this.
void interrupt_by(std::function<bool()> is_interrupted);

bool is_interrupted();

}  // namespace ptxbuilder::runtime

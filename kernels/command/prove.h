// Whether matrix instructions and stores of a kernel find in shared memory what copies and registers have put
// there.
#pragma once

#include "kernels/command/family.h"

namespace ptxbuilder::command {

// Prints the proof, or the counterexample, and returns the exit code: 0 or that of a wrong result.
int prove_family(const Family& family, const Fields& fields, bool json);

}  // namespace ptxbuilder::command

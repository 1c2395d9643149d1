// The command lines of `ptxb` and of the executable of a kernel.
#pragma once

namespace ptxbuilder::command {

// Both return the exit code: 0 good, 1 failed, 2 wrong usage, 3 wrong result, 4 timed out. They catch
// everything.
int ptxb_main(int argc, char** argv);
// Runs an executable with kernels: it has the commands of `ptxb` that work on kernels. If it has one kernel,
// its name may be omitted, and options in place of a command run it.
int kernel_main(int argc, char** argv);

}  // namespace ptxbuilder::command

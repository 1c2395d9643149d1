// The entry points of `ptxb` and of executables with kernels.
#pragma once

namespace ptxbuilder::command {

// Runs `ptxb`. Like kernel_main(), it catches all exceptions and returns the exit code: 0 success, 1 failure,
// 2 wrong usage, 3 wrong result, 4 timeout.
int ptxb_main(int argc, char** argv);
// Runs an executable with kernels. It has the commands of `ptxb` that operate on kernels. If it has only one
// kernel, the kernel's name may be omitted, and a command line of options without a command runs the kernel.
int kernel_main(int argc, char** argv);

}  // namespace ptxbuilder::command

// The command lines: of `ptxb`, and of one kernel's executable.
#pragma once

namespace ptxbuilder::command {

// Both return the exit code: 0 good, 1 failed, 2 wrong usage, 3 wrong result, 4 timed out. They catch
// everything.
int ptxb_main(int argc, char** argv);
int kernel_main(const char* kernel, int argc, char** argv);

}  // namespace ptxbuilder::command

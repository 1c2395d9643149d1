// The command lines: of `ptxb`, and of the executable of a kernel.
#pragma once

namespace ptxbuilder::command {

// Both return the exit code: 0 good, 1 failed, 2 wrong usage, 3 wrong result, 4 timed out. They catch
// everything.
int ptxb_main(int argc, char** argv);
// Of the one family that the executable has; of several, and for the word `export`, the same as `ptxb`
// without its other commands.
int kernel_main(int argc, char** argv);

}  // namespace ptxbuilder::command

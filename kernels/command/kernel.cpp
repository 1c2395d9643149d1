// The executable of one kernel, whose name the build gives.
#include "kernels/command/main.h"

int main(int argc, char** argv) { return ptxbuilder::command::kernel_main(PTXBUILDER_KERNEL, argc, argv); }

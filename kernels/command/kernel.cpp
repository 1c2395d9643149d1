// The executable of the kernels that are linked with it.
#include "kernels/command/main.h"

int main(int argc, char** argv) { return ptxbuilder::command::kernel_main(argc, argv); }

// The main program of an executable for the kernels that are linked into it.
#include "kernels/command/main.h"

int main(int argc, char** argv) { return ptxbuilder::command::kernel_main(argc, argv); }

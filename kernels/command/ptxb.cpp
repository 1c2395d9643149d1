// ptxb: all kernels and tools in one executable.
#include "kernels/command/main.h"

int main(int argc, char** argv) { return ptxbuilder::command::ptxb_main(argc, argv); }

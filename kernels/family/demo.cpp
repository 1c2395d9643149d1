// The program that scripts/demo builds. It runs and verifies the kernel that it is linked with, and has no
// other commands, so that it compiles quickly.
#include "kernels/family/run_line.h"

int main(int argc, char** argv) {
  using namespace ptxbuilder::command;
  return run_line(
      families().front(),
      "The kernel's own executable has other commands too: cmake --build --preset release --target " +
          families().front().name,
      {}, {argv + 1, argv + argc});
}

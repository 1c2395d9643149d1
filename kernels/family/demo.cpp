// The main program of the demo that scripts/demo builds. It runs and verifies the kernel that is linked with
// it. It has no other commands, so that it compiles quickly.
#include "kernels/family/run_line.h"

int main(int argc, char** argv) {
  using namespace ptxbuilder::command;
  return run_line(
      families().front(),
      "The kernel's own executable has other commands too: cmake --build --preset release --target " +
          families().front().name,
      {}, {argv + 1, argv + argc});
}

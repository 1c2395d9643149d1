// Builds a kernel, and prints its PTX.
#include <iostream>

#include "ptxbuilder/ptxbuilder.h"

using namespace ptxbuilder;

int main() {
  Kernel k("nothing");
  CompilerOptions options;
  options.assemble = false;
  std::cout << Compiler(options).compile(std::move(k)).ptx;
}

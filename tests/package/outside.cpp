// Builds a kernel with the installed library and prints its PTX.
#include <iostream>

#include "ptxbuilder/compile/compile.h"

using namespace ptxbuilder;

int main() {
  Kernel k("twice");
  auto [x, n] = k.params<gptr<f32>, u32>("x", "n");
  u32 i = ctaid_x() * 128 + tid_x();
  if_(i < n, [&] { x[i] = x[i] * 3; });
  CompilerOptions options;
  options.assemble = false;
  std::cout << Compiler(options).compile(std::move(k)).ptx;
}

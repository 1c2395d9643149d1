// Links the runtime alone: no LLVM.
#include <iostream>

#include "runtime/loaded_kernel.h"

int main() {
  try {
    ptxbuilder::signature_from_json("{}", "empty.json");
  } catch (const ptxbuilder::Error& e) {
    std::cout << e.what() << "\n";
  }
}

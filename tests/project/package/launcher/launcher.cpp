// Links only the runtime, with neither LLVM nor the emulator, and reads NAME.json and NAME.cubin.
#include <iostream>

#include "ptxbuilder/runtime/runtime.h"

using namespace ptxbuilder;

int main(int argc, char** argv) {
  std::cout << "version " << PTXBUILDER_VERSION << "\n";
  try {
    auto device = runtime::open_device(argc > 1 ? argv[1] : "emulator");
    runtime::LoadedKernel kernel = runtime::LoadedKernel::from_file(*device, argv[2]);
    std::cout << kernel.signature().kernel << " is loaded\n";
  } catch (const Error& e) {
    std::cout << e.what() << "\n";
  }
}

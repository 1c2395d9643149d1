// Launches the kernel saxpy from its files, without LLVM: launch FOLDER/saxpy [DEVICE], after `ptxb emit
// saxpy -o FOLDER`.
#include <iostream>

#include "ptxbuilder/runtime/runtime.h"

using namespace ptxbuilder;

int main(int argc, char** argv) try {
  if (argc < 2) throw Error("launch FOLDER/saxpy [DEVICE]");
  auto device =
      runtime::open_device(argc > 2 ? argv[2] : "auto");  // a GPU if there is one, else the emulator
  auto kernel = runtime::LoadedKernel::from_file(*device, argv[1]);
  constexpr uint32_t kCount = 1000;
  auto x = runtime::Buffer::of(*device, std::vector<float>(kCount, 20));
  auto y = runtime::Buffer::of(*device, std::vector<float>(kCount, 2));
  // Arguments are checked against the sidecar, and the kernel's rule determines the grid.
  kernel.launch({}, {runtime::pointer(x, DType::f32), runtime::pointer(y, DType::f32), runtime::scalar(2.0f),
                     runtime::scalar(kCount)});
  device->synchronize();
  std::cout << "2 * 20 + 2 = " << y.copy_out<float>().back() << ", on " << device->properties().name << "\n";
} catch (const Error& e) {
  std::cerr << e.what() << "\n";
  return 1;
}

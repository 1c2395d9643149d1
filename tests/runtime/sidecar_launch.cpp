// sidecar_launch FOLDER launches FOLDER/saxpy.cubin, using only the cubin's sidecar and the runtime library.
// This program is not linked with LLVM, and reads everything about the kernel from these two files.
#include <cmath>
#include <cstdio>

#include "runtime/loaded_kernel.h"
#include "runtime/open_device.h"

using namespace ptxbuilder;

int main(int argc, char** argv) try {
  if (argc != 2) throw Error("usage: sidecar_launch FOLDER");
  std::unique_ptr<runtime::Device> device;
  try {
    device = runtime::open_device("cuda");
  } catch (const Error& e) {
    std::printf("SKIPPED: %s\n", e.what());
    return 77;  // ctest marks a test with this exit code as skipped
  }
  auto kernel = runtime::LoadedKernel::from_file(*device, std::string(argv[1]) + "/saxpy.cubin");
  constexpr uint32_t kCount = 1000;
  std::vector<float> x(kCount), y(kCount);
  for (uint32_t i = 0; i < kCount; ++i) x[i] = static_cast<float>(i), y[i] = 0.5f;
  auto device_x = runtime::Buffer::of(*device, x), device_y = runtime::Buffer::of(*device, y);
  uint32_t threads = kernel.signature().threads;
  kernel.launch(
      {.grid = {(kCount + threads - 1) / threads}},
      {runtime::pointer(device_x, DType::f32).named("x"), runtime::pointer(device_y, DType::f32).named("y"),
       runtime::scalar(3.0f).named("alpha"), runtime::scalar(kCount).named("count")});
  device->synchronize();
  device_y.copy_out(y);
  for (uint32_t i = 0; i < kCount; ++i)
    if (y[i] != std::fma(3.0f, x[i], 0.5f))
      throw Error("sidecar_launch: element " + std::to_string(i) + " is wrong");
  std::printf("%u elements are right\n", kCount);
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}

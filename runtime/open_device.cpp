#include "runtime/open_device.h"

#include <fmt/format.h>

#include "runtime/cuda_device.h"

namespace ptxbuilder::runtime {

std::unique_ptr<Device> open_device(const std::string& name, const std::string& target,
                                    const EmulatorOptions& emulator) {
  if (name == "emulator") return open_emulator(emulator);
  if (name != "cuda" && name != "auto")
    throw Error(fmt::format("device '{}' is not one of cuda, emulator, auto", name));
  try {
    return open_cuda_device(target);
  } catch (const Error& e) {
    if (name == "cuda") throw Error(fmt::format("device 'cuda': {}", e.what()));
    return open_emulator(emulator);
  }
}

}  // namespace ptxbuilder::runtime

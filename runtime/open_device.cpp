// Chooses a device by the name that --device takes.
#include <fmt/format.h>

#include "runtime/cuda_device.h"

namespace ptxbuilder::runtime {
namespace {

constexpr const char* kNoEmulator = "this build has no emulator";

}  // namespace

std::unique_ptr<Device> open_device(const std::string& name, const std::string& target) {
  if (name == "emulator") throw Error(fmt::format("device 'emulator': {}", kNoEmulator));
  if (name != "cuda" && name != "auto")
    throw Error(fmt::format("device '{}' is not one of cuda, emulator, auto", name));
  try {
    return open_cuda_device(target);
  } catch (const Error& e) {
    if (name == "cuda") throw Error(fmt::format("device 'cuda': {}", e.what()));
    throw Error(fmt::format("no device for {} code. cuda: {}. emulator: {}", target, e.what(), kNoEmulator));
  }
}

}  // namespace ptxbuilder::runtime

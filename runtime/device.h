// A device that runs kernels: the CUDA driver's or the CPU emulator's, behind one interface.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ptxbuilder/error.h"
#include "ptxbuilder/signature.h"

namespace ptxbuilder::runtime {

using Address = uint64_t;  // of device global memory, in bytes

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

// A kernel did not finish in time. This process cannot use the device again, and should end.
class TimeoutError : public Error {
 public:
  using Error::Error;
};

// The shape of one launch (CUDA driver API, cuLaunchKernelEx).
struct Launch {
  Dim3 grid = {0, 0, 0};  // required: a launch without a grid is refused
  Dim3 block, cluster;
  uint32_t dynamic_shared_bytes = 0;
  bool programmatic_dependent_launch = false;  // may start before the launch ahead of it has finished
};

// An encoded tensor map, as the kernel's `__grid_constant__` parameter holds it.
struct alignas(64) TensorMap {
  std::array<std::byte, 128> bytes = {};
};

// What cuTensorMapEncodeTiled takes. Lists run from the innermost dimension outwards.
struct TensorMapArguments {
  TensorMapRecipe recipe;
  Address address = 0;
  std::vector<uint64_t> shape;    // elements
  std::vector<uint64_t> strides;  // bytes; of dimensions 1 to rank - 1, since dimension 0 is contiguous
};

struct DeviceProperties {
  std::string name;        // "NVIDIA H100 80GB HBM3"
  int compute_capability;  // 90
  int multiprocessors;
  size_t memory_bytes;
  uint32_t shared_bytes_per_cta;  // the opt-in limit: 232448 on Hopper
  std::string driver;             // "CUDA 13.0" for the driver, "emulator" for the emulator
};

// A kernel that was loaded onto a device. Whoever loaded it owns it, and it must not outlive its device.
class Program {
 public:
  virtual ~Program() = default;

  // What the driver's compiler reported for PTX text: registers, spills, advisories. Empty for a cubin.
  virtual std::string log() const { return ""; }
};

class Device {
 public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Expires with the device, so that objects that outlive the device can notice.
  std::weak_ptr<const void> lifetime() const { return alive_; }

  virtual DeviceProperties properties() const = 0;

  // Whether load() wants PTX text even where there is a cubin.
  virtual bool wants_ptx() const { return false; }

  // Memory. Sizes are bytes; an allocation is aligned to 256 bytes.
  virtual Address allocate(size_t bytes) = 0;
  virtual void release(Address address) noexcept = 0;
  virtual void copy_in(Address to, const void* from, size_t bytes) = 0;
  virtual void copy_out(void* to, Address from, size_t bytes) = 0;
  virtual void fill(Address to, uint8_t value, size_t bytes) = 0;

  // Loads the entry `signature.kernel` of a cubin or of PTX text (which the driver compiles, and the emulator
  // reads). Throws Error with the driver's log when the image is refused.
  virtual std::unique_ptr<Program> load(const std::string& image, const Signature& signature) = 0;

  // Checks every rule of the tensor map and encodes it; Error names the rule and the numbers.
  virtual TensorMap encode(const TensorMapArguments& arguments) = 0;

  // Queues one launch; `parameters[i]` points at the value of the i-th kernel parameter, which is copied.
  virtual void launch(Program& program, const Launch& launch, std::span<const void* const> parameters) = 0;

  // The CUstream on which launches and copies are queued, for libraries that queue work of their own there;
  // null on a device without streams.
  virtual void* stream() const { return nullptr; }

  // Waits for all work that was queued. Throws Error when a kernel failed, and TimeoutError when the work
  // was not done after `limit`. After either, this process cannot use the device again.
  virtual void synchronize(std::chrono::milliseconds limit = std::chrono::seconds(30)) = 0;

  // Calls `queue` `warm_up` times uncounted, then `count` times, and returns the device time of each of
  // these in microseconds. Throws Error on a device whose clock says nothing about speed.
  virtual std::vector<double> time(int warm_up, int count, const std::function<void()>& queue) = 0;

 private:
  std::shared_ptr<const void> alive_ = std::make_shared<char>();
};

}  // namespace ptxbuilder::runtime

// Receives what kernels report to the host in addition to their results: waits that do not end, failed
// checks, and prints.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/signature.h"
#include "runtime/device.h"

namespace ptxbuilder::runtime {

// The memory to which a kernel writes its reports. The LoadedKernel passes it to each launch.
class KernelReport final : public Reporter {
 public:
  // The kernel's signature must have a `report`.
  KernelReport(Device& device, const Signature& signature);

  // Returns the memory for a launch on `grid`. The memory exists for as long as this object.
  Address memory_for(Dim3 grid);
  // Sets the function that receives the lines that the kernel prints. By default, lines are written to
  // standard output.
  void on_print(std::function<void(const std::string&)> print);

  // Called by the device: about_failure() after a failure, and work_done() when work is done.
  std::string about_failure() override;
  void work_done() override;

 private:
  struct Memory {
    Dim3 grid;  // grid of the last launch
    std::unique_ptr<MappedMemory> mapped;
    uint64_t ctas;  // number of CTAs for which there is space
  };

  Device& device_;
  Signature signature_;
  std::mutex mutex_;
  std::vector<Memory> memories_;  // launches use the last one
  std::function<void(const std::string&)> print_;
};

// Describes which warps of a launch on `grid` are waiting, for what, and why. `memory` is the launch's
// memory. Returns an empty string if no warp is waiting.
std::string describe_waits(const Signature& signature, Dim3 grid, std::span<const std::byte> memory);

// The messages of a launch. `lost` is the number of messages for which there was no space.
struct KernelMessages {
  // A message of check() or print().
  struct Message {
    bool is_check;  // true if the message is from a check() that failed
    std::string text;
  };
  std::vector<Message> messages;
  uint32_t lost = 0;
};
KernelMessages read_messages(const Signature& signature, Dim3 grid, std::span<const std::byte> memory);

}  // namespace ptxbuilder::runtime

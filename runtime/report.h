// Kernels report more to the host than their results: waits that do not end, checks that fail, and
// prints.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/signature.h"
#include "runtime/device.h"

namespace ptxbuilder::runtime {

// The memory that a kernel writes its reports to. Its LoadedKernel passes the memory to each launch.
class KernelReport final : public Reporter {
 public:
  // The kernel's signature must have a `report`.
  KernelReport(Device& device, const Signature& signature);

  // Returns the memory for a launch on `grid`. The memory lives as long as this object.
  Address memory_for(Dim3 grid);
  // Sets the function that receives the lines that the kernel prints; without it they go to standard output.
  void on_print(std::function<void(const std::string&)> print);

  // The device calls the first function after a failure, and the second when work is done.
  std::string about_failure() override;
  void work_done() override;

 private:
  struct Memory {
    Dim3 grid;  // of the last launch
    std::unique_ptr<MappedMemory> mapped;
    uint64_t ctas;  // the number of messages for which there is room
  };

  Device& device_;
  Signature signature_;
  std::mutex mutex_;
  std::vector<Memory> memories_;  // launches take the last one
  std::function<void(const std::string&)> print_;
};

// Reads from the memory of a launch on `grid` who waits for what and why. Empty when nothing waits.
std::string describe_waits(const Signature& signature, Dim3 grid, std::span<const std::byte> memory);

// The messages of a launch. `lost` counts those for which there was no room.
struct KernelMessages {
  // A message of check() or print().
  struct Message {
    bool is_check;  // a check() that failed
    std::string text;
  };
  std::vector<Message> messages;
  uint32_t lost = 0;
};
KernelMessages read_messages(const Signature& signature, Dim3 grid, std::span<const std::byte> memory);

}  // namespace ptxbuilder::runtime

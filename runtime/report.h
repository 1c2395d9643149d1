// Kernels report this to the host in addition to their results: waits that do not end, checks that fail, and
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

// The memory that a kernel reports to, which its LoadedKernel passes to each launch, and what is in it.
class KernelReport final : public Reporter {
 public:
  // The kernel has a signature().report.
  KernelReport(Device& device, const Signature& signature);

  // It gives the memory for a launch on `grid`, which lives as long as this.
  Address memory_for(Dim3 grid);
  // Gets the lines that the kernel prints; standard output has them unless it is set.
  void on_print(std::function<void(const std::string&)> print);

  // These two are what a device calls after a failure, and when work is done.
  std::string about_failure() override;
  void work_done() override;

 private:
  struct Memory {
    Dim3 grid;  // of the last launch
    std::unique_ptr<MappedMemory> mapped;
    uint64_t ctas;  // that it is for
  };

  Device& device_;
  Signature signature_;
  std::mutex mutex_;
  std::vector<Memory> memories_;  // launches take the last of them
  std::function<void(const std::string&)> print_;
};

// Tells, of the memory of a launch on `grid`, who waits for what and why; empty where nothing waits.
std::string describe_waits(const Signature& signature, Dim3 grid, std::span<const std::byte> memory);

// The messages of a launch. `lost` had no room.
struct KernelMessages {
  // A message of check() or print().
  struct Message {
    bool is_check;  // that failed
    std::string text;
  };
  std::vector<Message> messages;
  uint32_t lost = 0;
};
KernelMessages read_messages(const Signature& signature, Dim3 grid, std::span<const std::byte> memory);

}  // namespace ptxbuilder::runtime

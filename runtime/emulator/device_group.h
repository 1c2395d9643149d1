// Devices of one process that share an address space: what is queued on them, and how it runs.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/emulator/machine/explored_launch.h"
#include "runtime/emulator/machine/global_shadow.h"
#include "runtime/emulator/machine/launch.h"
#include "runtime/emulator/machine/trace.h"

namespace ptxbuilder::runtime::emulator {

class DeviceGroup;

// A program holds this; launches of the program that are still queued share it.
struct LoadedProgram {
  LoadedProgram(std::shared_ptr<DeviceGroup> the_group, const Signature& the_signature)
      : group(std::move(the_group)), signature(the_signature) {}
  ~LoadedProgram();
  LoadedProgram(const LoadedProgram&) = delete;
  LoadedProgram& operator=(const LoadedProgram&) = delete;

  std::shared_ptr<DeviceGroup> group;
  Signature signature;
  Kernel kernel;
  std::vector<Address> allocations;
  std::vector<std::vector<std::byte>> first;  // what they held when the program was loaded
};

struct QueuedLaunch {
  std::shared_ptr<const LoadedProgram> program;
  Launch launch;
  std::vector<std::byte> parameters;
};

class DeviceGroup {
 public:
  DeviceGroup(const EmulatorOptions& options, uint32_t devices);

  // A caller or reader of any of this holds the mutex.
  mutable std::recursive_mutex mutex;
  EmulatorOptions options;
  GlobalMemory memory;
  EmulatorStatistics statistics;

  void queue(uint32_t device, QueuedLaunch launch) { devices_[device].queue.push_back(std::move(launch)); }
  void let_reach(uint32_t device, uint32_t peer) { devices_[device].reaches |= uint64_t{1} << peer; }
  // Runs all queued launches: those of one device one after the other, and those of several devices at once.
  // `about_failure` adds to the report of a failed launch, after which all others are dropped.
  void drain(std::chrono::steady_clock::time_point deadline,
             const std::function<std::string()>& about_failure);

 private:
  struct PerDevice {
    std::deque<QueuedLaunch> queue;
    bool has_launch_ahead = false;  // that the host has not waited for
    uint64_t reaches = 0;           // a bit for each device
  };
  // A launch while it runs.
  struct Running {
    QueuedLaunch queued;
    std::unique_ptr<Grid> grid;
  };

  std::vector<uint32_t> busy() const;
  Running begin(uint32_t device);
  void end(const Running& running);
  WeakMemory::Choice staleness(uint64_t number) const;
  bool is_weak() const { return options.race_check && (options.seed != 0 || options.exploration); }
  void run_one(uint32_t device, std::chrono::steady_clock::time_point deadline);
  void run_together(std::chrono::steady_clock::time_point deadline);

  std::vector<PerDevice> devices_;
  std::unique_ptr<Trace> trace_;
  Reports reports_{options};
  GlobalShadow shadow_{options.threads};
  uint32_t launches_ = 0;
};

}  // namespace ptxbuilder::runtime::emulator

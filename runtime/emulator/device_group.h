// Devices of one process that share an address space, the launches that are queued on them, and the functions
// that run these launches.
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

// A loaded program. The Program object owns it together with the program's queued launches.
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
  std::vector<std::vector<std::byte>> first;  // initial contents of each allocation
};

struct QueuedLaunch {
  std::shared_ptr<const LoadedProgram> program;
  Launch launch;
  std::vector<std::byte> parameters;
};

class DeviceGroup {
 public:
  DeviceGroup(const EmulatorOptions& options, uint32_t devices);

  // The caller must hold the mutex to call functions or to read members.
  mutable std::recursive_mutex mutex;
  EmulatorOptions options;
  GlobalMemory memory;
  EmulatorStatistics statistics;

  void queue(uint32_t device, QueuedLaunch launch) { devices_[device].queue.push_back(std::move(launch)); }
  void let_reach(uint32_t device, uint32_t peer) { devices_[device].reaches |= uint64_t{1} << peer; }
  // Runs all queued launches. Launches on one device run one after the other, and launches on several devices
  // run at once. `about_failure` returns a string to add to the report of a failed launch. After a failure,
  // all other launches are dropped.
  void drain(std::chrono::steady_clock::time_point deadline,
             const std::function<std::string()>& about_failure);

 private:
  struct PerDevice {
    std::deque<QueuedLaunch> queue;
    bool has_launch_ahead = false;  // whether there is a launch that the host has not waited for
    uint64_t reaches = 0;           // devices whose memory it can access, one bit each
  };
  // A launch that is running.
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

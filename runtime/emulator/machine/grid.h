// The data of a launch, and the object that passes on its reports.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/emulator/emulator.h"
#include "runtime/emulator/machine/memory.h"
#include "runtime/emulator/machine/program.h"

namespace ptxbuilder::runtime::emulator {

struct GlobalKnowledge;
class GlobalMemoryOrder;
class GlobalShadow;
class Trace;
class WeakMemory;

// Passes on what a launch reports while it runs. A note is passed on once for each instruction, a fault once
// for each instruction and kind of fault.
class Reports {
 public:
  explicit Reports(const EmulatorOptions& options) : options_(options) {}
  bool wants_notes() const { return static_cast<bool>(options_.note); }
  bool wants_findings() const { return static_cast<bool>(options_.finding); }
  void note(const std::string& kernel, uint32_t pc, const std::string& text);
  void find(const std::string& kernel, uint32_t pc, const EmulatorError& fault);
  bool has_found(const std::string& kernel, uint32_t pc, Fault fault);

 private:
  const EmulatorOptions& options_;
  std::mutex mutex_;
  std::set<std::pair<std::string, uint32_t>> noted_;
  std::set<std::tuple<std::string, uint32_t, Fault>> found_;
};

// Returns "seed 7", or the name that an exploration has given to the schedule.
std::string schedule_of(const EmulatorOptions& options);

// The data that all CTAs of a launch share.
struct Grid {
  const Kernel& kernel;
  GlobalMemory& memory;
  const EmulatorOptions& options;
  const std::vector<SharedObject>& shared;  // objects in dynamic shared memory, for reports
  Launch launch;
  std::vector<std::byte> parameters;
  uint64_t seed = 0;
  uint32_t id = 0;
  uint32_t device = 0;
  uint64_t first_cluster = 0;         // number of the first cluster among all launches that run at once
  uint32_t registers_per_thread = 0;  // registers at launch, for setmaxnreg
  bool may_overlap = false;           // whether the previous launch may still run; see griddepcontrol.wait
  GlobalShadow* shadow = nullptr;     // state of global memory
  GlobalMemoryOrder* order = nullptr;
  WeakMemory* weak = nullptr;
  Trace* trace = nullptr;
  Reports* reports = nullptr;
  Address workspace = 0;  // address of a cooperative launch's workspace, which is zero at the start
  // The members below are for launches on several devices at once. `known` is what earlier launches on the
  // same device knew when they ended. The clusters of this launch add what they know at their end to `ended`.
  bool is_alone = true;
  std::shared_ptr<const GlobalKnowledge> known = nullptr;
  std::shared_ptr<const GlobalKnowledge>* ended = nullptr;
  uint64_t reaches = ~uint64_t{0};  // devices whose memory the launch can access, one bit each

  // Returns whether the kernel or its launch asks for clusters, even for those of one CTA.
  bool has_clusters() const { return kernel.required_cluster.x != 0 || launch.cluster != Dim3{1, 1, 1}; }
  uint64_t clusters() const {
    const Dim3 g = launch.grid, c = launch.cluster;
    return uint64_t{g.x / c.x} * (g.y / c.y) * (g.z / c.z);
  }
  // Returns " of device 1", for a report about a CTA, if several devices run launches at once. Otherwise
  // returns an empty string.
  std::string of_device() const { return is_alone ? "" : " of device " + std::to_string(device); }
};

}  // namespace ptxbuilder::runtime::emulator

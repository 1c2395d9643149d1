// The parts of a launch, and the receivers of its reports.
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

// Passes on what a launch reports while it runs: notes, once for each instruction, and faults, once for each
// instruction and kind.
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

// Returns "seed 7", or the name that an exploration gives the schedule.
std::string schedule_of(const EmulatorOptions& options);

// The data that all CTAs of a launch share.
struct Grid {
  const Kernel& kernel;
  GlobalMemory& memory;
  const EmulatorOptions& options;
  const std::vector<SharedObject>& shared;  // the objects in dynamic shared memory, for reports
  Launch launch;
  std::vector<std::byte> parameters;
  uint64_t seed = 0;
  uint32_t id = 0;
  uint32_t device = 0;
  uint64_t first_cluster = 0;         // the number of its first, among those of launches that run at once
  uint32_t registers_per_thread = 0;  // at launch, for setmaxnreg
  bool may_overlap = false;        // the previous launch, whose accesses are over after griddepcontrol.wait
  GlobalShadow* shadow = nullptr;  // of global memory
  GlobalMemoryOrder* order = nullptr;
  WeakMemory* weak = nullptr;
  Trace* trace = nullptr;
  Reports* reports = nullptr;
  Address workspace = 0;  // of a cooperative launch, zeros when it begins
  // These are for launches of several devices at once: what those ahead of this one on its device knew when
  // they ended, where to add what this one's clusters know then, and the devices whose memory it reaches.
  bool is_alone = true;
  std::shared_ptr<const GlobalKnowledge> known = nullptr;
  std::shared_ptr<const GlobalKnowledge>* ended = nullptr;
  uint64_t reaches = ~uint64_t{0};  // a bit for each device

  // Returns whether the kernel or its launch asks for clusters, even for those of one CTA.
  bool has_clusters() const { return kernel.required_cluster.x != 0 || launch.cluster != Dim3{1, 1, 1}; }
  uint64_t clusters() const {
    const Dim3 g = launch.grid, c = launch.cluster;
    return uint64_t{g.x / c.x} * (g.y / c.y) * (g.z / c.z);
  }
  // Returns " of device 1", for reports of a CTA, if launches of several devices run.
  std::string of_device() const { return is_alone ? "" : " of device " + std::to_string(device); }
};

}  // namespace ptxbuilder::runtime::emulator

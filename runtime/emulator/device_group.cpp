#include "runtime/emulator/device_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cfenv>
#include <random>
#include <utility>

#include "ptxbuilder/demangle.h"
#include "runtime/emulator/exploration.h"
#include "runtime/emulator/machine/together.h"

namespace ptxbuilder::runtime::emulator {
namespace {

// Restores the default IEEE arithmetic of the host during its lifetime, in the thread that creates it and in
// threads that this thread starts. Callers may have changed it; for example, XLA's CPU threads flush
// denormals to zero.
class IeeeArithmetic {
 public:
  IeeeArithmetic() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~IeeeArithmetic() { std::fesetenv(&before_); }
  IeeeArithmetic(const IeeeArithmetic&) = delete;

 private:
  std::fenv_t before_;
};

}  // namespace

LoadedProgram::~LoadedProgram() {
  const std::lock_guard lock(group->mutex);
  for (const Address a : allocations) group->memory.release(a);
}

DeviceGroup::DeviceGroup(const EmulatorOptions& the_options, uint32_t devices)
    : options(the_options), devices_(devices) {
  if (!options.trace_path.empty()) trace_ = std::make_unique<Trace>(options.trace_path);
  for (uint32_t d = 0; d < devices; ++d) let_reach(d, d);
}

std::vector<uint32_t> DeviceGroup::busy() const {
  std::vector<uint32_t> those;
  for (uint32_t d = 0; d < devices_.size(); ++d)
    if (!devices_[d].queue.empty()) those.push_back(d);
  return those;
}

void DeviceGroup::drain(std::chrono::steady_clock::time_point deadline,
                        const std::function<std::string()>& about_failure) {
  const IeeeArithmetic arithmetic;
  auto forget = [&] {
    for (PerDevice& d : devices_) {
      d.queue.clear();
      d.has_launch_ahead = false;
    }
  };
  for (std::vector<uint32_t> those; !(those = busy()).empty();) {
    try {
      those.size() == 1 ? run_one(those[0], deadline) : run_together(deadline);
    } catch (const Exploration::Abandoned&) {
      forget();
      throw;
    } catch (const EmulatorError& e) {
      size_t dropped = 0;
      for (const PerDevice& d : devices_) dropped += d.queue.size();
      const std::string report = demangled(fmt::format(
          "{}\n  {}{}{}", e.what(), schedule_of(options),
          dropped ? fmt::format("\n  {} launches after it are dropped", dropped) : "", about_failure()));
      forget();
      if (trace_) trace_->write();
      throw EmulatorError(e.fault(), e.ptx_line(), report);
    }
  }
  forget();  // the host has waited for all launches
  if (trace_) trace_->write();
}

// Removes the next launch from the device's queue and prepares to run it.
DeviceGroup::Running DeviceGroup::begin(uint32_t device) {
  PerDevice& on = devices_[device];
  Running running{std::move(on.queue.front()), nullptr};
  on.queue.pop_front();
  const QueuedLaunch& queued = running.queued;
  const Kernel& kernel = queued.program->kernel;
  running.grid.reset(new Grid{kernel, memory, options, queued.program->signature.shared, queued.launch,
                              std::move(running.queued.parameters), options.seed, launches_++});
  Grid& grid = *running.grid;
  grid.device = device;
  grid.is_alone = devices_.size() == 1;
  grid.reaches = on.reaches;
  grid.trace = trace_.get();
  grid.reports = &reports_;
  grid.shadow = &shadow_;
  const uint32_t threads = queued.launch.block.x * queued.launch.block.y * queued.launch.block.z;
  // Like ptxas, this divides the SM's registers evenly among the whole warpgroups of a kernel that uses
  // setmaxnreg, rounded down to a multiple of eight per thread. A thread gets no more than the largest count
  // that a setmaxnreg requests.
  const uint32_t most = kernel.threads_most ? kernel.threads_most : threads, group = 128;
  const uint32_t share =
      hopper::sm_registers / kernel.ctas_least / ((most + group - 1) / group * group) / 8 * 8;
  grid.registers_per_thread =
      queued.program->signature.registers.value_or(std::min(kernel.role_registers, share));
  if (kernel.registers_most)
    grid.registers_per_thread = std::min(grid.registers_per_thread, kernel.registers_most);
  if (trace_) trace_->begin(grid);
  constexpr size_t workspace_bytes = 64;
  if (queued.launch.cooperative) {
    grid.workspace = memory.allocate(workspace_bytes, "of a cooperative launch", 256, false, device);
    memory.host(grid.workspace, workspace_bytes, "workspace", true);
  }
  grid.may_overlap = queued.launch.programmatic_dependent_launch && on.has_launch_ahead;
  on.has_launch_ahead = true;
  return running;
}

void DeviceGroup::end(const Running& running) {
  if (running.grid->workspace) memory.release(running.grid->workspace);
}

WeakMemory::Choice DeviceGroup::staleness(uint64_t number) const {
  std::mt19937_64 engine(options.seed * 0x2545f4914f6cdd1d + number);
  constexpr std::array<uint64_t, 4> percents = {0, 2, 30, 70};
  const uint64_t percent = percents[engine() % percents.size()];
  return [engine, percent](std::span<const uint64_t> stores, bool /*loads*/) mutable {
    return engine() % 100 < percent ? (engine() >> 8) % stores.size() : stores.size() - 1;
  };
}

void DeviceGroup::run_one(uint32_t device, std::chrono::steady_clock::time_point deadline) {
  const Running running = begin(device);
  Grid& grid = *running.grid;
  shadow_.begin(grid.may_overlap);
  GlobalMemoryOrder order;
  grid.order = &order;
  WeakMemory weak(order, staleness(grid.id));
  if (grid.kernel.communicates && is_weak()) grid.weak = &weak;
  (options.exploration ? run_explored : run_grid)(grid, deadline, statistics);
  end(running);
}

// Runs launches of several devices together. Any of them may communicate with launches on other devices, even
// if its own CTAs do not communicate.
void DeviceGroup::run_together(std::chrono::steady_clock::time_point deadline) {
  if (options.exploration)
    throw Error("launches of several devices are queued at once, but an exploration runs those of one");
  shadow_.begin(false);
  GlobalMemoryOrder order;
  WeakMemory weak(order, staleness(launches_));
  std::vector<std::optional<Running>> running(devices_.size());
  const auto next = [&](uint32_t device) -> Grid* {
    if (running[device]) end(*running[device]);
    running[device].reset();
    if (devices_[device].queue.empty()) return nullptr;
    running[device] = begin(device);
    Grid& grid = *running[device]->grid;
    grid.order = &order;
    if (is_weak()) grid.weak = &weak;
    return &grid;
  };
  run_grids_together(static_cast<uint32_t>(devices_.size()), options.seed, next, deadline, statistics);
}

}  // namespace ptxbuilder::runtime::emulator

// A Device that runs PTX text on the CPU, and reports races, hangs and protocol errors.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device.h"

namespace ptxbuilder::runtime {

class Exploration;

// The faults that the emulator can find.
enum class Fault : uint8_t {
  race,              // an access that nothing orders after an earlier one
  proxy_fence,       // a generic-proxy write used by the async proxy without fence.proxy.async
  mbarrier_init,     // an mbarrier used before its init is known to the user: no barrier, or no
                     // fence.mbarrier_init
  mbarrier_use,      // no mbarrier there, or its memory was written over, or it is initialised twice
  arrival_count,     // more arrivals than the phase expects, or a phase left unfinished at exit
  tx_count,          // bytes that were expected and bytes that arrived differ
  phase_skipped,     // a wait for a phase that the parity no longer tells from a later one
  matrix_registers,  // registers touched while a wgmma or a tcgen05.ld may use them
  matrix_fence,      // a wgmma without the wgmma.fence that orders its registers
  out_of_bounds,
  misaligned,
  uninitialised,       // shared memory read before anything wrote it
  uninitialised_sum,   // a sum in global memory that neither the host nor a kernel has written
  undefined_register,  // a register whose value counts before the thread has written it
  divergence,          // an .aligned instruction without all lanes, or a .sync with the wrong lanes
  register_budget,     // setmaxnreg beyond what the CTA has, or outside its rules
  early_exit,          // a CTA that ends while something is still to touch its shared memory
  deadlock,
  trap,         // trap, or an assert of the kernel
  unsupported,  // an instruction the emulator does not know
  operand,      // a descriptor, tensor map, count or barrier id that the instruction does not take
  time_limit
};

// The name of a fault, as reports print it.
const char* name(Fault fault);
// The fault of this name, if there is one.
std::optional<Fault> fault_named(std::string_view name);

// synchronize() throws this when a launch went wrong: what() is the whole report.
class EmulatorError : public Error {
 public:
  EmulatorError(Fault fault, uint32_t ptx_line, const std::string& report)
      : Error(report), fault_(fault), ptx_line_(ptx_line) {}

  Fault fault() const { return fault_; }
  uint32_t ptx_line() const { return ptx_line_; }  // 0 where no one instruction is to blame

 private:
  Fault fault_;
  uint32_t ptx_line_;
};

// The options of the emulator.
struct EmulatorOptions {
  // Chooses one schedule of warps and asynchronous operations among all legal ones. The same seed repeats it.
  uint64_t seed = 0;
  // Follows what every thread may rely on, and reports accesses of shared and of global memory that nothing
  // orders, missing proxy fences, registers touched under a wgmma, uses of registers that nothing has
  // written, reads of uninitialised shared memory, and sums in global memory that nothing has written.
  // Bounds, alignment, barriers, divergence and deadlock are always checked.
  bool race_check = true;
  // Picks the schedule in place of the seed, which then decides other things alone. It lives as long as the
  // device runs. synchronize() may throw Exploration::Abandoned.
  Exploration* exploration = nullptr;
  // Lines of the PTX that come as late as a schedule lets them: a warp that comes to one is held back until
  // nothing else of its cluster can go on, and so is what the instruction starts. A kernel that waits for
  // them by reading memory again and again gets them after a while. load() throws Error of a line that has no
  // instruction.
  std::vector<uint32_t> delayed = {};
  // Host threads for the CTAs of one launch. A seed has one result with any number of them: where the order
  // of CTAs counts, they run at once only up to where it does.
  int threads = 1;
  // This is where to write a Chrome trace (chrome://tracing, ui.perfetto.dev) of every launch; empty for
  // none.
  std::string trace_path;
  // Called now and then while a launch runs, with the CTAs that are done and those of the whole grid.
  std::function<void(uint64_t done, uint64_t all)> progress;
  // Called with what is worth to be known and no fault, once for each instruction of a kernel: the same value
  // stored by several warps, an mbarrier that is left in the midst of a phase; and, when a program is loaded,
  // with the instructions that the emulator lacks. No other call runs meanwhile.
  std::function<void(const std::string& text)> note;
  // Called with each fault after which a kernel can go on, as it can after a race, once for each instruction
  // and kind: the launch then runs on, and synchronize() throws other faults alone. Where this is empty, the
  // first fault of any kind ends the launch. No other call runs meanwhile.
  std::function<void(const EmulatorError& fault)> finding;
  // This is where the kernels' printf goes; standard output when empty.
  std::function<void(const std::string& text)> print;
};

// Counted over all launches of one device.
struct EmulatorStatistics {
  uint64_t launches = 0, ctas = 0, warp_instructions = 0, asynchronous_operations = 0;
};

// The device that interprets PTX on the CPU.
class Emulator : public Device {
 public:
  bool wants_ptx() const override { return true; }
  virtual EmulatorStatistics statistics() const = 0;
  // A new seed for the launches after this call.
  virtual void seed(uint64_t seed) = 0;
  // Gives the variables of the program's module the values that they began with.
  virtual void reset(Program& program) = 0;
  // A variable of the module in .global or .const memory, by its name in the PTX or as its author wrote it.
  // Throws Error that lists the variables for another name.
  struct ModuleVariable {
    Address address;
    size_t bytes;
  };
  virtual ModuleVariable variable(const Program& program, std::string_view name) const = 0;
};

// A new emulator, with memory of its own.
std::unique_ptr<Emulator> open_emulator(const EmulatorOptions& options = {});

// Several devices of one address space, whose kernels may reach each other's memory where Device::reach()
// lets them. What is queued on several of them runs at once when any of them is waited for, as it is by a
// copy too: launches that wait for each other are queued with nothing between. Numbers, in reports, are from
// 0 on.
std::vector<std::unique_ptr<Emulator>> open_emulators(int count, const EmulatorOptions& options = {});

}  // namespace ptxbuilder::runtime

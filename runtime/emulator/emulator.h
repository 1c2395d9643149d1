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
  race,              // an access that is not ordered after an earlier one
  proxy_fence,       // a generic-proxy write used by the async proxy without fence.proxy.async
  mbarrier_init,     // an mbarrier used before its init is known to the user: no barrier, or no
                     // fence.mbarrier_init
  mbarrier_use,      // the address holds no mbarrier, its memory was overwritten, or it is initialised twice
  arrival_count,     // more arrivals than the phase expects, or a phase left unfinished at exit
  tx_count,          // expected bytes and bytes that arrived differ
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
  early_exit,          // a CTA that ends while something may still access its shared memory
  deadlock,
  trap,         // trap, or an assert of the kernel
  unsupported,  // an instruction the emulator does not know
  operand,      // a descriptor, tensor map, count or barrier id that the instruction does not take
  time_limit
};

// The name of a fault, as reports print it.
const char* name(Fault fault);
// Returns the fault of this name, if there is one.
std::optional<Fault> fault_named(std::string_view name);

// synchronize() throws this when a launch failed: what() is the whole report.
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
  // Tracks what every thread may rely on, and reports unordered accesses of shared and of global memory,
  // missing proxy fences, registers touched while a wgmma uses them, uses of registers that were never
  // written, reads of uninitialised shared memory, and sums in global memory that was never written. Bounds,
  // alignment, barriers, divergence and deadlock are always checked.
  bool race_check = true;
  // Picks the schedule in place of the seed, which then decides only other things. It must outlive the
  // device's launches. synchronize() may throw Exploration::Abandoned.
  Exploration* exploration = nullptr;
  // Lines of the PTX that are executed as late as a schedule allows: a warp that reaches one is held back
  // until nothing else of its cluster can go on, and so is what the instruction starts. If a kernel waits for
  // them by polling memory, they are executed after a while. load() throws Error for a line that has no
  // instruction.
  std::vector<uint32_t> delayed = {};
  // Host threads for the CTAs of one launch. A seed has one result with any number of them: if the order of
  // CTAs matters, they run at once only up to the point where it does.
  int threads = 1;
  // The file that gets a Chrome trace (chrome://tracing, ui.perfetto.dev) of every launch; empty for no
  // trace.
  std::string trace_path;
  // Called now and then while a launch runs, with the number of finished CTAs and the number in the grid.
  std::function<void(uint64_t done, uint64_t all)> progress;
  // Called with notes that are not faults, once for each instruction of a kernel: the same value stored by
  // several warps, or an mbarrier that is left in the middle of a phase; and, when a program is loaded, with
  // the instructions that the emulator lacks. No other callback runs meanwhile.
  std::function<void(const std::string& text)> note;
  // Called with each fault after which a kernel can go on, such as a race, once for each instruction and
  // kind: the launch then continues, and synchronize() throws only other faults. If this is empty, the first
  // fault of any kind ends the launch. No other callback runs meanwhile.
  std::function<void(const EmulatorError& fault)> finding;
  // The kernels' printf writes here; to standard output when this is empty.
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
  // Sets a new seed for the launches after this call.
  virtual void seed(uint64_t seed) = 0;
  // Resets the variables of the program's module to their initial values.
  virtual void reset(Program& program) = 0;
  // Returns a variable of the module in .global or .const memory, by its name in the PTX or in the author's
  // source. Throws Error that lists the variables for another name.
  struct ModuleVariable {
    Address address;
    size_t bytes;
  };
  virtual ModuleVariable variable(const Program& program, std::string_view name) const = 0;
};

// Returns a new emulator, with memory of its own.
std::unique_ptr<Emulator> open_emulator(const EmulatorOptions& options = {});

// Returns several devices of one address space, whose kernels may reach each other's memory if
// Device::reach() allows it. What is queued on several devices runs concurrently when the host waits for any
// of them, which a copy does too: launches that wait for each other are queued with nothing in between.
// Reports number the devices from 0.
std::vector<std::unique_ptr<Emulator>> open_emulators(int count, const EmulatorOptions& options = {});

}  // namespace ptxbuilder::runtime

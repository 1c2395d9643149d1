// A Device that executes PTX on the CPU, and reports races, hangs and violations of protocols.
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
  mbarrier_init,     // an mbarrier used before a barrier or a fence.mbarrier_init makes its init visible
  mbarrier_use,      // no mbarrier at the address, overwritten memory of an mbarrier, or a second init
  arrival_count,     // more arrivals than the phase expects, or an unfinished phase at exit
  tx_count,          // the expected number of bytes differs from the number that arrived
  phase_skipped,     // a wait for a phase that its parity does not distinguish from a later phase
  matrix_registers,  // registers accessed while a wgmma or a tcgen05.ld may use them
  matrix_fence,      // a wgmma without the wgmma.fence that orders its registers
  out_of_bounds,
  misaligned,
  uninitialised,       // shared memory read before anything was written to it
  uninitialised_sum,   // a sum in global memory that neither the host nor a kernel has initialised
  undefined_register,  // a register used to decide something before the thread has written it
  divergence,          // an .aligned instruction without all lanes, or a .sync with the wrong lanes
  register_budget,     // a setmaxnreg that requests more than the CTA has, or violates its rules
  early_exit,          // a CTA that exits while something may still access its shared memory
  deadlock,
  trap,         // a trap, or a failed assert in the kernel
  unsupported,  // an instruction that the emulator does not support
  operand,      // a descriptor, tensor map, count or barrier id that the instruction does not accept
  time_limit
};

// Returns the name of a fault as it appears in reports.
const char* name(Fault fault);
// Returns the fault with this name, or nothing.
std::optional<Fault> fault_named(std::string_view name);

// Thrown by synchronize() if a launch has failed. what() is the whole report.
class EmulatorError : public Error {
 public:
  EmulatorError(Fault fault, uint32_t ptx_line, const std::string& report)
      : Error(report), fault_(fault), ptx_line_(ptx_line) {}

  Fault fault() const { return fault_; }
  uint32_t ptx_line() const { return ptx_line_; }  // 0 if the fault cannot be attributed to one instruction

 private:
  Fault fault_;
  uint32_t ptx_line_;
};

// The options of the emulator.
struct EmulatorOptions {
  // Selects one of the legal schedules of warps and asynchronous operations. The same seed repeats the
  // schedule.
  uint64_t seed = 0;
  // Tracks the facts on which each thread may rely. Reports unordered accesses to shared and global memory,
  // missing proxy fences, registers accessed while a wgmma uses them, and sums in global memory that was
  // never written. Also reports uses of undefined registers and of uninitialised shared memory. Bounds,
  // alignment, barriers, divergence and deadlock are always checked.
  bool race_check = true;
  // Chooses the schedule. The seed then determines only choices that are not part of the schedule. The object
  // must outlive the device's launches. synchronize() may throw Exploration::Abandoned.
  Exploration* exploration = nullptr;
  // Lines of the PTX that are executed as late as a schedule allows. A warp that reaches such a line waits
  // until nothing else in its cluster can continue, and so do the operations that the instruction starts. If
  // a kernel waits for them by polling memory, they are executed after a while. load() throws an Error if a
  // line contains no instruction.
  std::vector<uint32_t> delayed = {};
  // Number of host threads for the CTAs of one launch. The result for a seed does not depend on this number,
  // because CTAs run concurrently only until their order matters.
  int threads = 1;
  // The file to which a Chrome trace (chrome://tracing, ui.perfetto.dev) of every launch is written. If the
  // path is empty, there is no trace.
  std::string trace_path;
  // Called from time to time while a launch runs, with the number of finished CTAs and the number in the
  // grid.
  std::function<void(uint64_t done, uint64_t all)> progress;
  // Called with notes, which are not faults, once for each instruction of a kernel. For example, several
  // warps store the same value, or an mbarrier is left in the middle of a phase. When a program is loaded, a
  // note lists the instructions that the emulator lacks. No other callback is called at the same time.
  std::function<void(const std::string& text)> note;
  // Called with each fault after which a kernel can continue, such as a race, once for each instruction and
  // kind of fault. The launch continues, and synchronize() throws only other faults. If this is empty, the
  // first fault of any kind ends the launch. No other callback is called at the same time.
  std::function<void(const EmulatorError& fault)> finding;
  // Called with the output of the kernels' printf. If this is empty, the output is written to standard
  // output.
  std::function<void(const std::string& text)> print;
};

// Counts over all launches of one device.
struct EmulatorStatistics {
  uint64_t launches = 0, ctas = 0, warp_instructions = 0, asynchronous_operations = 0;
};

// The device that interprets PTX on the CPU.
class Emulator : public Device {
 public:
  bool wants_ptx() const override { return true; }
  virtual EmulatorStatistics statistics() const = 0;
  // Sets a new seed for later launches.
  virtual void seed(uint64_t seed) = 0;
  // Resets the variables of the program's module to their initial values.
  virtual void reset(Program& program) = 0;
  // Returns a variable of the module in .global or .const memory, by its name in the PTX or in the author's
  // source. If there is no such variable, throws an Error that lists the variables.
  struct ModuleVariable {
    Address address;
    size_t bytes;
  };
  virtual ModuleVariable variable(const Program& program, std::string_view name) const = 0;
};

// Returns a new emulator with its own memory.
std::unique_ptr<Emulator> open_emulator(const EmulatorOptions& options = {});

// Returns several devices that share an address space. Their kernels may access each other's memory if
// Device::reach() allows it. The launches queued on several devices run concurrently when the host waits for
// any of these devices. A copy also waits, so launches that wait for each other must be queued without a copy
// in between. Reports number the devices from 0.
std::vector<std::unique_ptr<Emulator>> open_emulators(int count, const EmulatorOptions& options = {});

}  // namespace ptxbuilder::runtime

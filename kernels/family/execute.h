// Goes from a family and its fields to results: build, compile, load, run, report.
#pragma once

#include <optional>
#include <string>

#include "kernels/family/family.h"
#include "kernels/family/outcome.h"
#include "kernels/family/run.h"
#include "ptxbuilder/compile/compile.h"
#include "runtime/open_device.h"

namespace ptxbuilder::command {

// The differences in meaning between edited PTX and its kernel's PTX.
struct EditedDifference {
  std::string text;
  std::string json;  // an object
};

enum class Assembler : uint8_t { automatic, ptxas, driver, none };

struct ExecuteOptions {
  std::string device = "auto";
  runtime::EmulatorOptions emulator;
  Assembler assembler = Assembler::automatic;
  CompilerOptions compiler;
  RunOptions run;
  std::string emit;     // the folder for the files; "" for none
  std::string profile;  // the file for what the kernel records about itself; "" if it records nothing
  std::optional<uint32_t> profile_records = {};  // room of a warp; if empty, a first run finds it
  bool profile_all = false;                      // regions of instructions too
  uint32_t watchdog = 0;           // milliseconds that a wait of the kernel may take; 0 for any time
  std::optional<uint64_t> jitter;  // the seed of its delays
  bool checks = false;             // the kernel checks and prints
  std::string ptx_file;            // PTX that also runs, instead of the kernel; "" for none
  // Returns how that PTX differs from the kernel; required if `ptx_file` is given. It is null in a program
  // that only runs kernels.
  EditedDifference (*compare)(const std::string& kernel, const std::string& ptx, const std::string& edited,
                              const std::string& edited_file) = nullptr;
  std::vector<std::string> waived;  // what ptxas may report about both: see AssembleOptions
  bool sass = false;                // print SASS, or with `emit` write NAME.sass
  std::string nvdisasm;             // the disassembler; "" to look for it
  bool json = false;
};

// A kernel as it is built for a run.
struct Built {
  Compiled compiled;
  double build_milliseconds = 0;
  std::string assembler;  // in words
  std::vector<std::string> waivers;
};

CompilerOptions compiler_options(const ExecuteOptions& options);
runtime::EmulatorOptions emulator_options(const ExecuteOptions& options);

// Builds the kernel. Throws Error from the family's build(), the kernel's checks and ptxas.
Built build(const Family& family, const Fields& fields, const Compiler& tools, const ExecuteOptions& options,
            bool for_gpu);
// Does the same on a device. If the driver compiles the PTX, its messages are checked like those of ptxas.
runtime::LoadedKernel load(Built& built, runtime::Device& device);
// Calls the family's run(). Throws Error if the family has none, or if it does not verify although this was
// requested.
void run_family(const Family& family, const Fields& fields, Run& run, bool verify);
// Throws Error that says what to do if times are requested from a device without a clock.
[[noreturn]] void refuse_times();

// Prints a report, or one JSON object, to standard output. With a `ptx_file`, both the kernel and the file
// run on the same data, and their differences in meaning are printed; the outcome is the file's. Throws
// Error.
Outcome execute(const Family& family, const Fields& fields, const ExecuteOptions& options);

}  // namespace ptxbuilder::command

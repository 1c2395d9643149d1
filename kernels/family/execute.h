// Runs a family with its fields: builds, compiles, loads, runs and reports.
#pragma once

#include <optional>
#include <string>

#include "kernels/family/family.h"
#include "kernels/family/outcome.h"
#include "kernels/family/run.h"
#include "ptxbuilder/compile/compile.h"
#include "runtime/open_device.h"

namespace ptxbuilder::command {

// The differences in meaning between a kernel's PTX and an edited version of it.
struct EditedDifference {
  std::string text;
  std::string json;  // a JSON object
};

enum class Assembler : uint8_t { automatic, ptxas, driver, none };

struct ExecuteOptions {
  std::string device = "auto";
  runtime::EmulatorOptions emulator;
  Assembler assembler = Assembler::automatic;
  CompilerOptions compiler;
  RunOptions run;
  std::string emit;                              // the folder for the files; "": no files
  std::string profile;                           // the file for the kernel's profile; "": no profile
  std::optional<uint32_t> profile_records = {};  // records per warp; if empty, a first run determines it
  bool profile_all = false;                      // include regions of instructions
  uint32_t watchdog = 0;           // milliseconds that a wait of the kernel may take; 0: no limit
  std::optional<uint64_t> jitter;  // the seed of random delays
  bool checks = false;             // whether the kernel's checks and prints are compiled
  std::string ptx_file;            // PTX that runs in addition to the kernel; "": none
  // Compares that PTX with the kernel; required if `ptx_file` is given. It is null in a program that can only
  // run kernels.
  EditedDifference (*compare)(const std::string& kernel, const std::string& ptx, const std::string& edited,
                              const std::string& edited_file) = nullptr;
  std::vector<std::string> waived;  // reports of ptxas to accept for both: see AssembleOptions
  bool sass = false;                // print SASS, or with `emit` write NAME.sass
  std::string nvdisasm;             // the disassembler; "": search for it
  bool json = false;
};

// A kernel as it is built for a run.
struct Built {
  Compiled compiled;
  double build_milliseconds = 0;
  std::string assembler;  // a description of the assembler
  std::vector<std::string> waivers;
};

CompilerOptions compiler_options(const ExecuteOptions& options);
runtime::EmulatorOptions emulator_options(const ExecuteOptions& options);

// Builds the kernel. Throws Error from the family's build(), the kernel's checks and ptxas.
Built build(const Family& family, const Fields& fields, const Compiler& tools, const ExecuteOptions& options,
            bool for_gpu);
// Loads the kernel onto a device. If the driver compiles the PTX, its messages are checked like those of
// ptxas.
runtime::LoadedKernel load(Built& built, runtime::Device& device);
// Calls the family's run(). Throws Error if the family has none, or if verification was requested but run()
// does not verify.
void run_family(const Family& family, const Fields& fields, Run& run, bool verify);
// Throws Error that says what to do, for times that were requested on a device without a clock.
[[noreturn]] void refuse_times();

// Runs the kernel, and prints a report or a JSON object to standard output. With a `ptx_file`, both the
// kernel and the file run on the same data, and their differences in meaning are printed; the outcome is that
// of the file. Throws Error.
Outcome execute(const Family& family, const Fields& fields, const ExecuteOptions& options);

}  // namespace ptxbuilder::command

// Builds, compiles, loads and runs the kernel of a family with given fields, and reports the results.
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
  std::string emit;                              // folder for the kernel's files; "": no files are written
  std::string profile;                           // file for the kernel's profile; "": no profile is recorded
  std::optional<uint32_t> profile_records = {};  // records per warp; if empty, a first run determines it
  bool profile_all = false;                      // whether the profile includes regions of instructions
  uint32_t watchdog = 0;           // milliseconds that a wait in the kernel may take; 0: no limit
  std::optional<uint64_t> jitter;  // seed of random delays; if empty, there are none
  bool checks = false;             // whether the kernel's checks and prints are compiled
  std::string ptx_file;            // file of PTX that runs in addition to the kernel; "": none
  // Compares the PTX of `ptx_file` with the kernel. It must be set if `ptx_file` is, and is null in programs
  // that can only run kernels.
  EditedDifference (*compare)(const std::string& kernel, const std::string& ptx, const std::string& edited,
                              const std::string& edited_file) = nullptr;
  std::vector<std::string> waived;  // reports of ptxas to accept, for the kernel and for `ptx_file`: see
                                    // AssembleOptions
  bool sass = false;                // whether to print SASS, or with `emit` to write NAME.sass
  std::string nvdisasm;             // path of nvdisasm; "": search for it
  bool json = false;
};

// A kernel that has been built for a run.
struct Built {
  Compiled compiled;
  double build_milliseconds = 0;
  std::string assembler;  // a description of the assembler
  std::vector<std::string> waivers;
};

CompilerOptions compiler_options(const ExecuteOptions& options);
runtime::EmulatorOptions emulator_options(const ExecuteOptions& options);

// Builds the kernel. Throws Error if the family's build(), a check of the kernel or ptxas fails.
Built build(const Family& family, const Fields& fields, const Compiler& tools, const ExecuteOptions& options,
            bool for_gpu);
// Loads the kernel onto a device. If the driver compiles the PTX, the driver's messages are checked like
// those of ptxas.
runtime::LoadedKernel load(Built& built, runtime::Device& device);
// Calls the family's run(). Throws Error if the family has no run(), or if verification was requested but
// run() does not verify.
void run_family(const Family& family, const Fields& fields, Run& run, bool verify);
// Throws an Error that explains what to do if times were requested on a device without a clock.
[[noreturn]] void refuse_times();

// Runs the kernel, and prints a report or a JSON object to standard output. If `ptx_file` is set, the kernel
// and the file run on the same data, their differences in meaning are printed, and the outcome is that of the
// file. Throws Error if a step fails.
Outcome execute(const Family& family, const Fields& fields, const ExecuteOptions& options);

}  // namespace ptxbuilder::command

// Runs PTX text on the emulator with the launches of a launch file, and checks the results.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/simulate/launch_file.h"
#include "runtime/emulator/emulator.h"

namespace ptxbuilder::command {

struct SimulateOptions {
  std::string ptx_name = {};  // name of the PTX text in errors
  // Returns the sidecar of a kernel, which supplies the values that the launch file omits; nullopt if there
  // is no sidecar. The function may be empty.
  std::function<std::optional<Signature>(const std::string& kernel)> sidecar = {};
  // The sizes, in bytes per CTA, of the scratch memory that the kernel requires. If the PTX has one parameter
  // more than the launch file for each size, pointers to the scratch memory follow the file's parameters.
  std::vector<uint64_t> scratch = {};
  runtime::EmulatorOptions emulator;  // its seed determines the first schedule and the random buffers
  int schedules = 1;
  // Options that replace the schedules of seeds. `explore` is the maximum number of schedules to explore, and
  // `schedule` is the name of a schedule from an earlier exploration that runs again. All schedules have the
  // same random buffers.
  std::optional<uint64_t> explore = {};
  std::string schedule = {};
  std::chrono::milliseconds time_limit = std::chrono::seconds(60);
};

struct BufferComparison {
  std::string buffer;
  size_t count = 0, wrong = 0;
  double max_error = 0;     // the largest absolute difference; NaN if only one of the two values is NaN
  std::string first_wrong;  // for example "d[3, 0] is 1, expected 2 +- 0.1 (schedule of seed 7)"
};

// A fault. Faults of the same kind and line are listed once.
struct SimulatedFault {
  runtime::Fault kind;
  uint32_t ptx_line = 0;  // 0 if the fault was not caused by a single instruction
  std::string report;
};

struct Simulation {
  std::string entry;
  int schedules = 0;                   // number of schedules that were run
  std::vector<SimulatedFault> faults;  // faults of all schedules, except waived faults
  bool finished = false;               // whether the last schedule ended without a fault
  runtime::EmulatorStatistics statistics;
  std::vector<BufferComparison> comparisons;  // the results of all schedules, for each output that is
                                              // compared
  bool explored_all = false;                  // whether an exploration has run all schedules that exist
  std::vector<std::pair<std::string, std::string>> printed;  // names and elements of buffers, from the last
                                                             // schedule
  // The output that one or more schedules of an exploration print, with all buffers on one line; the number
  // of these schedules; and the name of the first.
  struct Outcome {
    std::string printed;
    uint64_t schedules = 0;
    std::string first;
  };
  std::vector<Outcome> outcomes;
  std::vector<std::string> written;  // paths of the files that were written

  bool right() const;
};

// Runs the launches. A wrong result, or a fault after which the kernel cannot continue, ends the simulation;
// other faults are collected. Throws Error if the launch file and the PTX do not match, and TimeoutError if a
// launch takes too long.
Simulation simulate(const std::string& ptx, const LaunchFile& file, const SimulateOptions& options);

}  // namespace ptxbuilder::command

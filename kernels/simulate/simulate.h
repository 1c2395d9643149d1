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
  // Finds the sidecar of a kernel, which supplies values that the launch file omits. It may be empty, and may
  // find nothing.
  std::function<std::optional<Signature>(const std::string& kernel)> sidecar = {};
  // The bytes of scratch memory for each CTA. If the PTX has that many more parameters than the file,
  // pointers to the scratch memory follow the file's parameters.
  std::vector<uint64_t> scratch = {};
  runtime::EmulatorOptions emulator;  // its seed is used for the first schedule and for the random buffers
  int schedules = 1;
  // Explores at most this many schedules instead of running those of seeds; or runs the schedule to which an
  // exploration gave this name. All schedules have the same random buffers.
  std::optional<uint64_t> explore = {};
  std::string schedule = {};
  std::chrono::milliseconds time_limit = std::chrono::seconds(60);
};

struct BufferComparison {
  std::string buffer;
  size_t count = 0, wrong = 0;
  double max_error = 0;     // the largest absolute difference; NaN if only one of the two values is NaN
  std::string first_wrong;  // "d[3, 0] is 1, expected 2 +- 0.1 (schedule of seed 7)"
};

// A fault; it is listed once for each kind and line.
struct SimulatedFault {
  runtime::Fault kind;
  uint32_t ptx_line = 0;  // 0 if it was not caused by a single instruction
  std::string report;
};

struct Simulation {
  std::string entry;
  int schedules = 0;                   // number of schedules that ran
  std::vector<SimulatedFault> faults;  // faults of all schedules, except those that are waived
  bool finished = false;               // whether the last schedule ended without a fault
  runtime::EmulatorStatistics statistics;
  std::vector<BufferComparison> comparisons;  // one for each output that is compared, over all schedules
  bool explored_all = false;                  // whether an exploration has run all existing schedules
  std::vector<std::pair<std::string, std::string>> printed;  // buffers and elements, from the last schedule
  // The text that some schedules of an exploration print, with all buffers on one line; the number of these
  // schedules; and the first of them.
  struct Outcome {
    std::string printed;
    uint64_t schedules = 0;
    std::string first;
  };
  std::vector<Outcome> outcomes;
  std::vector<std::string> written;  // files that were written

  bool right() const;
};

// Runs the launches. A wrong result, or a fault that ends its schedule, ends all schedules; other faults are
// collected. Throws Error if the launch file and the PTX do not match, and TimeoutError if a launch takes too
// long.
Simulation simulate(const std::string& ptx, const LaunchFile& file, const SimulateOptions& options);

}  // namespace ptxbuilder::command

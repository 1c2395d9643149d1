// Runs a PTX text on the emulator with the launches of a launch file, and checks the results.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/simulate/launch_file.h"
#include "runtime/emulator/emulator.h"

namespace ptxbuilder::command {

struct SimulateOptions {
  std::string ptx_name = {};  // of the PTX text, for errors in it
  // Finds the sidecar of a kernel, which has values that the launch file omits; may be empty, and may find
  // nothing.
  std::function<std::optional<Signature>(const std::string& kernel)> sidecar = {};
  // Bytes of scratch memory for each CTA, to which pointers are passed after the parameters of the file if
  // the PTX has that many more.
  std::vector<uint64_t> scratch = {};
  runtime::EmulatorOptions emulator;  // its seed is that of the first schedule and of the random buffers
  int schedules = 1;
  // Explores at most this many schedules instead of those of seeds, or runs the schedule to which an
  // exploration gave this name. All of them have the same random buffers.
  std::optional<uint64_t> explore = {};
  std::string schedule = {};
  std::chrono::milliseconds time_limit = std::chrono::seconds(60);
};

struct BufferComparison {
  std::string buffer;
  size_t count = 0, wrong = 0;
  double max_error = 0;     // the largest absolute difference; NaN if only one of the two is
  std::string first_wrong;  // "d[3, 0] is 1, expected 2 +- 0.1 (schedule of seed 7)"
};

// A fault, once for each kind and line.
struct SimulatedFault {
  runtime::Fault kind;
  uint32_t ptx_line = 0;  // 0 if no single instruction is to blame
  std::string report;
};

struct Simulation {
  std::string entry;
  int schedules = 0;                   // that ran
  std::vector<SimulatedFault> faults;  // of all schedules, except those that are waived
  bool finished = false;               // no fault ended the last schedule
  runtime::EmulatorStatistics statistics;
  std::vector<BufferComparison> comparisons;  // of all outputs that are compared, over the schedules
  bool explored_all = false;                  // an exploration has run all schedules that there are
  std::vector<std::pair<std::string, std::string>> printed;  // buffers and elements, from the last schedule
  // A text that schedules of an exploration print, with all buffers on one line, the number of these
  // schedules, and the first of them.
  struct Outcome {
    std::string printed;
    uint64_t schedules = 0;
    std::string first;
  };
  std::vector<Outcome> outcomes;
  std::vector<std::string> written;  // files

  bool right() const;
};

// Schedules end at a wrong result, and at a fault that ends its schedule; the others' faults are collected.
// Throws Error if the launch file and the PTX do not match, and TimeoutError if a launch takes too long.
Simulation simulate(const std::string& ptx, const LaunchFile& file, const SimulateOptions& options);

}  // namespace ptxbuilder::command

// Runs a PTX text on the emulator as a launch file says, and looks at what comes out.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/simulate/launch_file.h"
#include "runtime/emulator/emulator.h"

namespace ptxbuilder::command {

struct SimulateOptions {
  std::string ptx_name = {};  // of the PTX text, for what is wrong in it
  // The sidecar of a kernel, for what the launch file leaves out; may be empty, and find nothing.
  std::function<std::optional<Signature>(const std::string& kernel)> sidecar = {};
  // Bytes for each CTA of scratch memory, to which pointers are passed after the parameters of the file where
  // the PTX has as many more.
  std::vector<uint64_t> scratch = {};
  runtime::EmulatorOptions emulator;  // its seed is that of the first schedule and of the random buffers
  int schedules = 1;
  // Explores the schedules, at most so many, in place of those of seeds; or runs the one that an exploration
  // has named so. Every one has the same random buffers.
  std::optional<uint64_t> explore = {};
  std::string schedule = {};
  std::chrono::milliseconds time_limit = std::chrono::seconds(60);
};

struct BufferComparison {
  std::string buffer;
  size_t count = 0, wrong = 0;
  double max_error = 0;     // the largest absolute difference; NaN where only one of both is
  std::string first_wrong;  // "d[3, 0] is 1, expected 2 +- 0.1 (schedule of seed 7)"
};

// A fault, once for each kind and line.
struct SimulatedFault {
  runtime::Fault kind;
  uint32_t ptx_line = 0;  // 0 where no one instruction is to blame
  std::string report;
};

struct Simulation {
  std::string entry;
  int schedules = 0;                   // that ran
  std::vector<SimulatedFault> faults;  // of all schedules, but for those that are waived
  bool finished = false;               // no fault ended the last schedule
  runtime::EmulatorStatistics statistics;
  std::vector<BufferComparison> comparisons;  // of all outputs that are compared, over the schedules
  bool explored_all = false;                  // an exploration has run all schedules that there are
  std::vector<std::pair<std::string, std::string>> printed;  // buffer and elements, of the last schedule
  // An exploration finds what is printed, all buffers on one line, in how many schedules, and the first of
  // them.
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
// Throws Error when the launch file and the PTX do not fit, TimeoutError when a launch takes too long.
Simulation simulate(const std::string& ptx, const LaunchFile& file, const SimulateOptions& options);

}  // namespace ptxbuilder::command

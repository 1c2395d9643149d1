// Runs a PTX text on the emulator as a launch file says, and looks at what comes out.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/simulate/launch_file.h"
#include "runtime/emulator/emulator.h"

namespace ptxbuilder::command {

struct SimulateOptions {
  std::string ptx_name = {};  // of the PTX text, for what is wrong in it
  // The sidecar of a kernel, for what the launch file leaves out; may be empty, and find nothing.
  std::function<std::optional<Signature>(const std::string& kernel)> sidecar = {};
  runtime::EmulatorOptions emulator;  // its seed is that of the first schedule and of the random buffers
  int schedules = 1;
  std::chrono::milliseconds time_limit = std::chrono::seconds(60);
};

struct BufferComparison {
  std::string buffer;
  size_t count = 0, wrong = 0;
  double max_error = 0;     // the largest absolute difference; NaN where only one of both is
  std::string first_wrong;  // "d[3, 0] is 1, expected 2 +- 0.1 (schedule of seed 7)"
};

struct Simulation {
  std::string entry;
  int schedules = 0;  // that ran
  runtime::EmulatorStatistics statistics;
  std::vector<BufferComparison> comparisons;  // of all outputs that are compared, over the schedules
  std::vector<std::pair<std::string, std::string>> printed;  // buffer and elements, of the last schedule
  std::vector<std::string> written;                          // files

  bool right() const;
};

// Throws Error when the launch file and the PTX do not fit, EmulatorError when a launch went wrong.
Simulation simulate(const std::string& ptx, const LaunchFile& file, const SimulateOptions& options);

}  // namespace ptxbuilder::command

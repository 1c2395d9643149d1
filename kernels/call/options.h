// The options that all operations have.
#pragma once

#include <optional>
#include <string>

#include "ptxbuilder/error.h"  // first, since it reports that C++20 is needed
#include "runtime/compile/load.h"

namespace ptxbuilder::kernels {

// The options that the calls of all operations share.
struct CallOptions {
  LoadOptions compiler = {};
  int multiprocessors = 0;  // that a launch may take; 0: all of the device's
  // A call is measured the first time it is made, like with tune(), unless it is made in a capture, or the
  // device is not a GPU.
  bool tune = false;
  // tune() keeps its results in this file, and looks there first. The default is a file in
  // ~/.cache/ptxbuilder/OPERATION for each GPU, version and choice of tiles; "" means no file. If it cannot
  // be read or written, log() reports this once, and it is not an error.
  std::optional<std::string> tuned_file = std::nullopt;
};

}  // namespace ptxbuilder::kernels

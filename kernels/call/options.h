// The options that all operations have.
#pragma once

#include <optional>
#include <string>

#include "ptxbuilder/error.h"  // ahead of others: it says that C++20 is needed
#include "runtime/compile/load.h"

namespace ptxbuilder::kernels {

// The options that the calls of all operations share.
struct CallOptions {
  LoadOptions compiler = {};
  int multiprocessors = 0;  // that a launch may take; 0: all of the device
  // A call is measured when it comes for the first time, as tune() does, unless it comes in a capture, or the
  // device is no GPU.
  bool tune = false;
  // tune() keeps what it found in this file, and looks there first. It is a file in
  // ~/.cache/ptxbuilder/OPERATION for each GPU, version and choice of tiles unless said, "" for nowhere. That
  // it cannot be read or written is said once, by log(), and is no error.
  std::optional<std::string> tuned_file = std::nullopt;
};

}  // namespace ptxbuilder::kernels

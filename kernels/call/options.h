// Defines the options that all operations have.
#pragma once

#include <optional>
#include <string>

#include "ptxbuilder/error.h"  // included first, since it reports an error unless C++20 is enabled
#include "runtime/compile/load.h"

namespace ptxbuilder::kernels {

// The options that all operations have.
struct CallOptions {
  LoadOptions compiler = {};
  int multiprocessors = 0;  // the most that a launch may use; 0: all that the device has
  // If set, the first call of each kind is tuned as by tune(), unless the call is captured or the device is
  // not a GPU.
  bool tune = false;
  // The file in which tune() stores its results and looks for them before it measures. By default, each GPU,
  // version and set of tiles has its own file in ~/.cache/ptxbuilder/OPERATION; "" means no file. A failure
  // to read or write the file is reported once with log(), and is not an error.
  std::optional<std::string> tuned_file = std::nullopt;
};

}  // namespace ptxbuilder::kernels

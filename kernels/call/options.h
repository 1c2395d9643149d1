// The options of all operations.
#pragma once

#include <optional>
#include <string>

#include "ptxbuilder/error.h"  // first, since it reports an error unless C++20 is enabled
#include "runtime/compile/load.h"

namespace ptxbuilder::kernels {

// The options that the calls of all operations share.
struct CallOptions {
  LoadOptions compiler = {};
  int multiprocessors = 0;  // the most that a launch may use; 0: all of the device's
  // A call is measured the first time it is made, as with tune(), unless it is captured or the device is not
  // a GPU.
  bool tune = false;
  // tune() stores its results in this file, and looks there first. The default is a file in
  // ~/.cache/ptxbuilder/OPERATION for each GPU, version and choice of tiles; "" means no file. If the file
  // cannot be read or written, this is reported once with log(), and is not an error.
  std::optional<std::string> tuned_file = std::nullopt;
};

}  // namespace ptxbuilder::kernels

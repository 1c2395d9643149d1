// Describes on one page what the compiler produced for a kernel: registers, shared memory, occupancy, the
// work of its loops, and what is expected to limit it, together with measurements.
#pragma once

#include <string>

#include "kernels/family/execute.h"

namespace ptxbuilder::command {

struct ReportOptions {
  std::string measured;  // a file that `bench --json` printed; "": none
  bool bench = false;    // whether to time the kernel on a GPU
};

// Returns the complete report as one JSON object. Values that need a tool that is not available are null, and
// "missing" says why. Throws Error from the build, and for a file of another kernel or of other fields.
std::string report_json(const Family& family, const Fields& fields, const ExecuteOptions& options,
                        const ReportOptions& more);

// Returns the same report as a page of text.
std::string report_text(const std::string& json);

}  // namespace ptxbuilder::command

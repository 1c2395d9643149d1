// Describes a compiled kernel on one page. The page shows registers, shared memory, occupancy, the work of
// the loops, the expected limits of the speed, and measurements.
#pragma once

#include <string>

#include "kernels/family/execute.h"

namespace ptxbuilder::command {

struct ReportOptions {
  std::string measured;  // path of a file with the output of `bench --json`; "": none
  bool bench = false;    // whether to time the kernel on a GPU
};

// Returns the complete report as a JSON object. If a tool is not available, the values that need it are null,
// and "missing" contains the reason. Throws Error if the build fails, or if the file of measurements is for
// another kernel or other fields.
std::string report_json(const Family& family, const Fields& fields, const ExecuteOptions& options,
                        const ReportOptions& more);

// Converts the result of report_json() to a page of text.
std::string report_text(const std::string& json);

}  // namespace ptxbuilder::command

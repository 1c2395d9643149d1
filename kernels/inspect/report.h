// This says what the compiler made of a kernel, on one page: registers, shared memory, occupancy, the work of
// its loops, and what bounds it before it runs, together with what was measured.
#pragma once

#include <string>

#include "kernels/family/execute.h"

namespace ptxbuilder::command {

struct ReportOptions {
  std::string measured;  // a file that `bench --json` printed; "" for none
  bool bench = false;    // times the kernel on a GPU
};

// It gives all of it as one object of JSON. What a tool that is not there would tell is null, and "missing"
// says why. Throws Error from the build, and for a file of another kernel or of other fields.
std::string report_json(const Family& family, const Fields& fields, const ExecuteOptions& options,
                        const ReportOptions& more);

// It gives the same as a page of text.
std::string report_text(const std::string& json);

}  // namespace ptxbuilder::command

// The part of a kernel's report that comes from its PTX and machine code: registers, notes of ptxas, defects,
// and loops.
#pragma once

#include <string>

#include "kernels/family/execute.h"

namespace ptxbuilder::command {

struct CodeReport {
  std::string json;          // a JSON object
  std::string product_type;  // the type of most matrix products; "" if there are none
  double flops_of_a_clock = 0;
};

// Returns this part. `nvdisasm` is a file, or "" to search for it. If it is not available, registers by live
// range are null, and "missing" says so.
CodeReport report_code(const Built& built, const std::string& nvdisasm);

}  // namespace ptxbuilder::command

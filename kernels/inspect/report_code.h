// Creates the part of a kernel's report that comes from its PTX and machine code. This part lists registers,
// notes from ptxas, defects, and loops.
#pragma once

#include <string>

#include "kernels/family/execute.h"

namespace ptxbuilder::command {

struct CodeReport {
  std::string json;          // a JSON object
  std::string product_type;  // the type of most matrix products; "" if there are none
  double flops_of_a_clock = 0;
};

// Returns this part of the report. `nvdisasm` is the path of the tool, or "" to search for it. If it is not
// available, the registers by live range are null, and "missing" contains the reason.
CodeReport report_code(const Built& built, const std::string& nvdisasm);

}  // namespace ptxbuilder::command

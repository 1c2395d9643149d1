// The part of a kernel's report that comes from its PTX and machine code: registers, notes of ptxas, defects,
// loops.
#pragma once

#include <string>

#include "kernels/family/execute.h"

namespace ptxbuilder::command {

struct CodeReport {
  std::string json;          // an object
  std::string product_type;  // of most products; "" if there are none
  double flops_of_a_clock = 0;
};

// `nvdisasm` is a file, or "" to look for it. If it is not available, registers by life range are null, and
// "missing" has a sentence about it.
CodeReport report_code(const Built& built, const std::string& nvdisasm);

}  // namespace ptxbuilder::command

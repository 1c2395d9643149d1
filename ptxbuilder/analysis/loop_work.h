// Counts the work of one iteration of a kernel's loops for each unit of an SM (products, shared memory,
// arriving bytes, and special functions), and the least number of clocks that each unit needs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ptxbuilder/analysis/portrait.h"

namespace ptxbuilder::analysis {

// One iteration of an innermost loop that copies or multiplies, summed over all warps of one role.
// Instructions in branches of the loop count as if every iteration executed them.
struct LoopWork {
  int loop = 0;  // index in Portrait::loops
  std::string role;
  uint32_t first_line = 0, last_line = 0;  // in the PTX
  int stages = 1;    // stages for which the role waits per iteration, through mbarriers that copies signal
  double flops = 0;  // in wgmma and mma
  double tensor_clocks = 0;   // time of the tensor cores for these flops
  double read_bytes = 0;      // operands that wgmma reads from shared memory
  double arriving_bytes = 0;  // bytes that copies are expected to transfer
  double special = 0;         // ex2, rcp, tanh and similar instructions, in all threads

  bool empty() const { return flops == 0 && arriving_bytes == 0; }
};

std::vector<LoopWork> loop_work(const KernelAnalysis& kernel);

// Returns the least number of clocks that a stage takes on each unit of an SM, the greatest first. Each is
// summed over the loops of consumers and producer, divided by the loop's number of stages. Empty if no loop
// multiplies.
std::vector<std::pair<std::string, double>> stage_clocks(const std::vector<LoopWork>& loops);

// Returns the multiplications and additions of an SM per clock for a product's operand type: 4096 for "bf16".
// For "", returns 256, the rate of the vector units.
double flops_of_a_clock(const std::string& type);
// Returns the type of most products in a kernel, such as "bf16", or "" if the kernel does not multiply.
std::string product_type(const KernelAnalysis& kernel);

}  // namespace ptxbuilder::analysis

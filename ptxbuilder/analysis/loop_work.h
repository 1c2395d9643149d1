// Counts the work of one iteration of a kernel's loops: products, bytes read from shared memory, arriving
// bytes, and special functions. Computes the minimum number of clocks that each unit of an SM needs for this
// work.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ptxbuilder/analysis/portrait.h"

namespace ptxbuilder::analysis {

// One iteration of an innermost loop that copies or multiplies, summed over all warps of one role.
// Instructions in branches of the loop count as if they ran in every iteration.
struct LoopWork {
  int loop = 0;  // index in Portrait::loops
  std::string role;
  uint32_t first_line = 0, last_line = 0;  // lines in the PTX
  int stages = 1;    // number of stages for which the role waits in each iteration, at mbarriers that copies
                     // signal
  double flops = 0;  // floating-point operations of wgmma and mma
  double tensor_clocks = 0;   // clocks that the tensor cores need for these flops
  double read_bytes = 0;      // bytes of operands that wgmma reads from shared memory
  double arriving_bytes = 0;  // bytes that copies are expected to transfer
  double special = 0;         // number of ex2, rcp, tanh and similar instructions, over all threads

  bool empty() const { return flops == 0 && arriving_bytes == 0; }
};

std::vector<LoopWork> loop_work(const KernelAnalysis& kernel);

// Returns the minimum number of clocks that each unit of an SM needs for a stage, in descending order. For
// each unit, the clocks of each loop are divided by the loop's number of stages, and added up for the loops
// of the consumers and the producer. Returns an empty list if no loop multiplies.
std::vector<std::pair<std::string, double>> stage_clocks(const std::vector<LoopWork>& loops);

// Returns the number of multiplications and additions per clock that an SM performs in products of this
// operand type, such as 4096 for "bf16". For "", returns 256, the rate of the vector units.
double flops_of_a_clock(const std::string& type);
// Returns the operand type of most products in a kernel, such as "bf16", or "" if the kernel contains no
// products.
std::string product_type(const KernelAnalysis& kernel);

}  // namespace ptxbuilder::analysis

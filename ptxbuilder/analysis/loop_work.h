// This counts what a turn of a kernel's loops does to the units of an SM: products, shared memory, bytes that
// arrive, and the special function unit; and how many clocks each takes at least.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ptxbuilder/analysis/portrait.h"

namespace ptxbuilder::analysis {

// One innermost loop that copies or multiplies, of one role; all its warps together, in one turn.
// Instructions in branches of the loop count as if they were run.
struct LoopWork {
  int loop = 0;  // of Portrait::loops
  std::string role;
  uint32_t first_line = 0, last_line = 0;  // of the PTX
  int stages = 1;             // that the role waits for in a turn, by mbarriers that copies signal
  double flops = 0;           // of wgmma and mma
  double tensor_clocks = 0;   // the tensor cores' time for these
  double read_bytes = 0;      // operands that wgmma reads from shared memory
  double arriving_bytes = 0;  // that copies are expected to bring
  double special = 0;         // ex2, rcp, tanh and their like, of all threads

  bool empty() const { return flops == 0 && arriving_bytes == 0; }
};

std::vector<LoopWork> loop_work(const KernelAnalysis& kernel);

// The least number of an SM's clocks that a stage takes on each unit, the largest first: over the loops of
// consumers and producer, each divided by its stages. Empty where no loop multiplies.
std::vector<std::pair<std::string, double>> stage_clocks(const std::vector<LoopWork>& loops);

// Multiplications and additions of an SM in a clock, by the type of a product's operands: 4096 for "bf16".
// The vector units' 256 for "".
double flops_of_a_clock(const std::string& type);
// The type of most products of a kernel, such as "bf16"; "" where it has none.
std::string product_type(const KernelAnalysis& kernel);

}  // namespace ptxbuilder::analysis

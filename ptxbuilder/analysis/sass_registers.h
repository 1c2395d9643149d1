// Analyses the registers of machine code with the live ranges that nvdisasm prints. Determines the contents
// of registers at the point where most registers are live, and finds registers that are written while a wgmma
// may still read them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/analysis/sass.h"

namespace ptxbuilder::analysis {

// For each instruction, a string with one character for each register, beginning with R0. The character is a
// space if the register is dead, ':' if it is live, 'v' if it is read, '^' if it is written, and 'x' if it is
// read and written.
using LifeRanges = std::vector<std::string>;

// Parses the output `text` of `nvdisasm -c -lrm narrow`, and returns the ranges of each instruction of the
// kernel. Throws Error if the text does not contain a table for the kernel, or if an instruction is missing.
LifeRanges parse_life_ranges(const SassKernel& kernel, std::string_view text);

// The point with the most live registers in the code after one USETMAXREG, or in all code if there is none.
// Only registers that this code uses count, because nvdisasm prints accumulators as live before their first
// wgmma.
struct RegisterPeak {
  std::optional<int> granted = {};                     // number of registers that USETMAXREG requests
  int live = 0;                                        // number of live registers among R0 to R254
  int instruction = kNone;                             // first instruction at which `live` registers are live
  std::vector<std::pair<std::string, int>> uses = {};  // such as ("accumulators", 128), the greatest first
};
std::vector<RegisterPeak> register_peaks(const SassKernel& kernel, const LifeRanges& ranges);

// A register of a wgmma's A operand, or of a sparse wgmma's metadata, that is written before the wait for
// that wgmma. Defects of ptxas may cause this (compile/defects.h).
struct OverwrittenOperand {
  int wgmma = kNone, writer = kNone;  // instructions
  int number = 0;                     // number of the register
};
std::vector<OverwrittenOperand> overwritten_operands(const SassKernel& kernel, const LifeRanges& ranges);

}  // namespace ptxbuilder::analysis

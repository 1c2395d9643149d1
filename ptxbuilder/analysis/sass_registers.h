// Registers of machine code with their live ranges, as nvdisasm prints them: their contents at the point
// where most of them are live, and the registers that are written while a wgmma may still read them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/analysis/sass.h"

namespace ptxbuilder::analysis {

// Each instruction has one character per register from R0 on: ' ' for a dead register, ':' for a live one,
// 'v' for one that is read, '^' for one that is written, 'x' for one that is both.
using LifeRanges = std::vector<std::string>;

// The ranges that `nvdisasm -c -lrm narrow` prints for the kernel, by its instructions. Throws Error if the
// text does not contain a table for the kernel, or an instruction is missing.
LifeRanges parse_life_ranges(const SassKernel& kernel, std::string_view text);

// The point with the most live registers in the code that follows one USETMAXREG, or in all code if it has
// none. A register counts if that code uses it: nvdisasm shows accumulators alive ahead of their first wgmma.
struct RegisterPeak {
  std::optional<int> granted = {};                     // the number that USETMAXREG requests
  int live = 0;                                        // registers, R0 to R254
  int instruction = kNone;                             // the first with that number
  std::vector<std::pair<std::string, int>> uses = {};  // "accumulators" 128, ...; the largest first
};
std::vector<RegisterPeak> register_peaks(const SassKernel& kernel, const LifeRanges& ranges);

// A register of a wgmma's A operand, or of a sparse wgmma's metadata, that is written before the wait for
// that wgmma: errors that ptxas may make (compile/defects.h).
struct OverwrittenOperand {
  int wgmma = kNone, writer = kNone;  // instructions
  int number = 0;                     // of the register
};
std::vector<OverwrittenOperand> overwritten_operands(const SassKernel& kernel, const LifeRanges& ranges);

}  // namespace ptxbuilder::analysis

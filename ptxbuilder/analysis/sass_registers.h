// Registers of machine code by their life ranges, as nvdisasm prints them: what they hold where most of them
// are alive, and those that a wgmma may still read when they are written.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/analysis/sass.h"

namespace ptxbuilder::analysis {

// Each instruction has one character per register from R0 on: ' ' for one that is dead, ':' for one that is
// alive, 'v' where it is read, '^' where it is written, 'x' where it is both.
using LifeRanges = std::vector<std::string>;

// The ranges in what `nvdisasm -c -lrm narrow` prints of the kernel, by its instructions. Throws Error where
// the text has no table for it, or lacks an instruction.
LifeRanges parse_life_ranges(const SassKernel& kernel, std::string_view text);

// Where the most registers are alive in the code that follows one USETMAXREG, or in all code if it has none.
// A register counts where that code touches it: nvdisasm has accumulators alive ahead of their first wgmma.
struct RegisterPeak {
  std::optional<int> granted = {};                     // what USETMAXREG asks for
  int live = 0;                                        // registers, R0 to R254
  int instruction = kNone;                             // the first with so many
  std::vector<std::pair<std::string, int>> uses = {};  // "accumulators" 128, ...; the most first
};
std::vector<RegisterPeak> register_peaks(const SassKernel& kernel, const LifeRanges& ranges);

// A register of a wgmma's A operand that is written before the wait for that wgmma: what ptxas before 13.3
// may do wrong.
struct OverwrittenOperand {
  int wgmma = kNone, writer = kNone;  // instructions
  int number = 0;                     // of the register
};
std::vector<OverwrittenOperand> overwritten_operands(const SassKernel& kernel, const LifeRanges& ranges);

}  // namespace ptxbuilder::analysis

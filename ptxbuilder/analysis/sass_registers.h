// Analyses the registers of machine code, using the live ranges that nvdisasm prints: what they contain where
// most of them are live, and which are written while a wgmma may still read them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/analysis/sass.h"

namespace ptxbuilder::analysis {

// Each instruction has one character per register, beginning with R0: ' ' for a dead register, ':' for a live
// one, 'v' for one that is read, '^' for one that is written, 'x' for one that is read and written.
using LifeRanges = std::vector<std::string>;

// Returns the ranges that `nvdisasm -c -lrm narrow` prints for the kernel, by instruction. Throws Error if
// the text does not contain a table for the kernel, or if an instruction is missing.
LifeRanges parse_life_ranges(const SassKernel& kernel, std::string_view text);

// The point with the most live registers in the code after one USETMAXREG, or in all code if there is none. A
// register counts only if this code uses it, since nvdisasm shows accumulators as live before their first
// wgmma.
struct RegisterPeak {
  std::optional<int> granted = {};                     // number that USETMAXREG requests
  int live = 0;                                        // among R0 to R254
  int instruction = kNone;                             // first instruction with this number
  std::vector<std::pair<std::string, int>> uses = {};  // "accumulators" 128, ...; in descending order
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

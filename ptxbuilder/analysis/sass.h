// SASS, the machine code of a cubin, as nvdisasm prints it: instructions, loops, and the comparison of two
// kernels.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/analysis/regions.h"

namespace ptxbuilder::analysis {

struct SassInstruction {
  uint32_t address = 0;       // bytes from the kernel's start
  std::string guard = {};     // "@!P0", or empty
  std::string opcode = {};    // "HGMMA.64x256x16.F32.BF16"
  std::string operands = {};  // as spelled: "R24, gdesc[UR12], R24, gsb0"
  uint32_t line = 0;          // of the source that nvdisasm refers to (-gp: the PTX); 0: not known
  int target = kNone;         // the instruction after the label among the operands, if there is one

  std::string_view root() const;  // of the opcode: "HGMMA"
  bool is_branch() const;         // whether it is a branch with a known target
  std::string text() const;       // "@!P0 BRA `(.L_x_13)"
};

struct SassKernel {
  std::string name;
  std::vector<SassInstruction> instructions = {};
  std::map<int, std::vector<std::string>> labels = {};  // by the instruction that follows them
  uint32_t registers = 0, stack_bytes = 0;              // of a thread; nvdisasm does not say, the cubin does
};

// The kernels in the output of `nvdisasm -c`, with or without -g or -gp, each without the NOPs that pad its
// end. Throws Error "SASS line N: ..." for an unterminated instruction and for a branch to a label that does
// not exist.
std::vector<SassKernel> parse_sass(std::string_view text);

// A loop with instructions of tensor cores or of TMA that does not contain another such loop.
struct SassLoop {
  std::string name;               // "loop of HGMMA"; the second is "loop of HGMMA 2"
  std::vector<int> instructions;  // ascending, including those of inner loops
};
std::vector<SassLoop> mainloops(const SassKernel& kernel);

// Returns whether a comparison of two loops prints an instruction by itself: those of tensor cores, TMA,
// barriers, fences, shared and global memory; not arithmetic.
bool is_told(const SassInstruction& instruction);

// Counts each root among the instructions that `loop` names, or among all.
std::map<std::string, int> histogram(const SassKernel& kernel);
std::map<std::string, int> histogram(const SassKernel& kernel, const SassLoop& loop);

// The text that diff() compares: registers and spills; each mainloop's instructions in order; all
// instructions by root; and a hash of everything, so that any difference is noticed.
std::vector<Region> regions(const SassKernel& kernel);

// Prints two kernels in two columns: resources, histograms, and mainloops.
std::string side_by_side(const SassKernel& a, const SassKernel& b);

}  // namespace ptxbuilder::analysis

// Parses SASS, the machine code of a cubin as nvdisasm prints it, into instructions and loops, and compares
// two kernels.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ptxbuilder/analysis/regions.h"

namespace ptxbuilder::analysis {

struct SassInstruction {
  uint32_t address = 0;       // in bytes from the kernel's start
  std::string guard = {};     // "@!P0", or ""
  std::string opcode = {};    // "HGMMA.64x256x16.F32.BF16"
  std::string operands = {};  // as they are spelled: "R24, gdesc[UR12], R24, gsb0"
  uint32_t line = 0;          // in the source to which nvdisasm refers (with -gp, the PTX); 0 if not known
  int target = kNone;         // instruction after the label among the operands, if there is one

  std::string_view root() const;  // of the opcode: "HGMMA"
  bool is_branch() const;         // whether this is a branch with a known target
  std::string text() const;       // "@!P0 BRA `(.L_x_13)"
};

struct SassKernel {
  std::string name;
  std::vector<SassInstruction> instructions = {};
  std::map<int, std::vector<std::string>> labels = {};  // by the instruction that follows them
  uint32_t registers = 0, stack_bytes = 0;  // per thread; from the cubin, since nvdisasm does not print them
};

// Returns the kernels in the output of `nvdisasm -c`, with or without -g or -gp, without the NOPs that pad
// their ends. Throws Error "SASS line N: ..." for an unterminated instruction, and for a branch to a label
// that does not exist.
std::vector<SassKernel> parse_sass(std::string_view text);

// A loop that contains instructions of tensor cores or of TMA, but no other such loop.
struct SassLoop {
  std::string name;               // "loop of HGMMA"; the second one is "loop of HGMMA 2"
  std::vector<int> instructions;  // in ascending order, including those of inner loops
};
std::vector<SassLoop> mainloops(const SassKernel& kernel);

// Returns whether a comparison of two loops shows an instruction individually: instructions of tensor cores,
// TMA, barriers, fences, and shared and global memory, but not arithmetic.
bool is_told(const SassInstruction& instruction);

// Counts how often each root occurs in `loop`, or in the whole kernel.
std::map<std::string, int> histogram(const SassKernel& kernel);
std::map<std::string, int> histogram(const SassKernel& kernel, const SassLoop& loop);

// Returns the regions that diff() compares: registers and spills; the instructions of each mainloop in order;
// all instructions by root; and a hash of everything, so that any difference is noticed.
std::vector<Region> regions(const SassKernel& kernel);

// Returns two kernels in two columns: resources, histograms and mainloops.
std::string side_by_side(const SassKernel& a, const SassKernel& b);

}  // namespace ptxbuilder::analysis

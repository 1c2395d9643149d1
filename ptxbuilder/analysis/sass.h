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
  std::string operands = {};  // as nvdisasm prints them: "R24, gdesc[UR12], R24, gsb0"
  uint32_t line = 0;          // line in the source to which nvdisasm refers (with -gp, the PTX); 0 if not
                              // known
  int target = kNone;         // if a label is among the operands, the instruction after the label

  std::string_view root() const;  // returns the first part of the opcode, such as "HGMMA"
  bool is_branch() const;         // returns whether this is a branch with a known target
  std::string text() const;       // returns a string such as "@!P0 BRA `(.L_x_13)"
};

struct SassKernel {
  std::string name;
  std::vector<SassInstruction> instructions = {};
  std::map<int, std::vector<std::string>> labels = {};  // labels before each instruction
  uint32_t registers = 0, stack_bytes = 0;  // for each thread; read from the cubin, since nvdisasm does not
                                            // print them
};

// Returns the kernels in the output of `nvdisasm -c`, with or without -g or -gp, without the NOPs that pad
// their ends. Throws an Error "SASS line N: ..." for an unterminated instruction, or for a branch to a label
// that does not exist.
std::vector<SassKernel> parse_sass(std::string_view text);

// A loop that contains tensor core or TMA instructions, but no inner loop with such instructions.
struct SassLoop {
  std::string name;               // such as "loop of HGMMA", or "loop of HGMMA 2" for the second such loop
  std::vector<int> instructions;  // in ascending order, including instructions of inner loops
};
std::vector<SassLoop> mainloops(const SassKernel& kernel);

// Returns whether a comparison of two loops lists this kind of instruction individually. The kinds are
// instructions of tensor cores, TMA, barriers, fences, and shared and global memory, but not arithmetic.
bool is_told(const SassInstruction& instruction);

// Return the number of instructions with each root in `loop`, or in the entire kernel.
std::map<std::string, int> histogram(const SassKernel& kernel);
std::map<std::string, int> histogram(const SassKernel& kernel, const SassLoop& loop);

// Returns the regions that diff() compares: registers and spills; the instructions of each mainloop in order;
// all instructions by root; and a hash of all instructions, so that any difference is noticed.
std::vector<Region> regions(const SassKernel& kernel);

// Returns a listing of the resources, histograms and mainloops of two kernels in two columns.
std::string side_by_side(const SassKernel& a, const SassKernel& b);

}  // namespace ptxbuilder::analysis

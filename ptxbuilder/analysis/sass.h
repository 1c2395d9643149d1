// SASS, the machine code of a cubin, as nvdisasm prints it: instructions, loops, and what two kernels are
// held against each other by.
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
  uint32_t line = 0;          // of the source that nvdisasm was asked for (-gp: the PTX); 0: not known
  int target = kNone;         // the instruction after the label among the operands, if there is one

  std::string_view root() const;  // of the opcode: "HGMMA"
  bool is_branch() const;         // and goes to its target
  std::string text() const;       // "@!P0 BRA `(.L_x_13)"
};

struct SassKernel {
  std::string name;
  std::vector<SassInstruction> instructions = {};
  std::map<int, std::vector<std::string>> labels = {};  // by the instruction after them
  uint32_t registers = 0, stack_bytes = 0;              // of a thread; nvdisasm does not say, the cubin does
};

// The kernels in the output of `nvdisasm -c`, with or without -g or -gp, each without the NOPs that fill up
// its end. Throws Error "SASS line N: ..." for an instruction without an end and a branch to a label that is
// not there.
std::vector<SassKernel> parse_sass(std::string_view text);

// A loop with instructions of tensor cores or of TMA, and no such loop inside.
struct SassLoop {
  std::string name;               // "loop of HGMMA"; of several, "loop of HGMMA 2"
  std::vector<int> instructions;  // ascending, with those of inner loops
};
std::vector<SassLoop> mainloops(const SassKernel& kernel);

// This says whether an instruction is printed by itself where two loops are compared: of tensor cores, TMA,
// barriers, fences, shared and global memory; not arithmetic.
bool is_told(const SassInstruction& instruction);

// This counts each root in the instructions that `loop` names, or in all.
std::map<std::string, int> histogram(const SassKernel& kernel);
std::map<std::string, int> histogram(const SassKernel& kernel, const SassLoop& loop);

// diff() prints this: registers and spills; each mainloop's instructions in order; all instructions by root;
// and a hash of all, so that nothing that differs passes for the same.
std::vector<Region> regions(const SassKernel& kernel);

// Two kernels in two columns: resources, histograms, and their mainloops side by side.
std::string side_by_side(const SassKernel& a, const SassKernel& b);

}  // namespace ptxbuilder::analysis

// Collects what a module's rows require, before the target is chosen.
#pragma once

#include <string>

#include "ptxbuilder/isa/row.h"

namespace llvm {
class Instruction;
class Module;
}  // namespace llvm

namespace ptxbuilder {

// Ten times a .version, and the targets that support all rows. Flags of the module store both (see emit() in
// llvm.h).
struct Needs {
  int ptx_version = 0;
  isa::Targets targets = isa::Targets::all();
};
Needs needs_of(const llvm::Module& module);
// Returns what the module's inline asm needs that was not made from rows, as far as the manual lists its
// instructions.
Needs needs_of_asm(const llvm::Module& module);
void require(llvm::Module& module, int ptx_version, isa::Targets targets);

// Returns " at k.py:12" if debug information contains the line, otherwise "".
std::string line_of(const llvm::Instruction& instruction);

// note_row() marks an instruction with its row. first_that_lacks() returns a description of the first row or
// inline asm that a target does not support, "; wgmma_fence in 'k' at k.py:12 needs sm_90a" (with the line if
// debug information contains it), or "" if the target supports everything.
void note_row(llvm::Instruction& instruction, const isa::Row& row);
std::string first_that_lacks(const llvm::Module& module, isa::Sm target);

// Returns the target that the module's functions name in target-cpu; empty if no function names one. Throws
// Error if two functions name different targets.
std::string target_cpu(const llvm::Module& module);

}  // namespace ptxbuilder

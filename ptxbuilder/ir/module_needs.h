// Collects what the rows of a module need, which is known before the target that it is compiled for.
#pragma once

#include <string>

#include "ptxbuilder/isa/row.h"

namespace llvm {
class Instruction;
class Module;
}  // namespace llvm

namespace ptxbuilder {

// Ten times a .version, and the targets that have all rows. The module's flags hold it (see emit() in
// llvm.h).
struct Needs {
  int ptx_version = 0;
  isa::Targets targets = isa::Targets::all();
};
Needs needs_of(const llvm::Module& module);
// Gives the same of the instructions in inline asm that is no row's, as far as the manual has them.
Needs needs_of_asm(const llvm::Module& module);
void require(llvm::Module& module, int ptx_version, isa::Targets targets);

// Gives " at k.py:12" where debug information has the line, else "".
std::string line_of(const llvm::Instruction& instruction);

// Notes with an instruction which row it is, and finds the first that a target lacks, a row or inline asm: ";
// wgmma_fence in 'k' at k.py:12 needs sm_90a", with the line where debug information has it. Empty where
// there is none.
void note_row(llvm::Instruction& instruction, const isa::Row& row);
std::string first_that_lacks(const llvm::Module& module, isa::Sm target);

// The target that the target-cpu of the module's functions names; empty where none does. Throws Error where
// two differ.
std::string target_cpu(const llvm::Module& module);

}  // namespace ptxbuilder

// Collects the requirements of a module's rows, before the target is chosen.
#pragma once

#include <string>

#include "ptxbuilder/isa/row.h"

namespace llvm {
class Instruction;
class Module;
}  // namespace llvm

namespace ptxbuilder {

// The .version, times ten, and the targets that support all rows. Module flags store these values (see emit()
// in llvm.h).
struct Needs {
  int ptx_version = 0;
  isa::Targets targets = isa::Targets::all();
};
Needs needs_of(const llvm::Module& module);
// Returns the needs of inline asm in the module that was not emitted from rows. Instructions that the manual
// does not list are ignored.
Needs needs_of_asm(const llvm::Module& module);
void require(llvm::Module& module, int ptx_version, isa::Targets targets);

// Returns a string such as " at k.py:12" if the debug information contains the line, otherwise "".
std::string line_of(const llvm::Instruction& instruction);

// note_row() marks an instruction with its row. first_that_lacks() describes the first row or inline asm that
// `target` does not support, for example "; wgmma_fence in 'k' at k.py:12 needs sm_90a". The description
// contains the line only if debug information does. Returns "" if the target supports everything.
void note_row(llvm::Instruction& instruction, const isa::Row& row);
std::string first_that_lacks(const llvm::Module& module, isa::Sm target);

// Returns the target that the module's functions name in target-cpu; empty if no function names one. Throws
// Error if two functions name different targets.
std::string target_cpu(const llvm::Module& module);

}  // namespace ptxbuilder

// A module of somebody else's: how it becomes one that NVPTX takes, and why LLVM may have given it up.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace llvm {
class DataLayout;
class Module;
class Triple;
}  // namespace llvm

namespace ptxbuilder {

// Gives the module NVPTX's triple and the data layout `own`, or the project's with shared pointers of 32
// bits, where its own say the same of the types that it has; lines in place of all other debug information,
// since ptxas optimizes no code that is to be debugged; and names of PTX to device functions and variables.
// Returns what else will be otherwise than the module says, a sentence each. Throws Error for what NVPTX
// would drop or pass on as text that ptxas refuses: a kernel's name that PTX does not have, initial values of
// shared memory, variables of a thread, and allocas outside of local memory.
std::vector<std::string> adopt(llvm::Module& module, const llvm::Triple& triple, const llvm::DataLayout& own,
                               const std::string& name);

// Host code may hold its kernels as bitcode in a constant, as MLIR's gpu-module-to-binary leaves them by
// format=llvm.
struct HeldKernels {
  std::string_view bitcode;  // the module's, and as long as that lives; empty where it holds none
  std::string variable;
};
// Throws Error where a module without a kernel of its own holds several such constants, any of which could be
// meant, or PTX or a cubin in their place.
HeldKernels kernels_held_by(const llvm::Module& module, const std::string& name);

// Throws Error for a module without a kernel, since nothing of it could be launched.
void check_has_kernel(const llvm::Module& module, const std::string& name);

// Says what LLVM could not select of the module, and what to do, where that can be seen from the words with
// which it gave up on code for `target`; else gives the words.
std::string reason_of(const llvm::Module& module, const std::string& words, const std::string& target);

}  // namespace ptxbuilder

// Adapts a module from another front end to what NVPTX accepts, and explains why LLVM rejected a module.
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

// Gives the module NVPTX's triple, and the data layout `own` or, if the module's layout agrees with it for
// the types that the module uses, the project's layout with 32-bit shared pointers. Replaces all debug
// information with line numbers, since ptxas does not optimize code for debugging, and gives device functions
// and variables valid PTX names. Returns one sentence for each other respect in which the result will differ
// from the module. Throws Error for anything that NVPTX would drop, or print in a form that ptxas rejects: an
// invalid kernel name, initial values of shared memory, thread variables, and allocas outside of local
// memory.
std::vector<std::string> adopt(llvm::Module& module, const llvm::Triple& triple, const llvm::DataLayout& own,
                               const std::string& name);

// Host code may hold its kernels as bitcode in a constant, as MLIR's gpu-module-to-binary with format=llvm
// does.
struct HeldKernels {
  std::string_view bitcode;  // valid as long as the module exists; empty if the module holds no bitcode
  std::string variable;
};
// Throws Error if a module without a kernel holds several such constants, since the intended one is unclear,
// or if it holds PTX or a cubin instead of bitcode.
HeldKernels kernels_held_by(const llvm::Module& module, const std::string& name);

// Throws Error for a module without a kernel, since there is nothing to launch.
void check_has_kernel(const llvm::Module& module, const std::string& name);

// If LLVM's message shows what LLVM could not select for `target`, returns that and what to do about it;
// otherwise returns the message.
std::string reason_of(const llvm::Module& module, const std::string& words, const std::string& target);

}  // namespace ptxbuilder

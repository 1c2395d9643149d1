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

// Sets the module's triple to NVPTX's, and its data layout to `own` or, if the module declares 32-bit shared
// pointers, to the project's layout with such pointers. Throws Error if the module's own layout disagrees
// with this layout about a type that the module uses. Replaces all debug information with line numbers, since
// ptxas does not optimize code for debugging. Renames device functions and variables whose names are not
// valid in PTX. Returns one sentence for each other respect in which the result will differ from the module.
// Also throws Error for anything that NVPTX would drop, or print in a form that ptxas rejects: an invalid
// kernel name, initial values of shared memory, thread-local variables, and allocas outside local memory.
std::vector<std::string> adopt(llvm::Module& module, const llvm::Triple& triple, const llvm::DataLayout& own,
                               const std::string& name);

// Kernels that host code holds as bitcode in a constant. MLIR's gpu-module-to-binary with format=llvm
// generates such code.
struct HeldKernels {
  std::string_view bitcode;  // valid as long as the module exists; empty if the module holds no bitcode
  std::string variable;
};
// Returns the bitcode of kernels that a module without a kernel holds in a constant. Throws Error if there
// are several such constants, since the intended one is unclear, or if there is only a constant with PTX or a
// cubin.
HeldKernels kernels_held_by(const llvm::Module& module, const std::string& name);

// Throws Error for a module without a kernel, since there is nothing to launch.
void check_has_kernel(const llvm::Module& module, const std::string& name);

// Explains LLVM's message `words`. If it shows what LLVM could not select for `target`, returns a text that
// names this and what to do about it. Otherwise returns the message unchanged.
std::string reason_of(const llvm::Module& module, const std::string& words, const std::string& target);

}  // namespace ptxbuilder

// Adapts a module from another front end for LLVM's NVPTX backend, and explains why LLVM rejected a module.
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

// Sets the module's triple to the triple of NVPTX. Sets its data layout to `own` or, if the module declares
// 32-bit shared pointers, to the project's layout with such pointers. Throws Error if the module's original
// layout disagrees with this layout about a type that the module uses. Replaces all debug information with
// line numbers, because ptxas does not optimize code for debugging. Renames device functions and variables
// whose names are not valid in PTX. Returns one sentence for each other way in which the result will differ
// from the module. Also throws Error for anything that NVPTX would drop, or print in a form that ptxas
// rejects: an invalid kernel name, initial values of shared memory, thread-local variables, and allocas
// outside local memory.
std::vector<std::string> adopt(llvm::Module& module, const llvm::Triple& triple, const llvm::DataLayout& own,
                               const std::string& name);

// Kernels that a module of host code contains as bitcode in a constant. MLIR's gpu-module-to-binary with
// format=llvm generates such modules.
struct HeldKernels {
  std::string_view bitcode;  // valid for as long as the module exists; empty if the module holds no bitcode
  std::string variable;
};
// Returns the bitcode of kernels from a constant of a module that does not itself define a kernel. Throws
// Error if there are several such constants, because the intended constant is unclear, or if there is only a
// constant with PTX or a cubin.
HeldKernels kernels_held_by(const llvm::Module& module, const std::string& name);

// Throws Error for a module without a kernel, because there is nothing to launch.
void check_has_kernel(const llvm::Module& module, const std::string& name);

// Explains LLVM's message `words`. If the message shows an operation that LLVM could not select for `target`,
// returns a string that names the operation and a remedy. Otherwise returns the message unchanged.
std::string reason_of(const llvm::Module& module, const std::string& words, const std::string& target);

}  // namespace ptxbuilder

// Reads the launch properties of an llvm::Function from any front end, and those that a Kernel records on it.
#pragma once

#include <cstdint>
#include <vector>

#include "ptxbuilder/sidecar.h"

namespace llvm {
class DataLayout;
class Function;
class GlobalVariable;
class Type;
}  // namespace llvm

namespace ptxbuilder {

// Returns whether the function is a kernel, and not a device function.
bool is_entry(const llvm::Function& function);

std::string in_words(const llvm::Type& type);  // as LLVM prints it: "[4 x i8]"

// Returns the extents of a CTA that nvvm.reqntid, or else nvvm.maxntid, lists; empty without both.
std::vector<uint32_t> thread_extents(const llvm::Function& function);
const char* thread_attribute(const llvm::Function& function);  // the name of the attribute that is used

// Returns the extents of a cluster that nvvm.cluster_dim lists; empty without that attribute.
std::vector<uint32_t> cluster_extents(const llvm::Function& function);

uint32_t product(const std::vector<uint32_t>& numbers);

// Variables in shared memory that a kernel's own code, or a device function that it calls, may use.
struct SharedUse {
  uint64_t static_bytes = 0;
  std::vector<const llvm::GlobalVariable*> dynamic;  // declarations, whose size the launch chooses
};
SharedUse shared_use(const llvm::Function& kernel, const llvm::DataLayout& layout);

// Records the properties of a kernel that LLVM's types and attributes do not express, so that they stay with
// the module: as to_json() text in the function's metadata !ptxbuilder.signature.
void leave_signature(llvm::Function& kernel, const Signature& signature);

// Returns a kernel's signature, from its function and the recorded properties, or why it is not known. The
// caller fills in target, version and ptxas's results. `layout` is the data layout of code generation.
ModuleKernel describe_kernel(const llvm::Function& kernel, const llvm::DataLayout& layout);

}  // namespace ptxbuilder

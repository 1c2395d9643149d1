// Reads the launch properties of an llvm::Function, namely the attributes that any front end can set, and the
// properties that a Kernel records in the function's metadata.
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

// Returns whether the function is a kernel rather than a device function.
bool is_entry(const llvm::Function& function);

std::string in_words(const llvm::Type& type);  // returns the type as LLVM prints it, for example "[4 x i8]"

// Returns the extents of a CTA from nvvm.reqntid or else nvvm.maxntid; empty if the function has neither
// attribute.
std::vector<uint32_t> thread_extents(const llvm::Function& function);
const char* thread_attribute(const llvm::Function& function);  // returns the name of the attribute that
                                                               // thread_extents() reads

// Returns the extents of a cluster from nvvm.cluster_dim; empty if the function does not have that attribute.
std::vector<uint32_t> cluster_extents(const llvm::Function& function);

uint32_t product(const std::vector<uint32_t>& numbers);

// The variables in shared memory that a kernel, or a device function that it may call, uses.
struct SharedUse {
  uint64_t static_bytes = 0;
  std::vector<const llvm::GlobalVariable*> dynamic;  // declarations without a size, which the launch sets
};
SharedUse shared_use(const llvm::Function& kernel, const llvm::DataLayout& layout);

// Records the properties of a kernel that LLVM's types and attributes cannot express. They are stored as
// to_json() text in the function's metadata !ptxbuilder.signature, so that they are saved with the module.
void leave_signature(llvm::Function& kernel, const Signature& signature);

// Derives a kernel's signature from its function and the recorded properties. Returns the signature, or the
// reason why it is not known. The caller fills in the target, the version and the numbers that ptxas reports.
// `layout` is the data layout of code generation.
ModuleKernel describe_kernel(const llvm::Function& kernel, const llvm::DataLayout& layout);

}  // namespace ptxbuilder

// Reads what an llvm::Function says of its launch, whoever wrote it, and what a Kernel on it leaves there.
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

// A kernel, and not a device function.
bool is_entry(const llvm::Function& function);

std::string in_words(const llvm::Type& type);  // as LLVM prints it: "[4 x i8]"

// The extents of a CTA, of nvvm.reqntid or else nvvm.maxntid, as many as there are; empty without both.
std::vector<uint32_t> thread_extents(const llvm::Function& function);
const char* thread_attribute(const llvm::Function& function);  // which of both it is

// The extents of a cluster, as many as nvvm.cluster_dim has; empty without it.
std::vector<uint32_t> cluster_extents(const llvm::Function& function);

uint32_t product(const std::vector<uint32_t>& numbers);

// Variables in shared memory that a kernel may use: its own code does, or a device function's.
struct SharedUse {
  uint64_t static_bytes = 0;
  std::vector<const llvm::GlobalVariable*> dynamic;  // declarations, whose size the launch chooses
};
SharedUse shared_use(const llvm::Function& kernel, const llvm::DataLayout& layout);

// Leaves what LLVM's types and attributes do not say of a kernel, so that it stays with the module: as text
// of to_json(), in the function's metadata !ptxbuilder.signature.
void leave_signature(llvm::Function& kernel, const Signature& signature);

// A kernel's signature, from its function and what was left there, or why it is not known. Target, version
// and what ptxas says are the caller's to fill in. `layout` is that of code generation.
ModuleKernel describe_kernel(const llvm::Function& kernel, const llvm::DataLayout& layout);

}  // namespace ptxbuilder

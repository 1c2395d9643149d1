// Emits instruction rows into any LLVM module, for compilers that have their own llvm::IRBuilder. Like all
// installed headers, this header only forward-declares LLVM classes and does not include LLVM headers.
#pragma once

#include "ptxbuilder/compile/codegen.h"
#include "ptxbuilder/ir/builder.h"

namespace llvm {
class IRBuilderBase;
class Module;
}  // namespace llvm

namespace ptxbuilder {

// The argument for an operand that an instruction reads: a value, a list of values, named registers, or a
// number.
struct LlvmArgument : Argument {
  LlvmArgument(llvm::Value* value) : Argument(Value(value)) {}  // NOLINT: implicit
  LlvmArgument(const std::vector<llvm::Value*>& list)           // NOLINT
      : Argument(std::vector<Value>(list.begin(), list.end())) {}
  LlvmArgument(Registers registers) : Argument(std::move(registers)) {}         // NOLINT
  LlvmArgument(detail::HostInteger auto number) : Argument(int64_t{number}) {}  // NOLINT
};

// Emits one instruction at the IRBuilder's insertion point, and returns its results in the row's order, with
// lists flattened. The row is from isa/rows.h or is defined by the caller. If there is a `guard`, an i1, the
// instruction runs only in threads whose guard is true. If the instruction writes an operand without reading
// it, the row cannot have a guard.
//
// Values have the LLVM type of the operand's class: i1 for pred; i16, i32 or i64 for an integer; half,
// bfloat, float or double for a floating-point number; ptr addrspace(3) for smem, addrspace(7) for cluster,
// addrspace(1) for gmem, addrspace(4) for constant, addrspace(5) for local, addrspace(6) for tmem, ptr for
// generic and tmap, and i128 for b128. b16, b32 and b64 accept any of these types that has the same width. In
// PTX, shared addresses have 32 bits, even if they have another width in the module's data layout. An integer
// constant is printed as a number. An immediate must be a host integer or an integer constant.
//
// The module flag "ptxbuilder.ptx" holds the highest .version that the rows of the module need, and
// "ptxbuilder.targets" holds the sets of targets that support the rows, such as "sm_90a" or
// "sm_100f+sm_110f". When modules are linked, the result has the higher version and all sets.
//
// In the following cases, emit() emits nothing and throws an Error that names the row, the operand and a
// remedy:
// - a wrong number or type of operands, or a number out of bounds
// - a value of another LLVMContext or function
// - a guard for an instruction whose result would then be undefined
// - an IRBuilder without an insertion point, or with an insertion point after a terminator
// - named registers that no `.reg` asm statement of the function declares, or that are declared with another
//   type
// - tcgen05 instructions of both .cta_group in one function
// - a row that the function's "target-cpu" does not support
//
// If a function does not have the attribute "target-cpu", generate_ptx() throws an Error for a row that the
// module's target does not support. That Error names the row, the function and the line of the IRBuilder's
// debug location.
std::vector<llvm::Value*> emit(llvm::IRBuilderBase& ir, const isa::Row& row,
                               const std::vector<LlvmArgument>& arguments, llvm::Value* guard = nullptr,
                               Where where = Where::here());

// Returns the PTX of a module, and leaves the module unchanged. The module's triple must be empty or a triple
// of nvptx64. The data layout must be empty or agree, for the types in use, with the layout of NVPTX. The
// NVPTX layout of older LLVM versions, where shared pointers have 32 bits, is accepted too. Debug information
// is reduced to lines. The target and .version are at least as high as rows and inline asm require. The
// libdevice functions (__nv_expf, ...) that the module declares are linked from the CUDA toolkit's
// libdevice.10.bc. This function does not change LLVM's process-wide options.
//
// Throws an Error with LLVM's diagnostics for a module with another triple or layout, a module that LLVM's
// verifier rejects, IR that NVPTX cannot select or would drop, rows or inline asm that need a higher target,
// and a libdevice function that is not found.
std::string generate_ptx(const llvm::Module& module, const ModuleOptions& options = {},
                         Where where = Where::here());

// Returns the kernels of a module in order, each with its signature, or with the reason why the signature is
// not known. The parts of a signature are read from the following sources and never guessed:
// - threads: nvvm.reqntid, or else nvvm.maxntid, along x only
// - cluster: nvvm.cluster_dim; otherwise there is no cluster
// - parameters: i1 to i64 (as u8 to u64), half, bfloat, float, double, and pointers to global memory, which
//   count as pointers to bytes (u8). Parameters are named like the arguments, or arg0, arg1, ...
// - shared memory: the module's variables that kernel or device functions use. If one of them is a
//   declaration, the launch chooses its size, and the signature is not known.
// - properties that were set on a Kernel (tile/kernel.h), such as tensor maps and dynamic shared memory:
//   finish() writes them to the function's metadata !ptxbuilder.signature, which survives writing and reading
//   the module.
//
// Unless the options specify a .version, the signature has the lowest .version that the target and the rows
// allow. Throws Error for rows that need a higher target or .version than the options specify.
std::vector<ModuleKernel> signatures_of(const llvm::Module& module, const ModuleOptions& options = {},
                                        Where where = Where::here());

}  // namespace ptxbuilder

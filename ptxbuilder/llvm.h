// Emits rows into any LLVM module, for compilers that have an llvm::IRBuilder of their own. Like all
// installed headers, this one only forward-declares LLVM's classes, and includes none of LLVM's headers.
#pragma once

#include "ptxbuilder/compile/codegen.h"
#include "ptxbuilder/ir/builder.h"

namespace llvm {
class IRBuilderBase;
class Module;
}  // namespace llvm

namespace ptxbuilder {

// An argument fills a hole that the instruction reads: a value, the values of a list, named registers instead
// of values, or a number.
struct LlvmArgument : Argument {
  LlvmArgument(llvm::Value* value) : Argument(Value(value)) {}  // NOLINT: an implicit conversion
  LlvmArgument(const std::vector<llvm::Value*>& list)           // NOLINT
      : Argument(std::vector<Value>(list.begin(), list.end())) {}
  LlvmArgument(Registers registers) : Argument(std::move(registers)) {}         // NOLINT
  LlvmArgument(detail::HostInteger auto number) : Argument(int64_t{number}) {}  // NOLINT
};

// Emits one instruction at the IRBuilder's insertion point, and returns its results in the row's order,
// lists flattened. The row is one of those in isa/rows.h, or the caller's own. With `guard`, an i1, the
// instruction runs only where the guard is true. A row with an operand that is only written takes no guard.
//
// Values have the LLVM type of the operand's class: i1 for pred; i16, i32 or i64 for an integer; half,
// bfloat, float or double for a floating-point number; ptr addrspace(3) for smem, addrspace(7) for cluster,
// addrspace(1) for gmem, addrspace(4) for constant, addrspace(5) for local, addrspace(6) for tmem, ptr for
// generic and tmap, and i128 for b128. b16, b32 and b64 take any of these types of their width. PTX gets
// shared addresses in 32 bits, whatever their width in the module's data layout. An integer constant is
// printed as a number, and an immediate is a host integer or such a constant.
//
// The module flag "ptxbuilder.ptx" holds the highest .version that the rows of the module need, and
// "ptxbuilder.targets" the sets of targets that they run on, as "sm_90a" or "sm_100f+sm_110f". When modules
// are linked, the higher version and all sets are kept.
//
// Throws Error that names the row, the operand and what to do, and emits nothing, in these cases: a wrong
// number or type of operands, a number out of bounds, a value of another LLVMContext or function, a guard
// where a result would be undefined, an IRBuilder that has no insertion point or is after a terminator, named
// registers that no `.reg` asm statement of the function declares or that it declares of another type,
// tcgen05 instructions of both .cta_group in one function, and a row that does not run on the function's
// "target-cpu". Without that attribute, it is generate_ptx that refuses a row which the module's target
// lacks: it names the row, the function and the line that the IRBuilder's debug location has.
std::vector<llvm::Value*> emit(llvm::IRBuilderBase& ir, const isa::Row& row,
                               const std::vector<LlvmArgument>& arguments, llvm::Value* guard = nullptr,
                               Where where = Where::here());

// Returns the PTX of a module, and leaves the module unchanged. The module's triple is empty or nvptx64's;
// its data layout is empty, or says what NVPTX's own says of the types in use, or what that with 32-bit
// shared pointers says, as those of older LLVMs do. Debug information of any kind becomes lines. Target and
// .version are no less than rows and inline asm need. The libdevice functions
// (__nv_expf, ...) that it declares are linked from the CUDA toolkit's libdevice.10.bc. LLVM's options stay
// as the process has set them; this function sets none.
//
// Throws Error with LLVM's diagnostics: for a module with another triple or layout, one
// that LLVM's verifier refuses, IR that NVPTX cannot select or would drop, rows and inline asm that need a
// higher target, and a libdevice function that is not found.
std::string generate_ptx(const llvm::Module& module, const ModuleOptions& options = {},
                         Where where = Where::here());

// The kernels of a module in their order, each with what a launch must know of it, or why that is not known.
// Nothing is guessed:
// - threads: nvvm.reqntid, else nvvm.maxntid, along x alone. Cluster: nvvm.cluster_dim, none without.
// - parameters: i1 to i64, which are u8 to u64, half, bfloat, float, double, and pointers, to global memory
//   in bytes (u8), by the names of the arguments or arg0, arg1, ...
// - shared memory: the module's variables that kernel or device functions use. If one of them is a
//   declaration, the launch chooses its size, and the signature is not known.
// - what a Kernel on the function knew (tile/kernel.h), such as tensor maps and dynamic shared memory, is in
//   the function's metadata !ptxbuilder.signature since finish(), and stays there when a module is written
//   and read.
// The least .version of target and rows is the signature's, unless the options say it. Throws Error for rows
// that need a higher target or .version than the options name.
std::vector<ModuleKernel> signatures_of(const llvm::Module& module, const ModuleOptions& options = {},
                                        Where where = Where::here());

}  // namespace ptxbuilder

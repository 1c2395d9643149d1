// Rows in anybody's LLVM module: for a compiler that has an llvm::IRBuilder of its own. LLVM's types are
// named here alone, of all installed headers, and only as pointers.
#pragma once

#include "ptxbuilder/compile/codegen.h"
#include "ptxbuilder/ir/builder.h"

namespace llvm {
class IRBuilderBase;
class Module;
}  // namespace llvm

namespace ptxbuilder {

// What stands in a hole that reads: a value, the values of a list, named registers in their place, or a
// number.
struct LlvmArgument : Argument {
  LlvmArgument(llvm::Value* value) : Argument(Value(value)) {}  // NOLINT: each of them is an argument
  LlvmArgument(const std::vector<llvm::Value*>& list)           // NOLINT
      : Argument(std::vector<Value>(list.begin(), list.end())) {}
  LlvmArgument(Registers registers) : Argument(std::move(registers)) {}         // NOLINT
  LlvmArgument(detail::HostInteger auto number) : Argument(int64_t{number}) {}  // NOLINT
};

// Emits one instruction where the IRBuilder stands, and yields its results in the row's order, lists
// flattened. The row is one of isa/rows.h, or the caller's own. `guard`, an i1, lets the instruction run
// where it is true; a row with results takes none.
//
// Values have the LLVM type of the operand's class: i1 for pred; i16, i32, i64 and the floating types by
// width, of which b16, b32 and b64 take any of that width; ptr addrspace(3) for smem, addrspace(7) for
// cluster, addrspace(1) for gmem, and ptr for generic and tmap. Shared addresses are given to PTX in 32 bits,
// whatever width the module's data layout has for them. An integer constant is printed as a number.
//
// The module remembers the highest .version and target that its rows need, in the module flags
// "ptxbuilder.ptx" and "ptxbuilder.sm", which linking keeps.
//
// Throws Error that names row, operand and what to do, and then has emitted nothing: for another number or
// type of operands, a number out of bounds, a value of another LLVMContext or function, a guard where a
// result would be undefined, an IRBuilder that stands nowhere or behind a terminator, and a row above the
// function's "target-cpu", where it has that attribute.
std::vector<llvm::Value*> emit(llvm::IRBuilderBase& ir, const isa::Row& row,
                               const std::vector<LlvmArgument>& arguments, llvm::Value* guard = nullptr,
                               Where where = Where::here());

// The PTX of a module, which stays as it is. Its triple is empty or nvptx64's; its data layout is empty,
// NVPTX's own, or that with 32-bit shared pointers. Functions of libdevice (__nv_expf, ...) that it declares
// are linked from the CUDA toolkit's. LLVM's options are as the process has them; none is set.
//
// Throws Error with LLVM's diagnostics: for a module that LLVM's verifier refuses, IR that NVPTX cannot
// select, rows above the target, another triple or layout, and a function of libdevice where there is none.
std::string generate_ptx(const llvm::Module& module, const ModuleOptions& options = {},
                         Where where = Where::here());

}  // namespace ptxbuilder

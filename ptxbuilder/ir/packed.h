// Registers of 32 bits that hold two f16 or bf16 or four bytes, lower elements in lower bits, and the
// accesses to memory that are narrower than a register.
#pragma once

#include "ptxbuilder/ir/value.h"

namespace ptxbuilder::detail {

enum class Unary : uint8_t { neg, abs, sqrt };

// Operations on f32 and s32; sqrt of f32 alone, rounded to nearest even.
llvm::Value* unary(Unary op, Class cls, llvm::Value* a);

// Both halves at once: `type` is f16 or bf16. neg and abs of the unary operations.
llvm::Value* packed_arithmetic(Arithmetic op, DType type, llvm::Value* a, llvm::Value* b);
llvm::Value* packed_unary(Unary op, DType type, llvm::Value* a);
llvm::Value* packed_fma(DType type, llvm::Value* a, llvm::Value* b, llvm::Value* c);

// One half as an f16 or bf16, 0 the lower, and a register of two.
llvm::Value* unpack(DType type, llvm::Value* word, int half);
llvm::Value* pack(DType type, llvm::Value* low, llvm::Value* high);

// 1 or 2 bytes in the low bits of a 32-bit register, the others 0; stores take the low bits.
llvm::Value* load_narrow(llvm::Value* address, int bytes);
void store_narrow(llvm::Value* address, int bytes, llvm::Value* word);

}  // namespace ptxbuilder::detail

// Declares operations on 32-bit registers that hold two f16, two bf16 or four bytes, with lower elements in
// lower bits. Also declares memory accesses that are narrower than a register.
#pragma once

#include "ptxbuilder/ir/value.h"

namespace ptxbuilder::detail {

enum class Unary : uint8_t { neg, abs, sqrt };

// Operates on f32 and s32. sqrt accepts only f32, and rounds to nearest even.
llvm::Value* unary(Unary op, Class cls, llvm::Value* a);

// Compute both halves at once; `type` is f16 or bf16. packed_unary() supports only neg and abs.
llvm::Value* packed_arithmetic(Arithmetic op, DType type, llvm::Value* a, llvm::Value* b);
llvm::Value* packed_unary(Unary op, DType type, llvm::Value* a);
llvm::Value* packed_fma(DType type, llvm::Value* a, llvm::Value* b, llvm::Value* c);

// Extract one half as an f16 or bf16 (0 is the lower half), and combine two halves into a register.
llvm::Value* unpack(DType type, llvm::Value* word, int half);
llvm::Value* pack(DType type, llvm::Value* low, llvm::Value* high);

// Load and store 1 or 2 bytes. A load puts the bytes into the low bits of a 32-bit register and clears the
// other bits. A store writes the low bits.
llvm::Value* load_narrow(llvm::Value* address, int bytes);
void store_narrow(llvm::Value* address, int bytes, llvm::Value* word);

}  // namespace ptxbuilder::detail

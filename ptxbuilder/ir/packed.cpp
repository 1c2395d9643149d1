#include "ptxbuilder/ir/packed.h"

#include <llvm/IR/Intrinsics.h>

#include "ptxbuilder/ir/state.h"

namespace ptxbuilder::detail {
namespace {

Builder::State& ours(std::initializer_list<llvm::Value*> values) {
  Builder::State& s = Builder::current().state();
  s.function_or_create();
  for (llvm::Value* v : values) check_is_ours(s, v);
  return s;
}

// Returns a register as a vector of two elements. LLVM translates instructions on vectors of two 16-bit
// elements to packed PTX instructions.
llvm::Value* as_pair(Builder::State& s, DType type, llvm::Value* word) {
  return s.ir.CreateBitCast(word, llvm::FixedVectorType::get(type_of(type, s.context), 2));
}

llvm::Value* as_word(Builder::State& s, llvm::Value* pair) {
  return s.ir.CreateBitCast(pair, s.ir.getInt32Ty());
}

llvm::Value* float_unary(Builder::State& s, Unary op, llvm::Value* a) {
  if (op == Unary::neg) return negate(Class::f32, a);
  return s.ir.CreateUnaryIntrinsic(op == Unary::abs ? llvm::Intrinsic::fabs : llvm::Intrinsic::sqrt, a);
}

}  // namespace

llvm::Value* unary(Unary op, Class cls, llvm::Value* a) {
  Builder::State& s = ours({a});
  if (cls == Class::f32) return float_unary(s, op, a);
  if (op == Unary::neg) return negate(cls, a);
  return s.ir.CreateBinaryIntrinsic(llvm::Intrinsic::abs, a, s.ir.getFalse());
}

llvm::Value* packed_arithmetic(Arithmetic op, DType type, llvm::Value* a, llvm::Value* b) {
  Builder::State& s = ours({a, b});
  return as_word(s, arithmetic(op, Class::f16, as_pair(s, type, a), as_pair(s, type, b)));
}

llvm::Value* packed_unary(Unary op, DType type, llvm::Value* a) {
  Builder::State& s = ours({a});
  return as_word(s, float_unary(s, op, as_pair(s, type, a)));
}

llvm::Value* packed_fma(DType type, llvm::Value* a, llvm::Value* b, llvm::Value* c) {
  Builder::State& s = ours({a, b, c});
  return as_word(s, fma(as_pair(s, type, a), as_pair(s, type, b), as_pair(s, type, c)));
}

llvm::Value* unpack(DType type, llvm::Value* word, int half) {
  Builder::State& s = ours({word});
  return s.ir.CreateExtractElement(as_pair(s, type, word), static_cast<uint64_t>(half));
}

llvm::Value* pack(DType type, llvm::Value* low, llvm::Value* high) {
  Builder::State& s = ours({low, high});
  llvm::Value* pair = llvm::PoisonValue::get(llvm::FixedVectorType::get(type_of(type, s.context), 2));
  pair = s.ir.CreateInsertElement(pair, low, uint64_t{0});
  return as_word(s, s.ir.CreateInsertElement(pair, high, uint64_t{1}));
}

llvm::Value* load_narrow(llvm::Value* address, int bytes) {
  Builder::State& s = ours({address});
  llvm::Type* type = s.ir.getIntNTy(static_cast<unsigned>(8 * bytes));
  llvm::Value* loaded = s.ir.CreateAlignedLoad(type, address, llvm::Align(static_cast<uint64_t>(bytes)));
  return s.ir.CreateZExt(loaded, s.ir.getInt32Ty());
}

void store_narrow(llvm::Value* address, int bytes, llvm::Value* word) {
  Builder::State& s = ours({address, word});
  llvm::Value* low = s.ir.CreateTrunc(word, s.ir.getIntNTy(static_cast<unsigned>(8 * bytes)));
  s.ir.CreateAlignedStore(low, address, llvm::Align(static_cast<uint64_t>(bytes)));
}

}  // namespace ptxbuilder::detail

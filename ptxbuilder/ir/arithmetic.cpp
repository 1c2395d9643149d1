// Implements the operators of device values with LLVM instructions.
#include <fmt/format.h>
#include <llvm/ADT/APSInt.h>
#include <llvm/IR/Intrinsics.h>

#include "ptxbuilder/ir/state.h"

namespace ptxbuilder::detail {
namespace {

bool is_float(Class cls) {
  return cls == Class::f16 || cls == Class::bf16 || cls == Class::f32 || cls == Class::f64;
}

bool is_signed(Class cls) { return cls == Class::s16 || cls == Class::s32 || cls == Class::s64; }

Builder::State& ours(std::initializer_list<llvm::Value*> values) {
  Builder::State& s = Builder::current({}).state();
  s.function_or_create();
  for (llvm::Value* v : values) check_is_ours(s, v);
  return s;
}

llvm::Value* float_arithmetic(Builder::State& s, Arithmetic op, llvm::Value* a, llvm::Value* b) {
  switch (op) {
    case Arithmetic::add:
      return s.ir.CreateFAdd(a, b);
    case Arithmetic::sub:
      return s.ir.CreateFSub(a, b);
    case Arithmetic::mul:
      return s.ir.CreateFMul(a, b);
    case Arithmetic::div:
      return s.ir.CreateFDiv(a, b);
    case Arithmetic::min:
      return s.ir.CreateMinNum(a, b);
    case Arithmetic::max:
      return s.ir.CreateMaxNum(a, b);
    default:
      throw Error(s.nearest_line(), "this operator is for integers");
  }
}

// Throws Error for a known operand that LLVM would turn into poison, although PTX defines the result or
// traps.
void check_constant(Builder::State& s, Arithmetic op, Class cls, llvm::Value* a, llvm::Value* b) {
  auto* constant = llvm::dyn_cast<llvm::ConstantInt>(b);
  if (!constant) return;
  auto made = s.constants.find(constant);  // the constant's line; operators have none
  Where where = made == s.constants.end() ? s.nearest_line() : made->second;
  bool divides = op == Arithmetic::div || op == Arithmetic::rem;
  if (divides && constant->isZero()) throw Error(where, "division by the constant 0");
  if (auto* dividend = llvm::dyn_cast<llvm::ConstantInt>(a);
      divides && dividend && is_signed(cls) && dividend->isMinValue(true) && constant->isMinusOne())
    throw Error(where, fmt::format("the quotient of {} and -1 does not fit in {}", dividend->getSExtValue(),
                                   isa::name(cls)));
  bool shifts = op == Arithmetic::shl || op == Arithmetic::shr;
  if (shifts && constant->getValue().uge(constant->getBitWidth()))
    throw Error(where, fmt::format("the shift by {} must be by less than the {} bits of the value",
                                   constant->getZExtValue(), constant->getBitWidth()));
}

// Rounds toward zero and clamps as the device does (PTX ISA, cvt); LLVM turns values that are out of range
// into poison.
llvm::Value* clamped(const llvm::ConstantFP& value, llvm::IntegerType* type, bool is_signed) {
  llvm::APSInt result(type->getBitWidth(), !is_signed);
  bool is_exact = false;
  value.getValueAPF().convertToInteger(result, llvm::APFloat::rmTowardZero, &is_exact);
  return llvm::ConstantInt::get(type, result);
}

}  // namespace

llvm::Value* arithmetic(Arithmetic op, Class cls, llvm::Value* a, llvm::Value* b) {
  Builder::State& s = ours({a, b});
  if (is_float(cls)) return float_arithmetic(s, op, a, b);
  check_constant(s, op, cls, a, b);
  bool sign = is_signed(cls);
  switch (op) {
    case Arithmetic::add:
      return s.ir.CreateAdd(a, b);
    case Arithmetic::sub:
      return s.ir.CreateSub(a, b);
    case Arithmetic::mul:
      return s.ir.CreateMul(a, b);
    case Arithmetic::div:
      return sign ? s.ir.CreateSDiv(a, b) : s.ir.CreateUDiv(a, b);
    case Arithmetic::rem:
      return sign ? s.ir.CreateSRem(a, b) : s.ir.CreateURem(a, b);
    case Arithmetic::bit_and:
      return s.ir.CreateAnd(a, b);
    case Arithmetic::bit_or:
      return s.ir.CreateOr(a, b);
    case Arithmetic::bit_xor:
      return s.ir.CreateXor(a, b);
    case Arithmetic::shl:
      return s.ir.CreateShl(a, b);
    case Arithmetic::shr:
      return sign ? s.ir.CreateAShr(a, b) : s.ir.CreateLShr(a, b);
    case Arithmetic::min:
      return s.ir.CreateBinaryIntrinsic(sign ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, a, b);
    case Arithmetic::max:
      return s.ir.CreateBinaryIntrinsic(sign ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, a, b);
  }
  return nullptr;
}

llvm::Value* negate(Class cls, llvm::Value* a) {
  Builder::State& s = ours({a});
  return is_float(cls) ? s.ir.CreateFNeg(a) : s.ir.CreateNeg(a);
}

llvm::Value* complement(llvm::Value* a) { return ours({a}).ir.CreateNot(a); }

llvm::Value* comparison(Comparison op, Class cls, llvm::Value* a, llvm::Value* b) {
  using P = llvm::CmpInst;
  Builder::State& s = ours({a, b});
  if (is_float(cls)) {
    constexpr P::Predicate table[] = {P::FCMP_OEQ, P::FCMP_UNE, P::FCMP_OLT,
                                      P::FCMP_OLE, P::FCMP_OGT, P::FCMP_OGE};
    return s.ir.CreateFCmp(table[static_cast<int>(op)], a, b);
  }
  constexpr P::Predicate table[2][6] = {
      {P::ICMP_EQ, P::ICMP_NE, P::ICMP_ULT, P::ICMP_ULE, P::ICMP_UGT, P::ICMP_UGE},
      {P::ICMP_EQ, P::ICMP_NE, P::ICMP_SLT, P::ICMP_SLE, P::ICMP_SGT, P::ICMP_SGE},
  };
  return s.ir.CreateICmp(table[is_signed(cls)][static_cast<int>(op)], a, b);
}

llvm::Value* convert(Class from, Class to, llvm::Value* a) {
  Builder::State& s = ours({a});
  llvm::Type* type = type_of(to, s.context);
  if (type->isPointerTy())
    return a->getType()->isPointerTy() ? s.ir.CreateAddrSpaceCast(a, type) : s.ir.CreateIntToPtr(a, type);
  if (a->getType()->isPointerTy()) return s.ir.CreatePtrToInt(a, type);
  if (is_float(from) && is_float(to)) return s.ir.CreateFPCast(a, type);
  if (auto* known = llvm::dyn_cast<llvm::ConstantFP>(a); known && is_float(from))
    return clamped(*known, llvm::cast<llvm::IntegerType>(type), is_signed(to));
  if (is_float(from)) return is_signed(to) ? s.ir.CreateFPToSI(a, type) : s.ir.CreateFPToUI(a, type);
  if (is_float(to)) return is_signed(from) ? s.ir.CreateSIToFP(a, type) : s.ir.CreateUIToFP(a, type);
  return s.ir.CreateIntCast(a, type, is_signed(from));
}

llvm::Value* bit_cast(Class to, llvm::Value* a) {
  Builder::State& s = ours({a});
  llvm::Type* type = type_of(to, s.context);
  if (s.module->getDataLayout().getTypeSizeInBits(type) !=
      s.module->getDataLayout().getTypeSizeInBits(a->getType()))
    throw Error(fmt::format("bit_cast: {} and {} differ in width", describe(a->getType()), describe(type)));
  return s.ir.CreateBitCast(a, type);
}

llvm::Value* select(llvm::Value* condition, llvm::Value* a, llvm::Value* b) {
  return ours({condition, a, b}).ir.CreateSelect(condition, a, b);
}

llvm::Value* fma(llvm::Value* a, llvm::Value* b, llvm::Value* c) {
  Builder::State& s = ours({a, b, c});
  return s.ir.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
}

llvm::Value* integer_constant(Class cls, uint64_t bits, Where where) {
  CallersLine line(where);
  Builder::State& s = ours({});
  auto* type = llvm::cast<llvm::IntegerType>(type_of(cls, s.context));
  llvm::Value* value = llvm::ConstantInt::get(type, llvm::APInt(64, bits).trunc(type->getBitWidth()));
  s.constants[value] = where;
  const bool is_authors = line.opens() && !std::string_view(where.file).starts_with("ptxbuilder/");
  if (is_authors) s.constant_line = where;
  return value;
}

llvm::Value* float_constant(Class cls, double value, Where where) {
  CallersLine line(where);
  return llvm::ConstantFP::get(type_of(cls, ours({}).context), value);
}

llvm::Value* address_add(llvm::Value* address, llvm::Value* bytes) {
  return ours({address, bytes}).ir.CreatePtrAdd(address, bytes);
}

llvm::Value* element_address(llvm::Value* base, DType element, llvm::Value* index) {
  Builder::State& s = ours({base, index});
  // Indices are unsigned; a GEP would sign-extend them to the pointer's width.
  llvm::Type* width = s.module->getDataLayout().getIndexType(base->getType());
  return s.ir.CreateGEP(type_of(element, s.context), base, s.ir.CreateZExtOrTrunc(index, width));
}

llvm::Value* of_class(Class cls, llvm::Value* handle, Where where) {
  CallersLine line(where);
  if (!handle) throw Error(fmt::format("{}: the llvm::Value is a null pointer", isa::name(cls)));
  if (handle->getType() != type_of(cls, handle->getContext()))
    throw Error(
        fmt::format("{}: the type of the llvm::Value is {}", isa::name(cls), describe(handle->getType())));
  return handle;
}

void constant_out_of_range(Class cls, const std::string& value, Where where) {
  throw Error(where, fmt::format("the constant {} does not fit in {}", value, isa::name(cls)));
}

}  // namespace ptxbuilder::detail

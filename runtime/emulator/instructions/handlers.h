// Creates handlers from functions that compute the result of one lane, for every type that they support.
#pragma once

#include <cstring>
#include <type_traits>

#include "runtime/emulator/decode/decoder.h"
#include "runtime/emulator/machine/machine.h"
#include "runtime/emulator/machine/numeric.h"

namespace ptxbuilder::runtime::emulator {

// The handler of instructions for which the emulator does nothing: hints, and instructions that request an
// order that the emulator always ensures.
inline void execute_nothing(Warp&, Lanes) {}

// Operands of d = Op(a, ...), which is computed lane by lane.
struct Unary {
  Register d, a;
};
struct Binary {
  Register d, a, b;
};
struct Ternary {
  Register d, a, b, c;
};

template <class D, class A, class Op>
void unary(Warp& w, const Unary& x, Lanes lanes) {
  each_lane(lanes, Op{}, w.at<D>(x.d), w.at<A>(x.a));
}
template <class D, class A, class B, class Op>
void binary(Warp& w, const Binary& x, Lanes lanes) {
  each_lane(lanes, Op{}, w.at<D>(x.d), w.at<A>(x.a), w.at<B>(x.b));
}
template <class D, class A, class B, class C, class Op>
void ternary(Warp& w, const Ternary& x, Lanes lanes) {
  each_lane(lanes, Op{}, w.at<D>(x.d), w.at<A>(x.a), w.at<B>(x.b), w.at<C>(x.c));
}

// wait_group n: waits until at most n groups are unfinished.
struct WaitGroup {
  int64_t n;
};
inline WaitGroup take_wait_group(Decode& d) { return {d.immediate(0)}; }

// Returns the scope of an access that orders others. If no word specifies it, the scope is the GPU, or the
// system for a volatile access (PTX ISA, ld.volatile).
inline Scope take_scope(const Decode& d) {
  return d.has("cta")                                         ? Scope::cta
         : d.has("cluster")                                   ? Scope::cluster
         : d.has("sys") || d.has("volatile") || d.has("mmio") ? Scope::sys
                                                              : Scope::gpu;
}

// Returns the rounding mode. The mode is round-to-nearest-even unless a word specifies another. Words such as
// .rni round to integers.
inline Rounding rounding_of(const Decode& d) {
  return !d.one_of({"rz", "rzi"}).empty()   ? Rounding::rz
         : !d.one_of({"rm", "rmi"}).empty() ? Rounding::rm
         : !d.one_of({"rp", "rpi"}).empty() ? Rounding::rp
         : d.has("rna")                     ? Rounding::rna
                                            : Rounding::rn;
}

// Calls f with a value of the C++ integer type of `type`. Refuses all other types.
template <class F>
void with_integer(Decode& d, Type type, F f) {
  switch (type) {
    case Type::u16:
    case Type::b16:
      return f(uint16_t{});
    case Type::s16:
      return f(int16_t{});
    case Type::u32:
    case Type::b32:
      return f(uint32_t{});
    case Type::s32:
      return f(int32_t{});
    case Type::u64:
    case Type::b64:
      return f(uint64_t{});
    case Type::s64:
      return f(int64_t{});
    default:
      d.refuse("it does not take this type");
  }
}

// Decode the operands of an instruction. All operands must have the type `type`.
inline Unary unary_operands(Decode& d, Type type) { return {d.destination(0, type), d.source(1, type)}; }
inline Binary binary_operands(Decode& d, Type type) {
  return {d.destination(0, type), d.source(1, type), d.source(2, type)};
}
inline Ternary ternary_operands(Decode& d, Type type) {
  return {d.destination(0, type), d.source(1, type), d.source(2, type), d.source(3, type)};
}

// Applies Op to both 16-bit halves of a register.
template <template <class> class Op, class T>
struct Halves {
  uint32_t operator()(uint32_t a, uint32_t b) const {
    Op<T> op;
    return static_cast<uint16_t>(op(static_cast<T>(a), static_cast<T>(b))) |
           static_cast<uint32_t>(static_cast<uint16_t>(op(static_cast<T>(a >> 16), static_cast<T>(b >> 16))))
               << 16;
  }
};

template <template <class> class Op>
void decode_binary(Decode& d, Type type) {
  const Binary x = binary_operands(d, type);
  if (type == Type::u16x2) return d.run<binary<uint32_t, uint32_t, uint32_t, Halves<Op, uint16_t>>>(x);
  if (type == Type::s16x2) return d.run<binary<uint32_t, uint32_t, uint32_t, Halves<Op, int16_t>>>(x);
  with_integer(d, type, [&](auto zero) {
    using T = decltype(zero);
    d.run<binary<T, T, T, Op<T>>>(x);
  });
}

template <template <class> class Op>
void decode_unary(Decode& d, Type type) {
  const Unary x = unary_operands(d, type);
  with_integer(d, type, [&](auto zero) {
    using T = decltype(zero);
    d.run<unary<T, T, Op<T>>>(x);
  });
}

template <class T>
using Wrap = std::make_unsigned_t<T>;

}  // namespace ptxbuilder::runtime::emulator

// Handlers made from functions of one lane, for every type they apply to.
#pragma once

#include <cstring>
#include <type_traits>

#include "runtime/emulator/decode/decoder.h"
#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

// Of instructions that the emulator has nothing to do for: hints, and what its own order already grants.
inline void execute_nothing(Warp&, Lanes) {}

// r[0] = Op(r[1], ...), lane by lane.
template <class D, class S, class Op>
void unary(Warp& w, const Instruction& i, Lanes lanes) {
  each_lane(lanes, Op{}, w.at<D>(i.r[0]), w.at<S>(i.r[1]));
}
template <class D, class S, class Op>
void binary(Warp& w, const Instruction& i, Lanes lanes) {
  each_lane(lanes, Op{}, w.at<D>(i.r[0]), w.at<S>(i.r[1]), w.at<S>(i.r[2]));
}
template <class D, class A, class B, class Op>
void mixed(Warp& w, const Instruction& i, Lanes lanes) {
  each_lane(lanes, Op{}, w.at<D>(i.r[0]), w.at<A>(i.r[1]), w.at<B>(i.r[2]));
}
template <class D, class S, class C, class Op>
void ternary(Warp& w, const Instruction& i, Lanes lanes) {
  each_lane(lanes, Op{}, w.at<D>(i.r[0]), w.at<S>(i.r[1]), w.at<S>(i.r[2]), w.at<C>(i.r[3]));
}

// Calls f with a value of the C++ integer type of `type`; refuses others.
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

// Takes the operands of r[0] = op(sources...), all of `type`.
inline void operands(Decode& d, Type type, size_t sources) {
  d.done();
  d.expect(sources + 1, sources + 1);
  d.out.r[0] = d.destination(0, type);
  for (size_t i = 1; i <= sources; ++i) d.out.r[i] = d.source(i, type);
}

// Op on both 16-bit halves of a register.
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
void set_binary(Decode& d, Type type) {
  operands(d, type, 2);
  if (type == Type::u16x2)
    d.out.execute = binary<uint32_t, uint32_t, Halves<Op, uint16_t>>;
  else if (type == Type::s16x2)
    d.out.execute = binary<uint32_t, uint32_t, Halves<Op, int16_t>>;
  else
    with_integer(d, type, [&](auto zero) {
      d.out.execute = binary<decltype(zero), decltype(zero), Op<decltype(zero)>>;
    });
}

template <template <class> class Op>
void set_unary(Decode& d, Type type) {
  operands(d, type, 1);
  with_integer(d, type,
               [&](auto zero) { d.out.execute = unary<decltype(zero), decltype(zero), Op<decltype(zero)>>; });
}

template <class T>
using Wrap = std::make_unsigned_t<T>;

}  // namespace ptxbuilder::runtime::emulator

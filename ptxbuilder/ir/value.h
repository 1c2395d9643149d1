// Defines the typed device values of a kernel. Host ints and floats become constants if a device value is
// expected. There are no other implicit conversions, so code with a wrong width or state space does not
// compile.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/error.h"
#include "ptxbuilder/ir/region.h"
#include "ptxbuilder/isa/row.h"

namespace llvm {
class Function;
class IRBuilderBase;
class Value;
}  // namespace llvm

namespace ptxbuilder {

using isa::Class;

// An immutable value of the kernel under construction on this thread. A Value belongs to the body of a
// branch, loop or role in which the C++ object was made. In that body, host code may assign to the object,
// for example to form a sum in a host loop. In other bodies, the assignment throws Error. Use a Var for a
// variable that changes on the device.
class Value {
 public:
  explicit Value(llvm::Value* handle) : handle_(handle) {}
  // Throws Error if the value's body has ended.
  llvm::Value* handle() const {
    region_.check_readable(handle_);
    return handle_;
  }

 private:
  detail::Region region_;
  llvm::Value* handle_;
};

class u32;

namespace detail {

enum class Arithmetic : uint8_t { add, sub, mul, div, rem, bit_and, bit_or, bit_xor, shl, shr, min, max };
enum class Comparison : uint8_t { eq, ne, lt, le, gt, ge };

llvm::Value* arithmetic(Arithmetic op, Class cls, llvm::Value* a, llvm::Value* b);
llvm::Value* negate(Class cls, llvm::Value* a);
llvm::Value* complement(llvm::Value* a);
llvm::Value* comparison(Comparison op, Class cls, llvm::Value* a, llvm::Value* b);
llvm::Value* convert(Class from, Class to, llvm::Value* a);
llvm::Value* bit_cast(Class to, llvm::Value* a);
llvm::Value* select(llvm::Value* condition, llvm::Value* a, llvm::Value* b);
llvm::Value* fma(llvm::Value* a, llvm::Value* b, llvm::Value* c);
llvm::Value* integer_constant(Class cls, uint64_t bits, Where where);
// Returns the handle. Throws Error unless its LLVM type is the type of the class.
llvm::Value* of_class(Class cls, llvm::Value* handle, Where where);
llvm::Value* float_constant(Class cls, double value, Where where);
llvm::Value* address_add(llvm::Value* address, llvm::Value* bytes);
llvm::Value* element_address(llvm::Value* base, DType element, llvm::Value* index);
[[noreturn]] void constant_out_of_range(Class cls, const std::string& value, Where where);

template <class T>
inline constexpr bool always_false = false;

// The operand type of a cell, which is a Var or an element in memory: value() reads the cell, and assigning
// an Operand writes it.
template <class C>
using OperandOf = typename std::remove_cvref_t<C>::Operand;

// A cell whose device type is not Self.
template <class C, class Self>
concept CellOfAnother = std::derived_from<OperandOf<C>, Value> && !std::same_as<OperandOf<C>, Self>;

}  // namespace detail

// A predicate register. Comparisons return predicates, and if_, while_, select and .when() accept them. `a &&
// b` and `a
// || b` evaluate both sides, like `a & b` and `a | b`, because an overloaded operator cannot skip its right
// side. Use if_ to guard a load, rather than the left side of &&. At most one side may have a side effect.
class pred : public Value {
 public:
  static constexpr Class cls = Class::pred;
  explicit pred(llvm::Value* handle, Where where = Where::here())
      : Value(detail::of_class(cls, handle, where)) {}
  explicit pred(bool value, Where where = Where::here())
      : Value(detail::integer_constant(cls, value, where)) {}

  friend pred operator!(pred a) { return a ^ pred(true); }
  friend pred operator&(pred a, pred b) { return combine(detail::Arithmetic::bit_and, a, b); }
  friend pred operator|(pred a, pred b) { return combine(detail::Arithmetic::bit_or, a, b); }
  friend pred operator^(pred a, pred b) { return combine(detail::Arithmetic::bit_xor, a, b); }
  friend pred operator&&(pred a, pred b) { return a & b; }
  friend pred operator||(pred a, pred b) { return a | b; }

  template <class T = void>
  explicit operator bool() const {
    static_assert(detail::always_false<T>,
                  "the value of a device predicate is not known while the kernel is built: use if_(p, ...), "
                  "while_ or select");
    return false;
  }

 private:
  static pred combine(detail::Arithmetic op, pred a, pred b) {
    return pred(detail::arithmetic(op, cls, a.handle(), b.handle()));
  }
};

namespace detail {

// Defines the operators of a device type as friends, so that argument-dependent lookup finds them. Integer
// arithmetic wraps around.
template <class Self>
struct Operators {
  friend Self operator+(Self a, Self b) { return combine(Arithmetic::add, a, b); }
  friend Self operator-(Self a, Self b) { return combine(Arithmetic::sub, a, b); }
  friend Self operator*(Self a, Self b) { return combine(Arithmetic::mul, a, b); }
  friend Self operator/(Self a, Self b) { return combine(Arithmetic::div, a, b); }
  friend Self operator-(Self a) { return Self(negate(Self::cls, a.handle())); }
  // These operators assign on the host, for example to form a sum in a host loop.
  friend Self& operator+=(Self& a, Self b) { return a = a + b; }
  friend Self& operator-=(Self& a, Self b) { return a = a - b; }
  friend Self& operator*=(Self& a, Self b) { return a = a * b; }
  friend Self& operator/=(Self& a, Self b) { return a = a / b; }
  friend Self min(Self a, Self b) { return combine(Arithmetic::min, a, b); }
  friend Self max(Self a, Self b) { return combine(Arithmetic::max, a, b); }
  friend pred operator==(Self a, Self b) { return compare(Comparison::eq, a, b); }
  friend pred operator!=(Self a, Self b) { return compare(Comparison::ne, a, b); }
  friend pred operator<(Self a, Self b) { return compare(Comparison::lt, a, b); }
  friend pred operator<=(Self a, Self b) { return compare(Comparison::le, a, b); }
  friend pred operator>(Self a, Self b) { return compare(Comparison::gt, a, b); }
  friend pred operator>=(Self a, Self b) { return compare(Comparison::ge, a, b); }

 protected:
  static Self combine(Arithmetic op, Self a, Self b) {
    return Self(arithmetic(op, Self::cls, a.handle(), b.handle()));
  }
  static pred compare(Comparison op, Self a, Self b) {
    return pred(comparison(op, Self::cls, a.handle(), b.handle()));
  }
};

template <class Self>
struct IntegerOperators : Operators<Self> {
  friend Self operator%(Self a, Self b) { return Operators<Self>::combine(Arithmetic::rem, a, b); }
  friend Self operator&(Self a, Self b) { return Operators<Self>::combine(Arithmetic::bit_and, a, b); }
  friend Self operator|(Self a, Self b) { return Operators<Self>::combine(Arithmetic::bit_or, a, b); }
  friend Self operator^(Self a, Self b) { return Operators<Self>::combine(Arithmetic::bit_xor, a, b); }
  friend Self operator~(Self a) { return Self(complement(a.handle())); }
  friend Self& operator%=(Self& a, Self b) { return a = a % b; }
  friend Self& operator&=(Self& a, Self b) { return a = a & b; }
  friend Self& operator|=(Self& a, Self b) { return a = a | b; }
  friend Self& operator^=(Self& a, Self b) { return a = a ^ b; }
  friend Self& operator<<=(Self& a, Self b) { return a = a << b; }
  friend Self& operator>>=(Self& a, Self b) { return a = a >> b; }
  friend Self operator<<(Self a, Self b) { return Operators<Self>::combine(Arithmetic::shl, a, b); }
  friend Self operator>>(Self a, Self b) { return Operators<Self>::combine(Arithmetic::shr, a, b); }
};

template <class T>
concept HostInteger = std::integral<T> && !std::same_as<T, bool>;

template <class T>
concept HostNumber = HostInteger<T> || std::floating_point<T>;

// Returns a constant for a host integer. The integer must fit in Host, the host type with the same width and
// signedness as `cls`.
template <class Host, HostInteger I>
llvm::Value* checked_constant(Class cls, I value, Where where) {
  // Unary + converts a char to int, because in_range does not accept char.
  if (!std::in_range<Host>(+value)) constant_out_of_range(cls, std::to_string(value), where);
  return integer_constant(cls, static_cast<uint64_t>(static_cast<Host>(value)), where);
}

}  // namespace detail

#define PTXBUILDER_INTEGER(Name, Host)                                                                  \
  class Name : public Value, public detail::IntegerOperators<Name> {                                    \
   public:                                                                                              \
    static constexpr Class cls = Class::Name;                                                           \
    static constexpr DType dtype = DType::Name;                                                         \
    explicit Name(llvm::Value* handle, Where where = Where::here())                                     \
        : Value(detail::of_class(cls, handle, where)) {}                                                \
    template <detail::HostInteger I>                                                                    \
    Name(I value, Where where = Where::here()) /* NOLINT: host integers are constants */                \
        : Value(detail::checked_constant<Host>(cls, value, where)) {}                                   \
    /* Between device types: extends by the sign of the source type, or keeps the low bits; a predicate \
     * becomes 0 or 1. */                                                                               \
    template <class From>                                                                               \
    requires(std::derived_from<From, Value> && !std::same_as<From, Name> &&                             \
             requires { From::cls; }) explicit Name(From from)                                          \
        : Value(detail::convert(From::cls, cls, from.handle())) {}                                      \
    template <class Cell>                                                                               \
    requires(detail::CellOfAnother<Cell, Name>) explicit Name(Cell&& cell)                              \
        : Name(std::forward<Cell>(cell).value()) {}                                                     \
  };

// Integers on the device. Arithmetic wraps around. `explicit` conversions truncate, extend or round like
// conversions in C++.
PTXBUILDER_INTEGER(u16, uint16_t)
PTXBUILDER_INTEGER(s16, int16_t)
PTXBUILDER_INTEGER(u32, uint32_t)
PTXBUILDER_INTEGER(s32, int32_t)
PTXBUILDER_INTEGER(u64, uint64_t)
PTXBUILDER_INTEGER(s64, int64_t)
#undef PTXBUILDER_INTEGER

#define PTXBUILDER_FLOAT(Name)                                                                          \
  class Name : public Value, public detail::Operators<Name> {                                           \
   public:                                                                                              \
    static constexpr Class cls = Class::Name;                                                           \
    static constexpr DType dtype = DType::Name;                                                         \
    explicit Name(llvm::Value* handle, Where where = Where::here())                                     \
        : Value(detail::of_class(cls, handle, where)) {}                                                \
    template <detail::HostNumber F>                                                                     \
    Name(F value,                                                                                       \
         Where where = Where::here()) /* NOLINT: host numbers are constants, rounded to nearest even */ \
        : Value(detail::float_constant(cls, static_cast<double>(value), where)) {}                      \
    template <class From>                                                                               \
    requires(std::derived_from<From, Value> && !std::same_as<From, Name> &&                             \
             requires { From::cls; }) explicit Name(From from)                                          \
        : Value(detail::convert(From::cls, cls, from.handle())) {}                                      \
    template <class Cell>                                                                               \
    requires(detail::CellOfAnother<Cell, Name>) explicit Name(Cell&& cell)                              \
        : Name(std::forward<Cell>(cell).value()) {}                                                     \
  };

// Floating-point numbers on the device. Arithmetic rounds to nearest even.
PTXBUILDER_FLOAT(f16)
PTXBUILDER_FLOAT(bf16)
PTXBUILDER_FLOAT(f32)
PTXBUILDER_FLOAT(f64)
#undef PTXBUILDER_FLOAT

// A byte address in shared memory of this CTA (`.shared::cta`, 32 bits).
class smem : public Value {
 public:
  static constexpr Class cls = Class::smem;
  explicit smem(llvm::Value* handle, Where where = Where::here())
      : Value(detail::of_class(cls, handle, where)) {}
  friend smem operator+(smem a, u32 bytes) { return smem(detail::address_add(a.handle(), bytes.handle())); }
  explicit operator u32() const { return u32(detail::convert(cls, Class::u32, handle())); }
};

// A byte address in the shared memory of any CTA of the cluster (`.shared::cluster`, 32 bits), as mapa
// returns it. For the CTA's own shared memory, both windows use the same bits (PTX ISA, "Shared State
// Space").
class cluster_smem : public Value {
 public:
  static constexpr Class cls = Class::cluster;
  explicit cluster_smem(llvm::Value* handle, Where where = Where::here())
      : Value(detail::of_class(cls, handle, where)) {}
  explicit cluster_smem(smem own) : Value(detail::convert(Class::u32, cls, u32(own).handle())) {}
};

// A byte address in global memory (`.global`, 64 bits).
class gmem : public Value {
 public:
  static constexpr Class cls = Class::gmem;
  explicit gmem(llvm::Value* handle, Where where = Where::here())
      : Value(detail::of_class(cls, handle, where)) {}
  friend gmem operator+(gmem a, u64 bytes) { return gmem(detail::address_add(a.handle(), bytes.handle())); }
};

// A generic byte address (64 bits). The address determines the state space of an instruction that does not
// name one. cvta.shared converts a shared-memory address to a generic address.
class generic_address : public Value {
 public:
  static constexpr Class cls = Class::generic;
  explicit generic_address(llvm::Value* handle, Where where = Where::here())
      : Value(detail::of_class(cls, handle, where)) {}
  explicit generic_address(gmem a) : Value(detail::convert(gmem::cls, cls, a.handle())) {}
  friend generic_address operator+(generic_address a, u64 bytes) {
    return generic_address(detail::address_add(a.handle(), bytes.handle()));
  }
};

// A byte address in local memory (`.local`) or in constant memory (`.const`), 64 bits.
class local_address : public Value {
 public:
  static constexpr Class cls = Class::local;
  explicit local_address(llvm::Value* handle, Where where = Where::here())
      : Value(detail::of_class(cls, handle, where)) {}
};
class constant_address : public Value {
 public:
  static constexpr Class cls = Class::constant;
  explicit constant_address(llvm::Value* handle, Where where = Where::here())
      : Value(detail::of_class(cls, handle, where)) {}
};

// An address in tensor memory, 32 bits: the column in the low half, the lane in the high half (PTX ISA,
// "Tensor Memory Addressing"). The result of tcgen05.alloc converts to it.
class tmem : public Value {
 public:
  static constexpr Class cls = Class::tmem;
  explicit tmem(llvm::Value* handle, Where where = Where::here())
      : Value(detail::of_class(cls, handle, where)) {}
  explicit tmem(u32 address) : Value(detail::convert(u32::cls, cls, address.handle())) {}
  explicit operator u32() const { return u32(detail::convert(cls, Class::u32, handle())); }
  friend tmem operator+(tmem a, u32 columns) { return tmem(u32(a) + columns); }
};

// 128 bits without arithmetic, for mov.b128, atom.cas.b128 and clusterlaunchcontrol.
class b128 : public Value {
 public:
  static constexpr Class cls = Class::b128;
  explicit b128(llvm::Value* handle, Where where = Where::here())
      : Value(detail::of_class(cls, handle, where)) {}
};

// The address of a 128-byte tensor map that is a `__grid_constant__` parameter.
class TensorMap : public Value {
 public:
  static constexpr Class cls = Class::tmap;
  explicit TensorMap(llvm::Value* handle, Where where = Where::here())
      : Value(detail::of_class(cls, handle, where)) {}
};

namespace detail {

// Uses the operand's line if it has one.
template <class C, class Result>
void assign(C&& cell, const Result& result, const OperandOf<C>& operand) {
  if constexpr (requires { OperandOf<C>(result, operand.where); })
    std::forward<C>(cell) = OperandOf<C>(result, operand.where);
  else
    std::forward<C>(cell) = result;
}

}  // namespace detail

// Defines a += b as a = a + b. For an element in memory, this is a load followed by a store, and other
// threads may write the element in between.
#define PTXBUILDER_ASSIGNMENT(symbol)                                                                     \
  template <class C>                                                                                      \
  requires requires(C && cell, const detail::OperandOf<C>& b) { std::forward<C>(cell).value() symbol b; } \
  void operator symbol##=(C&& cell, const detail::OperandOf<C>& b) {                                      \
    detail::assign(std::forward<C>(cell), std::forward<C>(cell).value() symbol b, b);                     \
  }
PTXBUILDER_ASSIGNMENT(+)
PTXBUILDER_ASSIGNMENT(-)
PTXBUILDER_ASSIGNMENT(*)
PTXBUILDER_ASSIGNMENT(/)
PTXBUILDER_ASSIGNMENT(%)
PTXBUILDER_ASSIGNMENT(&)
PTXBUILDER_ASSIGNMENT(|)
PTXBUILDER_ASSIGNMENT(^)
PTXBUILDER_ASSIGNMENT(<<)
PTXBUILDER_ASSIGNMENT(>>)
#undef PTXBUILDER_ASSIGNMENT

// Returns condition ? a : b, without a branch.
template <class T>
requires std::derived_from<T, Value> T select(pred condition, T a, std::type_identity_t<T> b) {
  return T(detail::select(condition.handle(), a.handle(), b.handle()));
}

// Returns a * b + c, rounded once.
inline f32 fma(f32 a, f32 b, f32 c) { return f32(detail::fma(a.handle(), b.handle(), c.handle())); }

// Returns the same bits as another type of the same width: bit_cast<u32>(x).
template <class To, class From>
To bit_cast(From from, Where where = Where::here()) {
  CallersLine line(where);
  return To(detail::bit_cast(To::cls, from.handle()));
}

// Returns the smallest number of blocks of size b that can hold a elements, which is a / b rounded up. For
// u32, a + b - 1 must not wrap around.
inline u32 ceil_div(u32 a, u32 b) { return (a + (b - 1u)) / b; }

}  // namespace ptxbuilder

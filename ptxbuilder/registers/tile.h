// Defines tiles of values in the registers of a warpgroup. Tiles have the same arithmetic as scalars, applied
// to each element:
//
//   auto l = load<f16>(sL[0]), r = load<f16>(sR[0]);       // 128 threads, a share each
//   store(sO[0], max(l + r, 0));
//
// All 128 threads of a warpgroup must make each call, in a role or in a CTA of 128 threads. Values are SSA
// values of the kernel. A 32-bit register holds two f16 or bf16 elements, or four bytes. Tiles are never in
// local memory. The operands of an operation must have the same layout. As an exception, an operand may be a
// scalar or have a splat layout. An operand may also have one value for each row or column of the other
// operand, like the result of a reduction in o *= shrink. For all other layouts, the operation throws an
// Error that names both layouts. A Var of a tile is accepted in place of a tile. A Var of a scalar, or an
// element in memory of the tile's type, is accepted in place of a scalar, as in x * p[i].
#pragma once

#include "ptxbuilder/ir/math.h"
#include "ptxbuilder/ir/memory.h"
#include "ptxbuilder/registers/values.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder {

// The element types of a tile. Comparisons yield tiles of pred.
template <class T>
concept TileElement = std::same_as<T, f32> || std::same_as<T, f16> || std::same_as<T, bf16> ||
    std::same_as<T, tf32> || std::same_as<T, e4m3> || std::same_as<T, e5m2> || std::same_as<T, s8> ||
    std::same_as<T, u8> || std::same_as<T, s32> || std::same_as<T, u32> || std::same_as<T, pred>;

// The element types that have arithmetic. Elements of other types must be converted first, for example with
// astype<f32>(x).
template <class T>
concept FloatElement = std::same_as<T, f32> || std::same_as<T, f16> || std::same_as<T, bf16>;
template <class T>
concept IntegerElement = std::same_as<T, s32> || std::same_as<T, u32>;
template <class T>
concept NumberElement = FloatElement<T> || IntegerElement<T>;
template <class T>
concept BitsElement = IntegerElement<T> || std::same_as<T, pred>;

template <TileElement T>
class RegisterTile;

// A type that can be used as a RegisterTile<ElementOf<X>>: the tile type itself, or a Var of it.
template <class X>
using ElementOf = typename X::element_type;
template <class X>
concept TileLike = TileElement<ElementOf<X>> && std::convertible_to<const X&, RegisterTile<ElementOf<X>>>;

// A source that converts to a scalar of type T: a Var of the scalar, or an element in memory.
template <class X, class T>
concept ScalarSource = std::convertible_to<X, T> &&
    (std::same_as<std::remove_cvref_t<X>, Var<T>> || std::same_as<std::remove_cvref_t<X>, Element<T>>);

// A tile or a scalar, and the caller's source line, because an operator cannot take the line as a parameter.
template <class T>
struct TileArgument : detail::TileOperand {
  TileArgument(const RegisterTile<T>& tile, Where where = Where::here())  // NOLINT
      : TileOperand{tile.values().layout, tile.values().words, where} {}
  TileArgument(const Var<RegisterTile<T>>& tile, Where where = Where::here())  // NOLINT
      : TileArgument(tile.value(), where) {}
  TileArgument(T value, Where where = Where::here()) requires NumberElement<T>  // NOLINT
      : TileOperand(detail::scalar_operand(T::dtype, value, where)) {}
  template <detail::HostNumber N>
  TileArgument(N value, Where where = Where::here()) requires NumberElement<T>  // NOLINT
      : TileArgument(T(value, where), where) {}
  template <ScalarSource<T> X>
  TileArgument(X&& x, Where where = Where::here()) requires NumberElement<T>  // NOLINT
      : TileArgument(static_cast<T>(std::forward<X>(x)), where) {}
};

// A scalar and the caller's source line.
template <class T>
struct ScalarArgument : TileArgument<T> {
  ScalarArgument(T value, Where where = Where::here()) : TileArgument<T>(value, where) {}  // NOLINT
  template <detail::HostNumber N>
  ScalarArgument(N value, Where where = Where::here()) : TileArgument<T>(value, where) {}  // NOLINT
  template <ScalarSource<T> X>
  ScalarArgument(X&& x, Where where = Where::here())  // NOLINT
      : TileArgument<T>(std::forward<X>(x), where) {}
};

#define PTXBUILDER_TILE_OPERATOR(symbol, operation, Element)                                                 \
  friend RegisterTile operator symbol(const RegisterTile& a, const TileArgument<T>& b) requires Element<T> { \
    return arithmetic(detail::Arithmetic::operation, a.operand(), b);                                        \
  }                                                                                                          \
  friend RegisterTile operator symbol(const ScalarArgument<T>& a,                                            \
                                      const RegisterTile& b) requires Element<T> {                           \
    return arithmetic(detail::Arithmetic::operation, a, b.operand());                                        \
  }
// Both parameters have the same type. Otherwise, the comparisons that C++20 rewrites (b == a for a == b)
// would be ambiguous.
#define PTXBUILDER_TILE_COMPARISON(symbol, comparison)                                                  \
  friend RegisterTile<pred> operator symbol(const TileArgument<T>& a,                                   \
                                            const TileArgument<T>& b) requires NumberElement<T> {       \
    return RegisterTile<pred>(detail::tile_comparison(detail::Comparison::comparison, T::dtype, a, b)); \
  }

// A tile of elements in registers. The layout determines how the elements are distributed over the threads of
// a warpgroup.
template <TileElement T>
class RegisterTile {
 public:
  using element_type = T;

  explicit RegisterTile(detail::TileValues values) : values_(std::move(values)) {}
  RegisterTile(const RegisterTile&) = default;
  RegisterTile& operator=(const RegisterTile&) = default;
  // Copies the other tile. As with any Value, the other tile stays valid.
  RegisterTile(RegisterTile&& other) : region_(std::move(other.region_)), values_(other.values_) {}
  // Makes a tile in which every element is `value`, which must be equal in all threads. For values that
  // differ between threads, use of().
  RegisterTile(T value, const RegisterLayout& layout) requires NumberElement<T>
      : values_(detail::filled(T::dtype, value, layout)) {}

  // Make a tile from this thread's elements. The thread's element i is elements[i] or element(i). Threads
  // that hold the same element must pass the same value.
  static RegisterTile of(const RegisterLayout& layout, const std::vector<T>& elements,
                         Where where = Where::here()) requires NumberElement<T> || std::same_as<T, pred> {
    AtLine line(where);
    std::vector<Value> values(elements.begin(), elements.end());
    return RegisterTile(detail::tile_of_elements(detail::dtype_of_element<T>(), layout, values));
  }
  template <std::invocable<int> Element>
  static RegisterTile of(const RegisterLayout& layout, Element&& element,
                         Where where = Where::here()) requires NumberElement<T> || std::same_as<T, pred> {
    std::vector<T> elements;
    for (int i = 0; i < layout.values(); ++i) elements.push_back(element(i));
    return of(layout, elements, where);
  }
  // Makes a tile from this thread's 32-bit registers, for example from the results of an instruction.
  // Elements with lower numbers are in lower bits.
  static RegisterTile of_registers(const RegisterLayout& layout, const std::vector<u32>& registers,
                                   Where where = Where::here()) requires(!std::same_as<T, pred>) {
    AtLine line(where);
    return RegisterTile(detail::tile_of_registers(T::dtype, layout, registers));
  }
  std::vector<u32> registers() const requires(!std::same_as<T, pred>) {
    return detail::registers_of(values_);
  }

  const RegisterLayout& layout() const { return values_.layout; }
  int rows() const { return layout().rows(); }
  int cols() const { return layout().cols(); }
  int count() const { return layout().values(); }  // number of this thread's elements

  // Returns this thread's element i.
  T value(int i, Where where = Where::here()) const requires NumberElement<T> || std::same_as<T, pred> {
    AtLine line(where);
    return T(detail::tile_element(values_, i).handle());
  }

  // Returns a part of a tile. The tile must be in wgmma_layout, and the result is in wgmma_layout too. The
  // part's first row and number of rows must be multiples of 64, and its first column and number of columns
  // multiples of 8.
  RegisterTile part(const TilePart& part, Where where = Where::here()) const {
    AtLine line(where);
    return RegisterTile(detail::tile_part(values_, part));
  }

  PTXBUILDER_TILE_OPERATOR(+, add, NumberElement)
  PTXBUILDER_TILE_OPERATOR(-, sub, NumberElement)
  PTXBUILDER_TILE_OPERATOR(*, mul, NumberElement)
  PTXBUILDER_TILE_OPERATOR(/, div, NumberElement)  // floats are rounded to nearest even
  PTXBUILDER_TILE_OPERATOR(%, rem, IntegerElement)
  PTXBUILDER_TILE_OPERATOR(<<, shl, IntegerElement)
  PTXBUILDER_TILE_OPERATOR(>>, shr, IntegerElement)
  PTXBUILDER_TILE_OPERATOR(&, bit_and, BitsElement)
  PTXBUILDER_TILE_OPERATOR(|, bit_or, BitsElement)
  PTXBUILDER_TILE_OPERATOR(^, bit_xor, BitsElement)
  PTXBUILDER_TILE_COMPARISON(==, eq)
  PTXBUILDER_TILE_COMPARISON(!=, ne)
  PTXBUILDER_TILE_COMPARISON(<, lt)
  PTXBUILDER_TILE_COMPARISON(<=, le)
  PTXBUILDER_TILE_COMPARISON(>, gt)
  PTXBUILDER_TILE_COMPARISON(>=, ge)
  friend RegisterTile operator-(const RegisterTile& a) requires NumberElement<T> {
    return RegisterTile(detail::tile_unary(detail::Unary::neg, a.values_));
  }
  friend RegisterTile operator!(const RegisterTile& a) requires std::same_as<T, pred> {
    return RegisterTile(detail::tile_not(a.values_));
  }
  friend RegisterTile operator~(const RegisterTile& a) requires IntegerElement<T> {
    return RegisterTile(detail::tile_not(a.values_));
  }
  friend RegisterTile abs(const RegisterTile& a) requires NumberElement<T> &&(!std::same_as<T, u32>) {
    return RegisterTile(detail::tile_unary(detail::Unary::abs, a.values_));
  }
  // If one operand is a NaN, the result is the other operand.
  friend RegisterTile min(const RegisterTile& a, const TileArgument<T>& b) requires NumberElement<T> {
    return arithmetic(detail::Arithmetic::min, a.operand(), b);
  }
  friend RegisterTile max(const RegisterTile& a, const TileArgument<T>& b) requires NumberElement<T> {
    return arithmetic(detail::Arithmetic::max, a.operand(), b);
  }
  // Returns a * b + c, rounded once.
  friend RegisterTile fma(const RegisterTile& a, const TileArgument<T>& b,
                          const TileArgument<T>& c) requires FloatElement<T> {
    return RegisterTile(detail::tile_fma(T::dtype, a.operand(), b, c));
  }

  const detail::TileValues& values() const { return values_; }
  detail::TileOperand operand() const { return detail::operand_of(values_); }

 private:
  static RegisterTile arithmetic(detail::Arithmetic operation, const detail::TileOperand& a,
                                 const detail::TileOperand& b) {
    return RegisterTile(detail::tile_arithmetic(operation, detail::dtype_of_element<T>(), a, b));
  }

  detail::Region region_;  // lets a vector move its elements without checks
  detail::TileValues values_;
};

#undef PTXBUILDER_TILE_OPERATOR
#undef PTXBUILDER_TILE_COMPARISON

namespace detail {

template <TileLike X>
TileValues values_of(const X& x) {
  return RegisterTile<ElementOf<X>>(x).values();
}

}  // namespace detail

// Return condition ? a : b for each element. Either a or b may be a scalar.
template <TileLike X>
requires NumberElement<ElementOf<X>> RegisterTile<ElementOf<X>> select(const RegisterTile<pred>& condition,
                                                                       const X& a,
                                                                       const TileArgument<ElementOf<X>>& b) {
  const RegisterTile<ElementOf<X>> yes = a;
  return RegisterTile<ElementOf<X>>(
      detail::tile_select(ElementOf<X>::dtype, condition.operand(), yes.operand(), b));
}
template <TileLike X>
requires NumberElement<ElementOf<X>> RegisterTile<ElementOf<X>> select(const RegisterTile<pred>& condition,
                                                                       const ScalarArgument<ElementOf<X>>& a,
                                                                       const X& b) {
  const RegisterTile<ElementOf<X>> no = b;
  return RegisterTile<ElementOf<X>>(
      detail::tile_select(ElementOf<X>::dtype, condition.operand(), a, no.operand()));
}

// Defines a function that applies a function of ir/math.h to each element. f16 and bf16 are computed in f32,
// and then rounded to nearest even.
#define PTXBUILDER_TILE_FUNCTION(function)                                                              \
  template <TileLike X>                                                                                 \
  requires FloatElement<ElementOf<X>> RegisterTile<ElementOf<X>> function(const X& x,                   \
                                                                          Approx approx = Approx::no) { \
    return RegisterTile<ElementOf<X>>(detail::tile_function(                                            \
        detail::values_of(x), [approx](f32 v) { return ptxbuilder::function(v, approx); }));            \
  }
// The accuracy of the following functions depends on `approx`.
PTXBUILDER_TILE_FUNCTION(exp)
PTXBUILDER_TILE_FUNCTION(exp2)
PTXBUILDER_TILE_FUNCTION(log)
PTXBUILDER_TILE_FUNCTION(log2)
PTXBUILDER_TILE_FUNCTION(sin)
PTXBUILDER_TILE_FUNCTION(cos)
PTXBUILDER_TILE_FUNCTION(tanh)
PTXBUILDER_TILE_FUNCTION(rsqrt)
PTXBUILDER_TILE_FUNCTION(sqrt)
PTXBUILDER_TILE_FUNCTION(erf)
#undef PTXBUILDER_TILE_FUNCTION

// Returns a / b. With Approx::yes, the error is up to 2 units in the last place (PTX ISA, div.full).
template <TileLike X>
requires FloatElement<ElementOf<X>> RegisterTile<ElementOf<X>> divide(const X& a,
                                                                      const TileArgument<ElementOf<X>>& b,
                                                                      Approx approx = Approx::no) {
  const RegisterTile<ElementOf<X>> dividend = a;
  if (approx == Approx::no) return dividend / b;
  return RegisterTile<ElementOf<X>>(detail::tile_divide_approx(ElementOf<X>::dtype, dividend.operand(), b));
}

// Return the row or the column of each element in a layout, for masks such as select(row_index(l) >=
// col_index(l), s, 0). Rows and columns are counted from the tile's corner, so a warpgroup must add the start
// of its tile. The indices are u32, so their differences wrap around instead of becoming negative. Compare
// sums instead, or differences of astype<s32>().
inline RegisterTile<u32> row_index(const RegisterLayout& layout, Where where = Where::here()) {
  AtLine line(where);
  return RegisterTile<u32>(detail::tile_index(layout, true));
}
inline RegisterTile<u32> col_index(const RegisterLayout& layout, Where where = Where::here()) {
  AtLine line(where);
  return RegisterTile<u32>(detail::tile_index(layout, false));
}

// Converts the elements to another type (PTX ISA, cvt). Conversions to floats round to nearest even, except
// that tf32 rounds ties away from zero. Conversions to e4m3 and e5m2 clamp. Conversions from floats to
// integers round toward zero and clamp, and NaN becomes 0. In conversions between integers, s8 and u8 clamp,
// and s32 and u32 retain their bits.
template <TileElement To, TileLike X>
RegisterTile<To> astype(const X& x, Where where = Where::here()) requires(!std::same_as<To, pred> &&
                                                                          !std::same_as<ElementOf<X>, pred>) {
  AtLine line(where);
  return RegisterTile<To>(detail::tile_convert(To::dtype, detail::values_of(x)));
}

// Reduce each row (column) to one value, in the layout's reduced_rows() (reduced_cols()). Elements are
// reduced in registers first, then with shuffles between the lanes that share a row, and then, if several
// warps share a row, through shared memory. All threads that share a row get the value of the row. f16 and
// bf16 are reduced in f32.
template <TileLike X>
requires NumberElement<ElementOf<X>> RegisterTile<ElementOf<X>> reduce_rows(Reduction operation, const X& x,
                                                                            Where where = Where::here()) {
  AtLine line(where);
  return RegisterTile<ElementOf<X>>(detail::tile_reduce(operation, detail::values_of(x), true));
}
template <TileLike X>
requires NumberElement<ElementOf<X>> RegisterTile<ElementOf<X>> reduce_cols(Reduction operation, const X& x,
                                                                            Where where = Where::here()) {
  AtLine line(where);
  return RegisterTile<ElementOf<X>>(detail::tile_reduce(operation, detail::values_of(x), false));
}
// Reduces all elements of a tile to one value, which every thread receives.
template <TileLike X>
requires NumberElement<ElementOf<X>> ElementOf<X> reduce_all(Reduction operation, const X& x,
                                                             Where where = Where::here()) {
  AtLine line(where);
  auto rows = detail::tile_reduce(operation, detail::values_of(x), true);
  return RegisterTile<ElementOf<X>>(detail::tile_reduce(operation, rows, false)).value(0);
}

// Repeats one value per row in all columns of `layout`, or one value per column in all rows. No instructions
// are needed. Throws Error unless x has the layout that a reduction of a tile in `layout` would have.
template <TileLike X>
RegisterTile<ElementOf<X>> broadcast(const X& x, const RegisterLayout& layout, Where where = Where::here()) {
  AtLine line(where);
  return RegisterTile<ElementOf<X>>(detail::tile_broadcast(detail::values_of(x), layout));
}

// Returns the same elements in another layout. A cast between equal layouts needs no instructions. If each
// warp holds the elements that its lanes need, the lanes exchange registers with shuffles, selections and
// byte permutations, without shared memory or a barrier. If the exchange would need more instructions than a
// path through shared memory, or if elements move between warps, the elements pass through shared memory. The
// comparison counts the following instructions for that path: stores and loads, with two instructions for
// each access of less than 4 bytes; two barriers; and 8 instructions for addresses. All 128 threads must make
// this call. If the extents differ, or if different values would become a splat, throws an Error that names
// both layouts.
template <TileLike X>
RegisterTile<ElementOf<X>> layout_cast(
    const X& x, const RegisterLayout& layout,
    Where where = Where::here()) requires(!std::same_as<ElementOf<X>, pred>) {
  AtLine line(where);
  return RegisterTile<ElementOf<X>>(detail::tile_layout_cast(detail::values_of(x), layout));
}

// A mutable tile, for values that change in a loop. Every assigned value must have the same layout as the
// initial value.
template <TileElement T>
class Var<RegisterTile<T>> {
 public:
  using element_type = T;
  using Operand = TileArgument<T>;  // type of the right-hand side of += and other compound assignments

  explicit Var(const RegisterTile<T>& initial, Where where = Where::here())
      : variables_(detail::tile_variables(initial.values())), layout_(initial.layout()) {
    AtLine line(where);
    *this = initial;
  }
  Var(const Var&) = delete;
  Var(Var&&) = default;  // moves the variable itself
  friend void swap(Var& a, Var& b) {
    const RegisterTile<T> value = a.value();
    a = b.value();
    b = value;
  }

  Var& operator=(const TileArgument<T>& value) {
    check();
    detail::tile_assign(variables_, layout_, value);
    return *this;
  }
  Var& operator=(const Var& other) { return *this = other.value(); }
  operator RegisterTile<T>() const { return value(); }  // NOLINT: converts to its value
  RegisterTile<T> value() const {
    check();
    return RegisterTile<T>(detail::tile_read(variables_, detail::dtype_of_element<T>(), layout_));
  }

  const RegisterLayout& layout() const { return layout_; }
  int rows() const { return layout_.rows(); }
  int cols() const { return layout_.cols(); }
  int count() const { return layout_.values(); }  // number of this thread's elements
  T value(int i, Where where = Where::here()) const {
    AtLine line(where);
    return value().value(i);
  }

 private:
  void check() const {
    if (variables_.empty()) detail::variable_was_moved();
    region_.check_variable();
  }

  detail::Region region_;
  std::vector<llvm::Value*> variables_;
  RegisterLayout layout_;
};

}  // namespace ptxbuilder

// Defines partial reductions along rows or columns. Each thread that shares a row or column holds a partial
// result, and the threads exchange these results only once, at the end. Use partial reductions for sums that
// a loop carries:
//
//   Var<Partial<f32, Reduction::add>> sums(partial_rows<Reduction::add>(p));  // no shuffle
//   for_(...) { ... sums *= shrink; sums += partial_rows<Reduction::add>(p); }
//   o /= complete(sums);                                                      // shuffles, once
//
// A partial result is not the final sum, so only complete() converts it to a tile.
#pragma once

#include "ptxbuilder/registers/tile.h"

namespace ptxbuilder {

template <class T>
concept PartialElement = std::same_as<T, f32> || IntegerElement<T>;  // f16 and bf16 must be reduced in f32

template <PartialElement T, Reduction operation>
class Partial;

// A partial reduction and the caller's source line.
template <PartialElement T, Reduction operation>
struct PartialArgument {
  PartialArgument(const Partial<T, operation>& partial, Where where = Where::here())  // NOLINT
      : values(partial.values()), where(where) {}
  PartialArgument(const Var<Partial<T, operation>>& partial, Where where = Where::here())  // NOLINT
      : PartialArgument(partial.value(), where) {}

  detail::PartialValues values;
  Where where;
};

template <PartialElement T, Reduction operation>
class Partial {
 public:
  using Argument = PartialArgument<T, operation>;

  explicit Partial(detail::PartialValues values) : values_(std::move(values)) {}
  Partial(const Partial&) = default;
  Partial& operator=(const Partial&) = default;
  Partial(Partial&& other) : region_(std::move(other.region_)), values_(other.values_) {}

  // Returns the layout of the completed tile.
  const RegisterLayout& layout() const { return values_.own.layout; }

  // Combine two partial reductions with the operation. The functions throw Error unless the same threads
  // share rows (or columns) in both partial reductions.
  friend Partial operator+(const Partial& a, const Argument& b) requires(operation == Reduction::add) {
    return a.combined(b);
  }
  friend Partial operator*(const Partial& a, const Argument& b) requires(operation == Reduction::prod) {
    return a.combined(b);
  }
  friend Partial max(const Partial& a, const Argument& b) requires(operation == Reduction::max) {
    return a.combined(b);
  }
  friend Partial min(const Partial& a, const Argument& b) requires(operation == Reduction::min) {
    return a.combined(b);
  }

  // Multiply or divide a sum by a scalar, or by a completed tile of the same layout that holds a separate
  // factor for each row (or column).
  friend Partial operator*(const Partial& a,
                           const TileArgument<T>& factor) requires(operation == Reduction::add) {
    return Partial(detail::partial_scale(detail::Arithmetic::mul, a.values_, factor));
  }
  friend Partial operator/(const Partial& a,
                           const TileArgument<T>& divisor) requires(operation == Reduction::add &&
                                                                    FloatElement<T>) {
    return Partial(detail::partial_scale(detail::Arithmetic::div, a.values_, divisor));
  }

  // Completes the reduction, first with shuffles between the lanes that share a row or column, and then, if
  // several warps share a row or column, through shared memory. All threads that share a row or column get
  // the same result, as from reduce_rows() or reduce_cols().
  friend RegisterTile<T> complete(const Partial& x, Where where = Where::here()) {
    AtLine line(where);
    return RegisterTile<T>(detail::tile_complete(operation, x.values_));
  }

  const detail::PartialValues& values() const { return values_; }

 private:
  Partial combined(const Argument& b) const {
    AtLine line(b.where);
    return Partial(detail::partial_combine(operation, values_, b.values));
  }

  detail::Region region_;
  detail::PartialValues values_;
};

// Reduce only the elements that the calling thread holds, to one value for each of the thread's rows (or
// columns).
template <Reduction operation, TileLike X>
requires PartialElement<ElementOf<X>> Partial<ElementOf<X>, operation> partial_rows(
    const X& x, Where where = Where::here()) {
  AtLine line(where);
  return Partial<ElementOf<X>, operation>(detail::tile_partial(operation, detail::values_of(x), true));
}
template <Reduction operation, TileLike X>
requires PartialElement<ElementOf<X>> Partial<ElementOf<X>, operation> partial_cols(
    const X& x, Where where = Where::here()) {
  AtLine line(where);
  return Partial<ElementOf<X>, operation>(detail::tile_partial(operation, detail::values_of(x), false));
}

// A mutable partial reduction. In every assigned value, the same threads must share rows or columns as in the
// initial value.
template <PartialElement T, Reduction operation>
class Var<Partial<T, operation>> {
 public:
  using Argument = PartialArgument<T, operation>;

  explicit Var(const Argument& initial)
      : variables_(detail::tile_variables(initial.values.own)),
        layout_(initial.values.own.layout),
        shared_bits_(initial.values.shared_bits) {
    *this = initial;
  }
  Var(const Var&) = delete;
  Var(Var&&) = default;

  Var& operator=(const Argument& value) {
    AtLine line(value.where);
    check();
    detail::check_same_parts({{T::dtype, layout_, {}}, shared_bits_}, value.values);
    detail::tile_assign(variables_, layout_, detail::operand_of(value.values.own));
    return *this;
  }
  Var& operator=(const Var& other) { return *this = other.value(); }
  operator Partial<T, operation>() const { return value(); }  // NOLINT: converts to its value
  Partial<T, operation> value() const {
    check();
    return Partial<T, operation>({detail::tile_read(variables_, T::dtype, layout_), shared_bits_});
  }

  Var& operator+=(const Argument& b) requires(operation == Reduction::add) { return *this = value() + b; }
  Var& operator*=(const TileArgument<T>& b) requires(operation == Reduction::add) {
    return *this = value() * b;
  }

 private:
  void check() const {
    if (variables_.empty()) detail::variable_was_moved();
    region_.check_variable();
  }

  detail::Region region_;
  std::vector<llvm::Value*> variables_;
  RegisterLayout layout_;
  int shared_bits_;
};

}  // namespace ptxbuilder

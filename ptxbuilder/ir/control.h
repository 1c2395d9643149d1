// Defines structured control flow on the device. `if` and `for` on the host choose the code to generate; the
// functions in this file generate branches and loops of the kernel.
#pragma once

#include "ptxbuilder/ir/builder.h"

namespace ptxbuilder {

// A mutable value, for variables that a loop or a branch changes. All other values are immutable. Var<u32>
// phase(0u);  phase = phase ^ 1u;
// A Var is valid in the body in which it was made, and in bodies nested in that body. Using it after that
// body has ended throws Error.
template <class T>
class Var {
 public:
  using Operand = T;  // type of the right-hand side of compound assignments

  explicit Var(T initial, Where where = Where::here())
      : variable_(Builder::current(where).declare_variable(T::cls)) {
    *this = initial;
  }
  Var(const Var&) = delete;
  // Moves the variable itself, for example out of a function that returns it, or into a vector.
  Var(Var&& other) noexcept
      : region_(std::move(other.region_)), variable_(std::exchange(other.variable_, nullptr)) {}

  Var& operator=(T value) {
    Builder::current().store_variable(handle(), value.handle());
    return *this;
  }
  Var& operator=(const Var& other) { return *this = T(other); }

  operator T() const { return value(); }  // NOLINT: converts to its value
  T value() const { return T(Builder::current().load_variable(handle(), T::cls)); }
  friend void swap(Var& a, Var& b) {
    const T value = a.value();
    a = b.value();
    b = value;
  }

  llvm::Value* handle() const {
    if (!variable_) detail::variable_was_moved();
    region_.check_variable();
    return variable_;
  }

 private:
  detail::Region region_;
  llvm::Value* variable_;
};

// Runs `then` in threads for which `condition` holds, and `otherwise` in the others.
inline void if_(pred condition, const std::function<void()>& then, Where where = Where::here()) {
  Builder::current(where).if_(condition, then, nullptr, where);
}
inline void if_(pred condition, const std::function<void()>& then, const std::function<void()>& otherwise,
                Where where = Where::here()) {
  Builder::current(where).if_(condition, then, otherwise, where);
}

// Runs body(i) for i = from, from + step, ... while i is below `to`. The type of `to` is also the type of i,
// and determines whether the comparison is signed.
template <class T>
requires(T::cls == Class::u32 || T::cls == Class::s32 || T::cls == Class::u64 ||
         T::cls == Class::s64) void for_(std::type_identity_t<T> from, T to, std::type_identity_t<T> step,
                                         const std::function<void(std::type_identity_t<T>)>& body,
                                         Where where = Where::here()) {
  Builder::current(where).for_(
      T::cls, from, to, step, [&](Value i) { body(T(i.handle())); }, where);
}
template <class T>
void for_(std::type_identity_t<T> from, T to, const std::function<void(std::type_identity_t<T>)>& body,
          Where where = Where::here()) requires(std::derived_from<T, Value>) {
  for_(from, to, T(1), body, where);
}
// A bound that is a Var or an element in memory is read only once, before the loop.
template <class From, class Cell, class Body>
void for_(From&& from, Cell&& to, Body&& body,
          Where where = Where::here()) requires(std::derived_from<detail::OperandOf<Cell>, Value>) {
  for_(detail::OperandOf<Cell>(std::forward<From>(from)), std::forward<Cell>(to).value(),
       std::forward<Body>(body), where);
}
template <class From, detail::HostInteger To, class Body>
void for_(From&&, To, Body&&, Where = Where::here()) {
  static_assert(
      detail::always_false<To>,
      "for_: the type of the bound is the type of the index: write u32(10), s32(10), u64(10) or s64(10)");
}

// Runs `body` as long as `condition` holds. The condition is evaluated before each iteration.
inline void while_(const std::function<pred()>& condition, const std::function<void()>& body,
                   Where where = Where::here()) {
  Builder::current(where).while_(condition, body, where);
}

}  // namespace ptxbuilder

// Structured control flow on the device. Host `if` and `for` choose what to generate; these run in the
// kernel.
#pragma once

#include "ptxbuilder/ir/builder.h"

namespace ptxbuilder {

// The one mutable kind of value, for what a loop or a branch changes.
//   Var<u32> phase(0u);  phase = phase ^ 1u;
// It is for the body in which it was made, and for those inside of it; later use throws Error.
template <class T>
class Var {
 public:
  using Operand = T;  // of += and its kin

  explicit Var(T initial, Where where = Where::here())
      : variable_(Builder::current(where).declare_variable(T::cls)) {
    *this = initial;
  }
  Var(const Var&) = delete;
  Var(Var&&) = default;

  Var& operator=(T value) {
    region_.check_variable();
    Builder::current().store_variable(variable_, value.handle());
    return *this;
  }
  Var& operator=(const Var& other) { return *this = T(other); }

  operator T() const { return value(); }  // NOLINT: reads as its value
  T value() const {
    region_.check_variable();
    return T(Builder::current().load_variable(variable_, T::cls));
  }

  llvm::Value* handle() const {
    region_.check_variable();
    return variable_;
  }

 private:
  detail::Region region_;
  llvm::Value* variable_;
};

// Threads where `condition` holds run `then`, the others `otherwise`.
inline void if_(pred condition, const std::function<void()>& then, Where where = Where::here()) {
  Builder::current(where).if_(condition, then, nullptr, where);
}
inline void if_(pred condition, const std::function<void()>& then, const std::function<void()>& otherwise,
                Where where = Where::here()) {
  Builder::current(where).if_(condition, then, otherwise, where);
}

// Runs body(i) for i = from, from + step, ... while i is below `to`. The type of `to` is also the type of
// i, and decides whether the comparison is signed.
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
          Where where = Where::here()) {
  for_(from, to, T(1), body, where);
}

// Runs `body` for as long as `condition`, evaluated before every round, holds.
inline void while_(const std::function<pred()>& condition, const std::function<void()>& body,
                   Where where = Where::here()) {
  Builder::current(where).while_(condition, body, where);
}

}  // namespace ptxbuilder

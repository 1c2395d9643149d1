// Defines ordinary loads and stores through typed pointers, and printing. Loads and stores are LLVM
// instructions, so that LLVM can fold addresses and merge loads.
#pragma once

#include <array>
#include <bit>

#include "ptxbuilder/ir/builder.h"

namespace ptxbuilder {

namespace detail {
llvm::Value* load(llvm::Value* address, Class cls, int count);
llvm::Value* element(llvm::Value* vector, int i);
void store(llvm::Value* address, std::span<const Value> values);
}  // namespace detail

// Represents the element to which a pointer points. It converts to the element's value, and an assignment
// writes the element. Using an Element that was stored with `auto` does not compile, because the read would
// happen only at that use, after later writes.
template <class T>
class Element {
 public:
  using Operand = T;  // type of the right-hand side of compound assignments

  Element(llvm::Value* address, Where where) : address_(address), where_(where) {}
  Element(const Element&) = delete;

  operator T() && { return read(); }  // NOLINT: converts to its value
  T value() && { return read(); }
  void operator=(T value) && {
    AtLine line(where_);
    detail::store(address_, std::array<Value, 1>{value});
  }
  void operator=(Element&& other) && { std::move(*this) = other.read(); }

  operator T() const& { return kept(); }  // NOLINT: its error explains why this does not compile
  T value() const& { return kept(); }
  void operator=(const Element&) && { kept(); }

 private:
  T read() const {
    AtLine line(where_);
    return T(detail::load(address_, T::cls, 1));
  }
  static T kept() {
    static_assert(detail::always_false<T>,
                  "an element that is kept with auto would be read when it is used, after later writes: "
                  "state the type of its value, as in u32 old = p[i]");
  }

  llvm::Value* address_;
  Where where_;
};

// A pointer to elements of T in the state space of Address, gmem or smem. Indices count elements. An index is
// a host integer, a u32 or, in global memory, a u64. A Var or an element in memory is also accepted.
template <class T, class Address>
class Pointer : public Value {
 public:
  static constexpr Class cls = Address::cls;
  using element_type = T;
  explicit Pointer(llvm::Value* handle, Where where = Where::here())
      : Value(detail::of_class(cls, handle, where)) {}
  explicit Pointer(Address address) : Value(address) {}

  operator Address() const { return Address(handle()); }  // NOLINT: drops the element type

  // An index in elements, with the caller's line.
  struct Index {
    Value value;
    Where where;
    template <class I>
    requires(detail::HostInteger<std::remove_cvref_t<I>> || std::convertible_to<I, u32> ||
             (cls == Class::gmem && std::convertible_to<I, u64>))
        Index(I&& i, Where where = Where::here())  // NOLINT: indices convert
        : value(device_index(std::forward<I>(i), where)), where(where) {}

   private:
    template <class I>
    static Value device_index(I&& i, Where where) {
      if constexpr (std::convertible_to<I, u32> && !detail::HostInteger<std::remove_cvref_t<I>>) {
        return u32(std::forward<I>(i));
      } else if constexpr (!detail::HostInteger<std::remove_cvref_t<I>>) {
        return u64(std::forward<I>(i));
      } else {
        if (cls == Class::gmem && std::cmp_greater(+i, std::numeric_limits<uint32_t>::max()))
          return u64(i, where);
        return u32(i, where);
      }
    }
  };

  Element<T> operator[](Index i) const {
    return {detail::element_address(handle(), T::dtype, i.value.handle()), i.where};
  }
  // This operator is a template so that it does not match a pointer: a pointer converts to its Address, and
  // the sum would then count bytes.
  template <class I>
  requires std::convertible_to<I, Index>
  friend Pointer operator+(Pointer p, I&& elements) {
    const Index index(std::forward<I>(elements));
    return Pointer(detail::element_address(p.handle(), T::dtype, index.value.handle()));
  }
};

// Pointers to elements in global memory, and in shared memory.
template <class T>
using gptr = Pointer<T, gmem>;
template <class T>
using sptr = Pointer<T, smem>;

// Loads `count` consecutive elements in one access; the address must be a multiple of the access's size.
template <int count, class T, class Address>
std::array<T, count> load(Pointer<T, Address> from, Where where = Where::here()) {
  static_assert(std::has_single_bit(static_cast<unsigned>(count)), "1, 2, 4, ... elements in one access");
  AtLine line(where);
  llvm::Value* vector = detail::load(from.handle(), T::cls, count);
  return [&]<size_t... i>(std::index_sequence<i...>) {
    return std::array<T, count>{T(detail::element(vector, static_cast<int>(i)))...};
  }
  (std::make_index_sequence<count>());
}

// Stores consecutive elements in one access; the address must be a multiple of the access's size.
template <class T, class Address, size_t count>
void store(Pointer<T, Address> to, const std::array<T, count>& values, Where where = Where::here()) {
  static_assert(std::has_single_bit(count), "1, 2, 4, ... elements in one access");
  AtLine line(where);
  detail::store(to.handle(), std::vector<Value>(values.begin(), values.end()));
}

// CUDA's device printf: `format` is written as in C, with %u %d %llu %lld %f %c %p matching the values, at
// most 32 of them. The driver prints the result when the host synchronizes. print() uses some stack memory,
// and permits ptxas's advisory about the stack. Do not use print() in kernels with wgmma, because an extern
// call serializes wgmmas (ptxas advisory C7510).
void print(std::string_view format, std::initializer_list<Value> values = {}, Where where = Where::here());

}  // namespace ptxbuilder

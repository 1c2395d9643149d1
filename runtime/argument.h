// The values of kernel parameters, with the types that a launch checks against the kernel's sidecar.
#pragma once

#include <array>
#include <concepts>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/buffer.h"

namespace ptxbuilder::runtime {

// The value of a parameter. The functions below create arguments. An argument allocates memory only for the
// fields of a struct.
struct Argument {
  static constexpr size_t kMaxRank = 5;

  Parameter::Kind kind = Parameter::Kind::scalar;
  DType dtype = DType::u32;
  std::string_view name = {};  // name of the intended parameter; if empty, its position decides
  uint64_t bits = 0;           // for a scalar, its bits in the low bytes
  View memory = {};            // for a pointer or a tensor
  size_t rank = 0;             // for a tensor; the innermost dimension comes first in the lists below
  std::array<uint64_t, kMaxRank> shape = {};                 // in elements
  std::array<uint64_t, kMaxRank - 1> strides = {};           // in bytes, for dimensions 1 to rank - 1
  std::shared_ptr<const std::vector<Argument>> fields = {};  // for a struct
  const TensorMapRecipe* recipe = nullptr;                   // for a tensor map array, the recipe of its maps
  std::shared_ptr<const Im2col> im2col = {};                 // for a tensor that an im2col map describes
  bool overlaps = false;  // for a tensor, whether its rows may overlap; see overlapping()

  // Returns a copy of this argument that is accepted only for the parameter with this name. The string must
  // outlive the launch.
  Argument named(std::string_view parameter) const {
    Argument copy = *this;
    copy.name = parameter;
    return copy;
  }
};

// A list of arguments that are constructed in place: on the stack or, if the list is long, on the heap.
class ArgumentList {
 public:
  explicit ArgumentList(size_t most) : heap_(most > kOnStack ? most : 0) {}
  ~ArgumentList() { std::destroy_n(all(), count_); }
  ArgumentList(const ArgumentList&) = delete;
  ArgumentList& operator=(const ArgumentList&) = delete;

  // Adds the argument that `make` returns. At most `most` arguments may be added.
  template <class Make>
  void add(Make&& make) {
    new (all() + count_) Argument(make());
    ++count_;
  }
  operator std::span<const Argument>() { return {all(), count_}; }  // NOLINT: meant to be implicit

 private:
  static constexpr size_t kOnStack = 16;
  struct Room {
    alignas(Argument) std::byte bytes[sizeof(Argument)];
  };

  Argument* all() { return reinterpret_cast<Argument*>(heap_.empty() ? stack_ : heap_.data()); }

  Room stack_[kOnStack];
  std::vector<Room> heap_;
  size_t count_ = 0;
};

// The C++ types of scalar parameters.
template <class T>
concept Scalar =
    (std::integral<T> && !std::same_as<T, bool>) || std::same_as<T, float> || std::same_as<T, double>;

// Returns the DType of a C++ type: u32 for uint32_t, f32 for float.
template <Scalar T>
constexpr DType dtype_of() {
  if constexpr (std::same_as<T, float>) return DType::f32;
  if constexpr (std::same_as<T, double>) return DType::f64;
  constexpr bool is_signed = std::is_signed_v<T>;
  if constexpr (sizeof(T) == 1) return is_signed ? DType::s8 : DType::u8;
  if constexpr (sizeof(T) == 2) return is_signed ? DType::s16 : DType::u16;
  if constexpr (sizeof(T) == 4) return is_signed ? DType::s32 : DType::u32;
  return is_signed ? DType::s64 : DType::u64;
}

// Returns an argument for a scalar parameter.
template <Scalar T>
Argument scalar(T value) {
  Argument argument{.kind = Parameter::Kind::scalar, .dtype = dtype_of<T>()};
  std::memcpy(&argument.bits, &value, sizeof value);
  return argument;
}

// Returns an argument of a type that does not exist in C++: scalar_bits(DType::bf16, 0x3f80) is 1.
Argument scalar_bits(DType dtype, uint64_t bits);

// Returns an argument for a pointer to elements of a type.
Argument pointer(View memory, DType dtype);

// Returns an argument for a struct. `fields` are its fields in order. They must be scalars or pointers, and
// may be named. The launch lays them out as a C compiler does:
//   runtime::structure({runtime::scalar(2.0f).named("alpha"),
//                       runtime::pointer(bias, DType::f32).named("bias")})
Argument structure(std::vector<Argument> fields);

// Throws an Error unless the rank is 1 to 5, as a tensor map requires.
void check_rank(size_t rank);

// Return an argument for a tensor. `shape` is in elements; `strides` is in bytes, for dimensions 1 to rank -
// 1. The innermost dimension comes first in both. Without strides, the tensor has no gaps. Throw an Error
// unless the rank is 1 to 5 and there are rank - 1 strides.
Argument tensor(View memory, DType dtype, std::span<const uint64_t> shape,
                std::span<const uint64_t> strides = {});
Argument tensor(View memory, DType dtype, std::initializer_list<uint64_t> shape,
                std::initializer_list<uint64_t> strides = {});
// Returns a copy of `tensor` for an im2col map, whose copies walk over pixels as `walk` specifies.
Argument im2col(Argument tensor, Im2col walk);
// Returns a copy of `tensor` whose rows may overlap, like those of sliding windows. A launch rejects other
// tensors with such strides. The kernel should only read the tensor.
Argument overlapping(Argument tensor);

}  // namespace ptxbuilder::runtime

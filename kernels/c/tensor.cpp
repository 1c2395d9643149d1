#include "kernels/c/tensor.h"

#include <fmt/format.h>

#include <cstddef>

namespace ptxbuilder::c {
namespace {

// The layout is that of DLTensor.
static_assert(sizeof(ptxb_tensor) == 48 && offsetof(ptxb_tensor, byte_offset) == 40);

std::string text(ptxb_dtype t) { return fmt::format("code {}, {} bits, {} lanes", t.code, t.bits, t.lanes); }

int64_t elements(const Placed& t, size_t from, size_t to) {
  int64_t count = 1;
  for (size_t i = from; i < to; ++i) count *= t.extent(i);
  return count;
}

bool has_gaps(const Placed& t) {
  for (size_t i = 0; i < t.rank(); ++i)
    if (t.extent(i) > 1 && t.stride(i) != elements(t, i + 1, t.rank())) return true;
  return false;
}

// Reads the elements of a tensor. Throws an Error that names the rule if `fits` returns false.
template <class Fits>
runtime::View elements_that_fit(const char* name, const ptxb_tensor* tensor, DType type, int gpu,
                                const Fits& fits, const std::string& rule) {
  if (!tensor) return {};
  const Placed t(name, tensor, gpu);
  constexpr size_t kMostRank = 3;
  if (t.type != type || t.rank() > kMostRank || !fits(t)) {
    std::string shape;
    for (size_t i = 0; i < t.rank(); ++i) shape += fmt::format("{}{}", i > 0 ? "," : "", t.extent(i));
    throw Error(
        fmt::format("{}: it is [{}] of {}, but must be {}", name, shape, ptxbuilder::name(t.type), rule));
  }
  if (has_gaps(t)) throw Error(fmt::format("{}: it has gaps: make it contiguous", name));
  return t.memory();
}

}  // namespace

DType dtype_of(ptxb_dtype t, const char* name) {
  auto key = [](int code, int bits, int lanes = 1) { return lanes << 16 | bits << 8 | code; };
  switch (key(t.code, t.bits, t.lanes)) {
    case key(PTXB_UINT, 8):
      return DType::u8;
    case key(PTXB_INT, 8):
      return DType::s8;
    case key(PTXB_UINT, 16):
      return DType::u16;
    case key(PTXB_INT, 16):
      return DType::s16;
    case key(PTXB_UINT, 32):
      return DType::u32;
    case key(PTXB_INT, 32):
      return DType::s32;
    case key(PTXB_UINT, 64):
      return DType::u64;
    case key(PTXB_INT, 64):
      return DType::s64;
    case key(PTXB_FLOAT, 16):
      return DType::f16;
    case key(PTXB_BFLOAT, 16):
      return DType::bf16;
    case key(PTXB_FLOAT, 32):
      return DType::f32;
    case key(PTXB_FLOAT, 64):
      return DType::f64;
    case key(PTXB_E4M3, 8):
      return DType::e4m3;
    case key(PTXB_E5M2, 8):
      return DType::e5m2;
  }
  throw Error(fmt::format("{}: its type is not supported: {}", name, text(t)));
}

void refuse_null(const char* what) { throw Error(fmt::format("{} is NULL", what)); }

Placed::Placed(const char* the_name, const ptxb_tensor* the_tensor, int gpu, size_t most_rank)
    : name(the_name), tensor(given(the_tensor, the_name)), type(dtype_of(tensor.dtype, name)) {
  const int32_t place = tensor.device.type, number = gpu;
  constexpr int32_t kCuda = 2, kCudaManaged = 13;  // DLDeviceType
  if (place != 0 && number < 0)
    throw Error(
        fmt::format("{}: its memory is on a device of type {}, but the emulator has its own memory: use "
                    "ptxb_allocate() and ptxb_copy_in()",
                    name, place));
  if (place != 0 && ((place != kCuda && place != kCudaManaged) || tensor.device.id != number))
    throw Error(
        fmt::format("{}: its memory is on device {} of type {}, but the product's device is GPU {} (type 2)",
                    name, tensor.device.id, place, number));
  if (tensor.ndim > static_cast<int32_t>(most_rank))  // before the shape is read
    throw Error(
        fmt::format("{}: it has {} dimensions, but must have at most {}", name, tensor.ndim, most_rank));
  if (tensor.ndim < 0 || (tensor.ndim > 0 && !tensor.shape))
    throw Error(fmt::format("{}: {} dimensions, without a shape", name, tensor.ndim));
  for (size_t i = rank(); i-- > 0;)
    if (extent(i) < 0 || stride(i) < 0)
      throw Error(fmt::format("{}: dimension {} has {} elements and stride {}; neither may be negative", name,
                              i, extent(i), stride(i)));
}

runtime::View Placed::memory() const {
  Wide last = 0;
  for (size_t i = 0; i < rank(); ++i) {
    if (extent(i) == 0) return {address(), 0};
    last += Wide{extent(i) - 1} * stride(i);
  }
  return up_to(last);
}

runtime::View Placed::up_to(Wide last_element) const {
  const Wide bytes = (last_element + 1) * size_of(type);
  if (bytes >> 48) throw Error(fmt::format("{}: it spans more than 2^48 bytes", name));
  return {address(), static_cast<size_t>(bytes)};
}

runtime::View one_float(const char* name, const ptxb_tensor* tensor, int gpu) {
  const auto fits = [](const Placed& t) { return elements(t, 0, t.rank()) == 1; };
  return elements_that_fit(name, tensor, DType::f32, gpu, fits, "one float32, [1]");
}

runtime::View elements_of_lines(const char* name, const ptxb_tensor* tensor, DType type,
                                const std::string& of, int64_t rows, int64_t columns, int64_t batches,
                                int gpu) {
  const auto fits = [&](const Placed& t) {
    const size_t rank = t.rank();
    return (rank >= 2 && t.extent(rank - 2) == rows && t.extent(rank - 1) == columns &&
            elements(t, 0, rank - 2) == batches) ||
           (rank >= 1 && t.extent(rank - 1) == rows * columns && elements(t, 0, rank - 1) == batches);
  };
  const std::string front = batches == 1 ? "" : fmt::format("{},", batches);
  return elements_that_fit(
      name, tensor, type, gpu, fits,
      fmt::format("{} of [{}{}] or [{}{},{}]", of, front, rows * columns, front, rows, columns));
}

}  // namespace ptxbuilder::c

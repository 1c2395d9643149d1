#include "runtime/emulator/instructions/tensor_map_contents.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace ptxbuilder::runtime::emulator {

uint32_t MapContents::box_bytes() const {
  uint32_t bytes = element_bytes();
  for (int d = 0; d < rank; ++d) bytes *= extent(d);
  return im2col ? bytes * pixels : bytes;
}

bool MapContents::slides() const {
  constexpr uint64_t kAllMemory = uint64_t{1} << 57;  // size of a GPU's address space
  for (int d = 1; d < rank; ++d) {
    if (shape[d] > 1 && strides[d - 1] > kAllMemory / (shape[d] - 1)) return true;
    if (d > 1 && strides[d - 1] == strides[d - 2] && shape[d] > 1 && shape[d - 1] > 1) return true;
  }
  return false;
}

Type MapContents::type() const {
  switch (dtype) {
    case DType::u8:
    case DType::e4m3:
    case DType::e5m2:
      return Type::u8;
    case DType::s8:
      return Type::s8;
    case DType::u16:
      return Type::u16;
    case DType::s16:
      return Type::s16;
    case DType::u32:
      return Type::u32;
    case DType::s32:
      return Type::s32;
    case DType::u64:
      return Type::u64;
    case DType::s64:
      return Type::s64;
    case DType::f16:
      return Type::f16;
    case DType::bf16:
      return Type::bf16;
    case DType::f64:
      return Type::f64;
    default:
      return Type::f32;
  }
}

TensorMap encode_map(const TensorMapView& a) {
  if (a.recipe.interleave != Interleave::none)
    throw Error("tensor map: the emulator does not run interleaved maps");
  MapContents m;
  m.magic = map_magic;
  m.rank = static_cast<uint8_t>(a.recipe.rank());
  m.dtype = a.recipe.dtype;
  m.swizzle = a.recipe.swizzle;
  m.fill = a.recipe.oob_fill;
  m.address = a.address;
  for (int d = 0; d < m.rank; ++d) {
    m.shape[d] = a.shape[d];
    if (d > 0) m.strides[d - 1] = a.strides[d - 1];
    m.box[d] = static_cast<uint16_t>(a.recipe.box[d]);
    m.element_strides[d] = static_cast<uint8_t>(a.element_stride(static_cast<size_t>(d)));
  }
  if (a.im2col) {
    std::ranges::copy(a.im2col->lower, m.lower);
    std::ranges::copy(a.im2col->upper, m.upper);
    m.im2col = true;
    m.pixels = static_cast<uint16_t>(a.recipe.pixels);
  }
  static_assert(sizeof(MapContents) <= 128);
  TensorMap map;
  std::memcpy(map.bytes.data(), &m, sizeof m);
  return map;
}

MapContents map_contents(const std::byte* bytes) {
  MapContents m;
  std::memcpy(&m, bytes, sizeof m);
  return m;
}

std::string unsound(const MapContents& m) {
  if (m.rank < 1 || m.rank > 5) return fmt::format("its rank is {}", m.rank);
  if (m.dtype > DType::f64 || m.swizzle > Swizzle::b128 || m.fill > OobFill::nan)
    return "its type, swizzle or fill does not exist";
  uint64_t bytes = m.element_bytes();
  for (int d = 0; d < m.rank; ++d) {
    if (m.box[d] < 1 || m.box[d] > 256) return fmt::format("box[{}] is {}", d, m.box[d]);
    if (m.element_strides[d] < 1 || m.element_strides[d] > 8)
      return fmt::format("element_strides[{}] is {}", d, m.element_strides[d]);
    if (m.shape[d] < 1 || m.shape[d] > uint64_t{1} << 32)
      return fmt::format("shape[{}] is {}", d, m.shape[d]);
    bytes *= m.extent(d);
  }
  if (bytes > shared_limit) return fmt::format("its box has {} B", bytes);
  if (const uint32_t row = m.box[0] * m.element_bytes(), span = 16u << static_cast<int>(m.swizzle);
      m.swizzle != Swizzle::none && row > span)
    return fmt::format("rows of {} B in a box whose swizzle spans {} B", row, span);
  return {};
}

void for_each_row(const MapContents& m, std::span<const int32_t> c,
                  const std::function<void(const BoxRow&)>& row) {
  const uint32_t size = m.element_bytes(), inner = m.box[0];
  uint32_t index[5] = {};
  uint32_t linear = 0;
  const int64_t first = std::max<int64_t>(0, -int64_t{c[0]});
  const int64_t last = std::min<int64_t>(inner, static_cast<int64_t>(m.shape[0]) - c[0]);
  for (;;) {
    bool inside = last > first;
    Address address = m.address + static_cast<uint64_t>((int64_t{c[0]} + first) * size);
    for (int d = 1; d < m.rank; ++d) {
      const int64_t at = int64_t{c[d]} + int64_t{index[d]} * m.element_strides[d];
      inside &= at >= 0 && at < static_cast<int64_t>(m.shape[d]);
      address += static_cast<uint64_t>(at) * m.strides[d - 1];
    }
    row({linear, inner * size, inside ? static_cast<uint32_t>(first) : 0,
         inside ? static_cast<uint32_t>(last) : 0, address});
    linear += inner * size;
    int d = 1;
    while (d < m.rank && ++index[d] == m.extent(d)) index[d++] = 0;
    if (d >= m.rank) return;
  }
}

void for_each_pixel(const MapContents& m, std::array<int32_t, 5> c, std::span<const uint16_t> offsets,
                    const std::function<void(const BoxRow&)>& row) {
  const uint32_t size = m.element_bytes(), channels = m.box[0];
  const int64_t first = std::max<int64_t>(0, -int64_t{c[0]});
  const int64_t last = std::min<int64_t>(channels, static_cast<int64_t>(m.shape[0]) - c[0]);
  const auto images = static_cast<size_t>(m.rank - 1);
  for (uint32_t pixel = 0; pixel < m.pixels; ++pixel) {
    bool inside = last > first;
    Address address = m.address + static_cast<uint64_t>((int64_t{c[0]} + first) * size);
    for (size_t d = 1; d <= images; ++d) {
      const int64_t at = int64_t{c[d]} + (d <= offsets.size() ? offsets[d - 1] : 0);
      inside &= at >= 0 && at < static_cast<int64_t>(m.shape[d]);
      address += static_cast<uint64_t>(at) * m.strides[d - 1];
    }
    row({pixel * channels * size, channels * size, inside ? static_cast<uint32_t>(first) : 0,
         inside ? static_cast<uint32_t>(last) : 0, address});
    size_t d = 1;
    for (; d < images; ++d) {
      c[d] += m.element_strides[d];
      if (c[d] < static_cast<int64_t>(m.shape[d]) + m.upper[d - 1]) break;
      c[d] = m.lower[d - 1];
    }
    if (d == images) ++c[images];
  }
}

}  // namespace ptxbuilder::runtime::emulator

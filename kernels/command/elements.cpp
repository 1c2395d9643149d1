#include "kernels/command/elements.h"

#include <bit>
#include <cstring>

#include "runtime/emulator/numeric.h"

namespace ptxbuilder::command {
namespace {

using namespace runtime::emulator;

uint64_t bits_of(DType type, double value) {
  switch (type) {
    case DType::f16:
      return encode(value, f16_format);
    case DType::bf16:
      return encode(value, bf16_format);
    case DType::e4m3:
      return encode(value, e4m3_format, Rounding::rn, true);
    case DType::e5m2:
      return encode(value, e5m2_format, Rounding::rn, true);
    case DType::tf32:  // the low 13 bits of the word are ignored
    case DType::f32:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    case DType::f64:
      return std::bit_cast<uint64_t>(value);
    default:
      return value < 0 ? static_cast<uint64_t>(static_cast<int64_t>(value)) : static_cast<uint64_t>(value);
  }
}

}  // namespace

void put(std::byte* to, DType type, double value) {
  const uint64_t bits = bits_of(type, value);
  std::memcpy(to, &bits, static_cast<size_t>(size_of(type)));
}

double value_of(const std::byte* from, DType type) {
  uint64_t bits = 0;
  const auto size = static_cast<size_t>(size_of(type));
  std::memcpy(&bits, from, size);
  const auto code = static_cast<uint32_t>(bits);
  switch (type) {
    case DType::f16:
      return decode(code, f16_format);
    case DType::bf16:
      return decode(code, bf16_format);
    case DType::e4m3:
      return decode(code, e4m3_format);
    case DType::e5m2:
      return decode(code, e5m2_format);
    case DType::tf32:
      return from_tf32(code);
    case DType::f32:
      return std::bit_cast<float>(code);
    case DType::f64:
      return std::bit_cast<double>(bits);
    default:
      if (!is_signed(type)) return static_cast<double>(bits);
      const auto unused = 64 - 8 * size;
      return static_cast<double>(static_cast<int64_t>(bits << unused) >> unused);
  }
}

bool is_integer(DType type) {
  switch (type) {
    case DType::u8:
    case DType::s8:
    case DType::u16:
    case DType::s16:
    case DType::u32:
    case DType::s32:
    case DType::u64:
    case DType::s64:
      return true;
    default:
      return false;
  }
}

bool is_signed(DType type) {
  return type == DType::s8 || type == DType::s16 || type == DType::s32 || type == DType::s64;
}

}  // namespace ptxbuilder::command

// Converts register tiles between element types, two elements at a time if the hardware has a packed
// conversion (PTX ISA, cvt and cvt.pack).
#include <fmt/format.h>

#include "ptxbuilder/ir/typed_calls.h"
#include "ptxbuilder/registers/values.h"

namespace ptxbuilder::detail {
namespace {

bool is_wide_integer(DType type) { return type == DType::s32 || type == DType::u32; }
bool is_tile_integer(DType type) { return is_int8(type) || is_wide_integer(type); }

Value emitted(const isa::Row& row, const std::vector<Argument>& arguments) {
  return Builder::current().emit(row, arguments, std::nullopt)[0];
}

// Calls pair(i, i + 1) for each pair of elements below `count`. If the last element has no partner, it is
// paired with itself.
void each_pair(size_t count, const std::function<void(size_t, size_t)>& pair) {
  for (size_t i = 0; i < count; i += 2) pair(i, std::min(i + 1, count - 1));
}

// Combines pairs of bytes, which are in the low halves of registers, into registers of four bytes.
std::vector<Value> join_halves(const std::vector<u32>& halves) {
  std::vector<Value> words;
  each_pair(halves.size(),
            [&](size_t low, size_t high) { words.push_back(halves[high] << 16 | halves[low]); });
  return words;
}

// Convert registers of e4m3 or e5m2 to registers of two f16, which represent the elements exactly, and back.
std::vector<Value> halves_of_fp8(const TileValues& x) {
  std::vector<Value> words;
  size_t count = static_cast<size_t>(x.layout.values() + 1) / 2;
  for (size_t i = 0; i < count; ++i) {
    u16 pair(u32(x.words[i / 2].handle()) >> static_cast<uint32_t>(16 * (i % 2)));
    words.push_back(emitted(isa::cvt_f16x2_from(*x.dtype), {pair}));
  }
  return words;
}

std::vector<Value> fp8_of_halves(DType to, const std::vector<Value>& words) {
  std::vector<u32> halves;
  for (const Value& v : words) halves.emplace_back(u16(emitted(isa::cvt_f16x2_to(to), {v}).handle()));
  return join_halves(halves);
}

// Returns every element as an f32. An integer that f32 cannot represent is rounded once.
std::vector<f32> as_f32(const TileValues& x) {
  std::vector<f32> values;
  if (is_fp8(*x.dtype)) return as_f32({DType::f16, x.layout, halves_of_fp8(x)});
  for (Value v : elements_of(x)) switch (*x.dtype) {
      case DType::f16:
        values.emplace_back(f16(v.handle()));
        break;
      case DType::bf16:
        values.emplace_back(bf16(v.handle()));
        break;
      case DType::s32:
        values.emplace_back(s32(v.handle()));
        break;
      case DType::u32:
      case DType::u8:
        values.emplace_back(u32(v.handle()));
        break;
      case DType::s8:
        values.emplace_back((s32(v.handle()) << 24) >> 24);
        break;
      default:
        values.emplace_back(v.handle());
    }
  return values;
}

std::vector<Value> from_f32(DType to, const std::vector<f32>& x) {
  std::vector<Value> words;
  if (to == DType::f32) return {x.begin(), x.end()};
  if (to == DType::tf32)
    for (f32 v : x) words.push_back(bit_cast<f32>(cvt_rna_tf32_f32(v)));
  if (to == DType::s32)
    for (f32 v : x) words.push_back(cvt_rzi_s32_f32(v));
  if (to == DType::u32)
    for (f32 v : x) words.push_back(cvt_rzi_u32_f32(v));
  if (is_half(to))
    each_pair(x.size(), [&](size_t low, size_t high) {
      words.push_back(emitted(isa::cvt_pack(to), {x[high], x[low]}));
    });
  if (!is_fp8(to)) return words;
  std::vector<u32> halves;
  each_pair(x.size(), [&](size_t low, size_t high) {
    halves.emplace_back(u16(emitted(isa::cvt_pack(to), {x[high], x[low]}).handle()));
  });
  return join_halves(halves);
}

// Returns every element of an integer type in 32 bits, sign-extended if the type is signed and zero-extended
// otherwise.
std::vector<Value> as_integers(const TileValues& x) {
  std::vector<Value> values = elements_of(x);
  if (x.dtype == DType::s8)
    for (Value& v : values) v = (s32(v.handle()) << 24) >> 24;
  return values;
}

std::vector<Value> bytes_of(DType to, std::vector<Value> x, bool is_unsigned) {
  std::vector<u32> halves;
  if (is_unsigned)  // cvt.pack would treat large unsigned numbers as negative
    for (Value& v : x) v = min(u32(v.handle()), 255u);
  each_pair(x.size(), [&](size_t low, size_t high) {
    halves.emplace_back(emitted(isa::cvt_pack_integer(to), {x[high], x[low], u32(0)}).handle());
  });
  return join_halves(halves);
}

std::vector<Value> bf16_of_integers(const TileValues& x) {  // each element is rounded once
  std::vector<Value> values;
  for (Value v : as_integers(x))
    values.push_back(x.dtype == DType::u32 ? cvt_rn_bf16_u32(u32(v.handle()))
                                           : cvt_rn_bf16_s32(s32(v.handle())));
  return from_elements(DType::bf16, x.layout, values).words;
}

std::vector<Value> converted(DType to, const TileValues& x) {
  DType from = *x.dtype;
  if (to == from) return x.words;
  if (to == DType::f32 && from == DType::tf32) return x.words;  // a tf32 is already a valid f32
  if (is_tile_integer(from) && is_wide_integer(to)) return as_integers(x);
  if (is_tile_integer(from) && is_int8(to)) return bytes_of(to, as_integers(x), from == DType::u32);
  if (is_tile_integer(from) && to == DType::bf16) return bf16_of_integers(x);
  if (is_fp8(from) && to == DType::f16) return halves_of_fp8(x);
  if (from == DType::f16 && is_fp8(to)) return fp8_of_halves(to, x.words);
  if (is_fp8(from) && is_fp8(to)) return fp8_of_halves(to, halves_of_fp8(x));
  if (is_int8(to)) {
    std::vector<f32> wide = as_f32(x);
    return bytes_of(to, from_f32(DType::s32, wide), false);
  }
  return from_f32(to, as_f32(x));
}

}  // namespace

TileValues tile_convert(DType to, const TileValues& x) { return {to, x.layout, converted(to, x)}; }

}  // namespace ptxbuilder::detail

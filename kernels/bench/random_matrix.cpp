#include "kernels/bench/random_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "ptxbuilder/error.h"

namespace ptxbuilder::bench {
namespace {

// Exponent and mantissa bits of the formats that are rounded here (OCP 8-bit Floating Point Specification;
// PTX ISA, "Alternate Floating-Point Data Formats").
struct Format {
  int exponent, mantissa;
  double greatest;
};

Format format_of(DType type) {
  switch (type) {
    case DType::f16:
      return {5, 10, 65504};
    case DType::bf16:
      return {8, 7, 0x1.fep127};
    case DType::tf32:
      return {8, 10, 0x1.ffcp127};
    case DType::e4m3:
      return {4, 3, 448};
    case DType::e5m2:
      return {5, 2, 57344};
    default:
      throw Error(fmt::format("random data of {} is not made", name(type)));
  }
}

// Rounds to nearest even at the place of the last mantissa bit.
double rounded(const Format& f, double value) {
  if (value == 0 || std::isnan(value)) return value;
  const int bias = (1 << (f.exponent - 1)) - 1;
  const int exponent = std::max(std::ilogb(value), 1 - bias);
  const double unit = std::ldexp(1.0, exponent - f.mantissa);
  return std::clamp(std::nearbyint(value / unit) * unit, -f.greatest, f.greatest);
}

uint32_t bits_of(const Format& f, double value) {
  const int bias = (1 << (f.exponent - 1)) - 1;
  const uint32_t sign = std::signbit(value) ? 1u << (f.exponent + f.mantissa) : 0;
  const double magnitude = std::abs(rounded(f, value));
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  const auto mantissa = static_cast<uint32_t>(std::ldexp(magnitude, f.mantissa - exponent));
  const uint32_t hidden = 1u << f.mantissa;
  if (mantissa < hidden) return sign | mantissa;  // subnormal
  return sign | static_cast<uint32_t>(exponent + bias) << f.mantissa | (mantissa - hidden);
}

double value_of(const Format& f, uint32_t bits) {
  const int bias = (1 << (f.exponent - 1)) - 1;
  const uint32_t hidden = 1u << f.mantissa, mantissa = bits & (hidden - 1);
  const int exponent = static_cast<int>(bits >> f.mantissa & ((1u << f.exponent) - 1));
  const double sign = bits >> (f.exponent + f.mantissa) & 1 ? -1 : 1;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, 1 - bias - f.mantissa)
                                         : std::ldexp(mantissa + hidden, exponent - bias - f.mantissa);
  // What lies beyond the greatest is infinite or NaN; here both count as not a number.
  return magnitude > f.greatest ? NAN : sign * magnitude;
}

bool scaled_to_greatest(DType type) {
  return type == DType::e4m3 || type == DType::e5m2 || type == DType::s8;
}

}  // namespace

uint32_t encode_number(DType type, double value) {
  switch (type) {
    case DType::f32:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    case DType::tf32:
      return std::bit_cast<uint32_t>(static_cast<float>(rounded(format_of(type), value)));
    case DType::s8:
      return static_cast<uint8_t>(static_cast<int>(std::clamp(std::nearbyint(value), -127.0, 127.0)));
    case DType::s32:
      return static_cast<uint32_t>(static_cast<int64_t>(std::nearbyint(value)));
    default:
      return bits_of(format_of(type), value);
  }
}

double decode_number(DType type, uint32_t bits) {
  switch (type) {
    case DType::f32:
    case DType::tf32:
      return static_cast<double>(std::bit_cast<float>(bits));
    case DType::bf16:  // these two without the general way, since whole outputs are read
      return static_cast<double>(std::bit_cast<float>(bits << 16));
    case DType::f16:
      return static_cast<double>(std::bit_cast<_Float16>(static_cast<uint16_t>(bits)));
    case DType::s8:
      return static_cast<int8_t>(bits);
    case DType::s32:
      return static_cast<int32_t>(bits);
    default:
      return value_of(format_of(type), bits);
  }
}

double greatest(DType type) { return type == DType::s8 ? 127 : format_of(type).greatest; }

RandomBlock::RandomBlock(const Gpu& gpu, DType type, uint64_t seed)
    : type_(type), values_(kCount), buffer_(gpu.device(), kCount * static_cast<size_t>(size_of(type))) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  float largest = 0;
  for (float& value : values_) {
    value = normal(random);
    largest = std::max(largest, std::abs(value));
  }
  const double scale = scaled_to_greatest(type) ? greatest(type) / static_cast<double>(largest) : 1;
  const auto bytes = static_cast<size_t>(size_of(type));
  std::vector<std::byte> bits(kCount * bytes);
  for (size_t i = 0; i < kCount; ++i) {
    const uint32_t number = encode_number(type, scale * static_cast<double>(values_[i]));
    std::memcpy(bits.data() + i * bytes, &number, bytes);
    values_[i] = static_cast<float>(decode_number(type, number));
  }
  buffer_.copy_in(bits);
}

RandomContents::RandomContents(size_t count, std::mt19937_64& random) : count_(count) {
  // Runs of a quarter of the block to half of it; offsets in steps of 16 elements, which copies like.
  constexpr size_t kStep = 16, kLeast = RandomBlock::kCount / 4, kMost = RandomBlock::kCount / 2;
  std::uniform_int_distribution<size_t> lengths(kLeast / kStep, kMost / kStep);
  std::uniform_int_distribution<size_t> sources(0, (RandomBlock::kCount - kMost) / kStep);
  for (size_t first = 0; first < count; first += lengths(random) * kStep)
    runs_.push_back({first, sources(random) * kStep});
}

void RandomContents::write(const Gpu& gpu, const RandomBlock& block, runtime::Address to) const {
  const auto bytes = static_cast<size_t>(size_of(block.type()));
  for (size_t i = 0; i < runs_.size(); ++i) {
    const size_t end = i + 1 < runs_.size() ? runs_[i + 1].first : count_;
    gpu.copy(to + runs_[i].first * bytes, block.address() + runs_[i].source * bytes,
             (end - runs_[i].first) * bytes);
  }
}

double RandomContents::value(const RandomBlock& block, size_t i) const {
  auto run =
      std::upper_bound(runs_.begin(), runs_.end(), i, [](size_t at, const Run& r) { return at < r.first; });
  --run;
  return block.value(run->source + (i - run->first));
}

}  // namespace ptxbuilder::bench

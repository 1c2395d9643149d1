#include "runtime/emulator/instructions/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "runtime/emulator/machine/numeric.h"

namespace ptxbuilder::runtime::emulator {

ElementType element_type(Type type) {
  switch (type) {
    case Type::f16:
    case Type::bf16:
      return {type, 2, false};
    case Type::tf32:
      return {type, 4, false};
    case Type::e4m3:
    case Type::e5m2:
      return {type, 1, false};
    case Type::u8:
    case Type::s8:
      return {type, 1, true};
    default:
      return {};
  }
}

float ElementType::real(const std::byte* at) const {
  static const auto table = [](Format format) {
    std::vector<float> values(256);
    for (uint32_t code = 0; code < 256; ++code) values[code] = decode(code, format);
    return values;
  };
  static const std::vector<float> e4m3 = table(e4m3_format), e5m2 = table(e5m2_format);
  uint32_t bits = 0;
  switch (type) {
    case Type::f16:
      std::memcpy(&bits, at, 2);
      return from_f16(static_cast<uint16_t>(bits));
    case Type::bf16:
      std::memcpy(&bits, at, 2);
      return from_bf16(static_cast<uint16_t>(bits));
    case Type::tf32:
      std::memcpy(&bits, at, 4);
      return from_tf32(bits);
    case Type::e4m3:
      return e4m3[static_cast<size_t>(*at)];
    default:
      return e5m2[static_cast<size_t>(*at)];
  }
}

int32_t ElementType::whole(const std::byte* at) const {
  return type == Type::s8 ? static_cast<int8_t>(*at) : static_cast<int32_t>(static_cast<uint8_t>(*at));
}

int Sparsity::most_selector() const {
  // Each of 16 rows has four bits per group, and a register holds 32 bits. `lanes` is the number of lanes
  // (out of four) that hold the metadata of a row.
  const int lanes = groups() / 4;
  return 4 / lanes - 1;
}

uint32_t Sparsity::bits(int row, int group, const uint32_t* metadata) const {
  const int quad = row % 8 * 4, upper = row / 8;
  if (element_bits >= 16) {
    const int lanes = groups() / 4;
    return metadata[quad + selector * lanes + group / 4] >> (16 * upper + 4 * (group % 4)) & 15;
  }
  return metadata[quad + 2 * selector + 2 * (group / 8) + upper] >> (4 * (group % 8)) & 15;
}

// The rules for the four bits of a group are those of PTX ISA, "Sparse matrix storage".
std::string Sparsity::refusal(const uint32_t* metadata, bool ordered) const {
  for (int row = 0; row < 16; ++row)
    for (int group = 0; group < groups(); ++group) {
      const uint32_t both = bits(row, group, metadata), low = both & 3, high = both >> 2;
      const auto refuse = [&](const std::string& rule) {
        return fmt::format("the metadata of row {} has {:#06b} for group {}: {}", row, both, group, rule);
      };
      if (element_bits == 32) {
        if (both != 0b0100 && both != 0b1110) return refuse("for .tf32 it must be 0b0100 or 0b1110");
      } else if (low == high) {
        return refuse(fmt::format("both stored elements are element {} of the four", low));
      } else if (ordered && low > high) {
        return refuse("with .sp::ordered_metadata, the two elements of a group must ascend");
      }
    }
  return "";
}

int Sparsity::column(int row, int stored, const uint32_t* metadata) const {
  if (element_bits == 32) return 2 * stored + (bits(row, stored, metadata) == 0b1110);
  const int unit = element_bits == 4 ? 2 : 1;  // number of elements that are stored together
  const int group = stored / (2 * unit), nth = stored / unit % 2;
  const auto which = static_cast<int>(bits(row, group, metadata) >> (2 * nth) & 3);
  return (4 * group + which) * unit + stored % unit;
}

namespace {

// Receives sums and adds them to a matrix row by row; ToRegisters adds them to accumulator registers instead.
struct ToMatrix {
  float* c;
  int n;

  template <int block>
  [[gnu::always_inline]] void add(int row, int from, const float* sum) const {
    float* out = c + row * n + from;
    for (int j = 0; j < block; ++j) out[j] += sum[j];
  }
};
struct ToRegisters {
  float* const* registers;
  bool accumulates;

  template <int block>
  [[gnu::always_inline]] void add(int row, int from, const float* sum) const {
    for (int j = 0; j < block / 4; ++j) {  // odd values of j handle the odd columns of each eight
      float* out = registers[(from / 8 + j / 2) * 4 + row / 8 * 2 + j % 2] + row % 8 * 4;
      for (int i = 0; i < 4; ++i) out[i] = (accumulates ? out[i] : 0.0F) + sum[j * 4 + i];
    }
  }
};

template <int block, class To>
[[gnu::always_inline]] inline void multiply_block(const float* a, const float* b, const To& to, int n,
                                                  int k) {
  for (int from = 0; from < n; from += block)
    for (int row = 0; row < 16; ++row) {
      float sum[block] = {};
      for (int i = 0; i < k; ++i) {
        const float x = a[row * k + i];
        const float* y = b + i * n + from;
        for (int j = 0; j < block; ++j) sum[j] += x * y[j];
      }
      to.template add<block>(row, from, sum);
    }
}

template <class To>
[[gnu::always_inline]] inline void multiply_any(const float* a, const float* b, const To& to, int n, int k) {
  if (n % 64 == 0)
    multiply_block<64>(a, b, to, n, k);
  else if (n % 32 == 0)
    multiply_block<32>(a, b, to, n, k);
  else
    multiply_block<8>(a, b, to, n, k);
}

template <class To>
void multiply_plain(const float* a, const float* b, const To& to, int n, int k) {
  multiply_any(a, b, to, n, k);
}
#if defined(__x86_64__)
// This is compiled without fused multiply-add, so that the sums are the same on every host.
template <class To>
__attribute__((target("avx2"))) void multiply_wide(const float* a, const float* b, const To& to, int n,
                                                   int k) {
  multiply_any(a, b, to, n, k);
}
const bool has_wide = __builtin_cpu_supports("avx2");
#endif

template <class To>
void multiply_to(const float* a, const float* b, const To& to, int n, int k) {
#if defined(__x86_64__)
  if (has_wide) return multiply_wide(a, b, to, n, k);
#endif
  multiply_plain(a, b, to, n, k);
}

}  // namespace

void multiply(const float* a, const float* b, float* c, int n, int k) {
  multiply_to(a, b, ToMatrix{c, n}, n, k);
}

void multiply_into_registers(const float* a, const float* b, float* const* registers, int n, int k,
                             bool accumulates) {
  multiply_to(a, b, ToRegisters{registers, accumulates}, n, k);
}

void multiply(const int32_t* a, const int32_t* b, int32_t* c, int n, int k, bool saturate) {
  for (int row = 0; row < 16; ++row)
    for (int j = 0; j < n; ++j) {
      int64_t sum = c[row * n + j];
      for (int i = 0; i < k; ++i) sum += int64_t{a[row * k + i]} * b[i * n + j];
      if (saturate)
        sum = std::clamp<int64_t>(sum, std::numeric_limits<int32_t>::min(),
                                  std::numeric_limits<int32_t>::max());
      c[row * n + j] = static_cast<int32_t>(sum);
    }
}

}  // namespace ptxbuilder::runtime::emulator

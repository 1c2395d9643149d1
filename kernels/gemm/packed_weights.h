// Weights of 4 or 8 bits as B of a product: they are packed ahead, in the order in which a warpgroup takes
// them as wgmma's operand in registers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ptxbuilder/dtype.h"

namespace ptxbuilder::kernels {

// Each but `none` is a row of weight.def.
enum class WeightType : uint8_t {
  none,
#define PTXBUILDER_WEIGHT(word, ...) word,
#include "kernels/gemm/weight.def"
};

// A row of weight.def.
struct WeightRow {
  std::string_view word;
  int bits, least, greatest;
  bool has_zeros;
};
// The row of a type is at its number less 1.
inline constexpr std::array weight_rows = {
#define PTXBUILDER_WEIGHT(word, c_word, bits, least, greatest, zeros, meaning) \
  WeightRow{#word, bits, least, greatest, zeros},
#include "kernels/gemm/weight.def"
};

// This says how a B is packed. Each `group` values of k of a column of B have a scale, of the type `scales`,
// and with uint4 a zero: 32, 64 or 128 of k, or 0 for all of k. With 0 there is no scale: a product has
// column_scales.
struct PackedForm {
  WeightType type = WeightType::none;
  uint8_t group = 0;
  DType scales = DType::f32;

  constexpr bool is_packed() const { return type != WeightType::none; }
  constexpr const WeightRow& row() const { return weight_rows[static_cast<size_t>(type) - 1]; }
  constexpr bool has_scales() const { return is_packed() && group != 0; }
  constexpr bool has_zeros() const { return is_packed() && row().has_zeros; }
  bool operator==(const PackedForm&) const = default;
};

// Returns the rule that a form breaks, or "" if it breaks none.
std::string refusal_of(const PackedForm& form);
// Returns the type, the group and the type of scales, as "int4_128_f32", or "int8" without groups.
std::string text(const PackedForm& form);

// Weights are packed in blocks of 64 columns of B, which are wgmma's rows, by 128 of k. The blocks of 64
// columns follow each other along k. Beyond B a block has bits of 0.
inline constexpr int kPackedColumns = 64, kPackedDepth = 128;

// These are the parts of a block, in bytes from its beginning: the weights, then a scale for each column,
// group by group, and then likewise the zeros, 16 bits each.
struct PackedBlock {
  int scales, zeros, bytes;
  int groups;  // of a block along k; 1 where they are longer
};
constexpr PackedBlock block_of(const PackedForm& form) {
  PackedBlock block = {};
  block.groups = form.group == 0 ? 1 : kPackedDepth / form.group;
  block.scales = kPackedColumns * kPackedDepth * form.row().bits / 8;
  block.zeros = block.scales + (form.has_scales() ? block.groups * kPackedColumns * size_of(form.scales) : 0);
  block.bytes = block.zeros + (form.has_zeros() ? block.groups * kPackedColumns * 2 : 0);
  return block;
}

// A thread of the warpgroup has all pairs of weights of its part of wgmma's operand in 32-bit words: pair p
// of a word has its first weight at bit `bits` * p, and its second 16 bits higher. Four words of a thread
// follow each other, then come those of the next thread, and then the next four words of each.
struct PackedPlace {
  int word;   // from the block's beginning
  int shift;  // of the weight, in the word
};
constexpr PackedPlace place_of(int bits, int column, int k) {
  const int warp = column / 16, high_row = column % 16 / 8, row = column % 8;
  const int step = k / 16, high_pair = k % 16 / 8, pair = k % 8 / 2, second = k % 2;
  const int thread = 32 * warp + 4 * row + pair, of_operand = high_row + 2 * high_pair;
  const int pairs = 16 / bits, word = step * 4 / pairs + of_operand / pairs;
  return {(word / 4 * 128 + thread) * 4 + word % 4, bits * (of_operand % pairs) + 16 * second};
}

// Returns the number of groups of k; there is one of all of k if the form has none.
constexpr int64_t packed_groups(const PackedForm& form, int64_t k) {
  return form.group == 0 ? (k > 0 ? 1 : 0) : (k + form.group - 1) / form.group;
}

// Returns the bytes that weights of n columns and k rows take; each of the functions below throws Error for a
// form that breaks a rule, or spans of other sizes.
int64_t packed_bytes(const PackedForm& form, int64_t n, int64_t k);

// These are the numbers of weights before they are packed, without gaps: a byte for each weight, scales of
// their type, and a byte for each zero. `scales` and `zeros` are empty if the form has none.
template <class Byte>
struct PlainWeights {
  std::span<Byte> weights;        // n lines of k
  std::span<Byte> scales, zeros;  // n lines of packed_groups()
};

// Returns the number that a product takes: a weight less its zero, times its scale.
double number_at(const PackedForm& form, int64_t k, const PlainWeights<const std::byte>& of, int64_t column,
                 int64_t at);

// Packs weights. Throws Error for weights and zeros that the type does not have, and for NaN of e4m3.
void pack_weights(const PackedForm& form, int64_t n, int64_t k, const PlainWeights<const std::byte>& from,
                  std::span<std::byte> to);
// Does the reverse.
void unpack_weights(const PackedForm& form, int64_t n, int64_t k, std::span<const std::byte> from,
                    const PlainWeights<std::byte>& to);

}  // namespace ptxbuilder::kernels

// Weights of 4 or 8 bits as B of a product. They are packed before the product, in the order in which a
// warpgroup reads them as wgmma's operand in registers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ptxbuilder/dtype.h"

namespace ptxbuilder::kernels {

// Each type except `none` is a row of weight.def.
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
// The row of a type is at the type's number minus 1.
inline constexpr std::array weight_rows = {
#define PTXBUILDER_WEIGHT(word, c_word, bits, least, greatest, zeros, meaning) \
  WeightRow{#word, bits, least, greatest, zeros},
#include "kernels/gemm/weight.def"
};

// Describes how a B is packed. Along k, every `group` values of a column of B have a scale, of the type
// `scales`, and with uint4 a zero point. `group` is 32, 64 or 128, or 0 for all of k; with 0 there is no
// scale, and the product's column_scales are used.
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

// Returns the rule that a form violates, or "" if it is valid.
std::string refusal_of(const PackedForm& form);
// Returns the type, the group and the type of scales, such as "int4_128_f32", or "int8" without groups.
std::string text(const PackedForm& form);

// Weights are packed in blocks of 64 columns of B, which are wgmma's rows, by 128 values of k. The blocks of
// the same 64 columns follow each other along k. Bits of a block that are outside B are 0.
inline constexpr int kPackedColumns = 64, kPackedDepth = 128;

// The offsets of a block's parts, in bytes from its beginning: the weights; a scale for each column, group by
// group; and the zero points in the same order. A zero point has 16 bits.
struct PackedBlock {
  int scales, zeros, bytes;
  int groups;  // groups of a block along k; 1 if a group is longer than a block
};
constexpr PackedBlock block_of(const PackedForm& form) {
  PackedBlock block = {};
  block.groups = form.group == 0 ? 1 : kPackedDepth / form.group;
  block.scales = kPackedColumns * kPackedDepth * form.row().bits / 8;
  block.zeros = block.scales + (form.has_scales() ? block.groups * kPackedColumns * size_of(form.scales) : 0);
  block.bytes = block.zeros + (form.has_zeros() ? block.groups * kPackedColumns * 2 : 0);
  return block;
}

// The position of a weight in a block. Each thread of the warpgroup holds all pairs of weights of its part of
// wgmma's operand in 32-bit words: pair p of a word has its first weight at bit `bits` * p, and its second
// weight 16 bits higher. Four words of a thread are followed by four words of the next thread, and so on;
// then come the next four words of each thread.
struct PackedPlace {
  int word;   // index of the word in the block
  int shift;  // position of the weight's lowest bit in the word
};
constexpr PackedPlace place_of(int bits, int column, int k) {
  const int warp = column / 16, high_row = column % 16 / 8, row = column % 8;
  const int step = k / 16, high_pair = k % 16 / 8, pair = k % 8 / 2, second = k % 2;
  const int thread = 32 * warp + 4 * row + pair, of_operand = high_row + 2 * high_pair;
  const int pairs = 16 / bits, word = step * 4 / pairs + of_operand / pairs;
  return {(word / 4 * 128 + thread) * 4 + word % 4, bits * (of_operand % pairs) + 16 * second};
}

// Returns the number of groups along k, which is 1 if the form has no groups.
constexpr int64_t packed_groups(const PackedForm& form, int64_t k) {
  return form.group == 0 ? (k > 0 ? 1 : 0) : (k + form.group - 1) / form.group;
}

// Returns the bytes that weights of n columns and k rows take. Like the functions below, it throws Error for
// a form that violates a rule, or for spans of the wrong size.
int64_t packed_bytes(const PackedForm& form, int64_t n, int64_t k);

// Weights, scales and zero points before they are packed, without gaps: a byte for each weight, the scales in
// their type, and a byte for each zero point. `scales` and `zeros` are empty if the form has none.
template <class Byte>
struct PlainWeights {
  std::span<Byte> weights;        // n lines of k
  std::span<Byte> scales, zeros;  // n lines of packed_groups()
};

// Returns the number that a product uses: a weight minus its zero point, times its scale.
double number_at(const PackedForm& form, int64_t k, const PlainWeights<const std::byte>& of, int64_t column,
                 int64_t at);

// Packs weights. Throws Error for weights and zero points that the type does not have, and for NaN in e4m3.
void pack_weights(const PackedForm& form, int64_t n, int64_t k, const PlainWeights<const std::byte>& from,
                  std::span<std::byte> to);
// Unpacks what pack_weights() packed.
void unpack_weights(const PackedForm& form, int64_t n, int64_t k, std::span<const std::byte> from,
                    const PlainWeights<std::byte>& to);

}  // namespace ptxbuilder::kernels

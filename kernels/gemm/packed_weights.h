// Weights of 4 or 8 bits, which can be B of a product. They are packed in advance, in the order in which a
// warpgroup reads them into registers as an operand of wgmma.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ptxbuilder/dtype.h"

namespace ptxbuilder::kernels {

// The types of weights. Each type except `none` corresponds to a row of weight.def.
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
// The rows of weight.def. The row of a type has the type's number minus 1 as its index.
inline constexpr std::array weight_rows = {
#define PTXBUILDER_WEIGHT(word, c_word, bits, least, greatest, zeros, meaning) \
  WeightRow{#word, bits, least, greatest, zeros},
#include "kernels/gemm/weight.def"
};

// Describes how B is packed. In a column of B, every `group` consecutive values along k have a common scale
// of type `scales` and, with uint4, a common zero point. `group` is 32, 64, 128 or 0. If it is 0, a group
// covers all of k and has no scale; the product's column_scales serve instead.
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
// Returns a form as a string, such as "int4_128_f32", that consists of the type of weights, the size of
// groups and the type of scales. Without groups, the string is the type of weights alone, such as "int8".
std::string text(const PackedForm& form);

// The size of a block of packed weights: 64 columns of B (rows of wgmma) by 128 values of k. The blocks of
// the same 64 columns are consecutive in memory, in the order of k. Bits of a block that are outside B are 0.
inline constexpr int kPackedColumns = 64, kPackedDepth = 128;

// The layout of a block. The weights come first. They are followed by the scales, with one scale for each
// column, group by group, and then by the zero points in the same order. A zero point has 16 bits. `scales`
// and `zeros` are offsets from the block's beginning, in bytes.
struct PackedBlock {
  int scales, zeros, bytes;
  int groups;  // number of groups in a block along k; 1 if a group is longer than a block
};
constexpr PackedBlock block_of(const PackedForm& form) {
  PackedBlock block = {};
  block.groups = form.group == 0 ? 1 : kPackedDepth / form.group;
  block.scales = kPackedColumns * kPackedDepth * form.row().bits / 8;
  block.zeros = block.scales + (form.has_scales() ? block.groups * kPackedColumns * size_of(form.scales) : 0);
  block.bytes = block.zeros + (form.has_zeros() ? block.groups * kPackedColumns * 2 : 0);
  return block;
}

// The position of a weight in a block. A thread of the warpgroup reads 32-bit words that contain all pairs of
// weights in its part of wgmma's operand. Pair p of a word has its first weight at bit `bits` * p, and its
// second weight 16 bits higher. Words are stored in groups of four: the first four words of every thread, in
// the order of threads, then the next four words of every thread, and so on.
struct PackedPlace {
  int word;   // index of the word within the block
  int shift;  // position of the weight's lowest bit within the word
};
constexpr PackedPlace place_of(int bits, int column, int k) {
  const int warp = column / 16, high_row = column % 16 / 8, row = column % 8;
  const int step = k / 16, high_pair = k % 16 / 8, pair = k % 8 / 2, second = k % 2;
  const int thread = 32 * warp + 4 * row + pair, of_operand = high_row + 2 * high_pair;
  const int pairs = 16 / bits, word = step * 4 / pairs + of_operand / pairs;
  return {(word / 4 * 128 + thread) * 4 + word % 4, bits * (of_operand % pairs) + 16 * second};
}

// Returns the number of groups along k. If the form has no groups, all of k counts as one group.
constexpr int64_t packed_groups(const PackedForm& form, int64_t k) {
  return form.group == 0 ? (k > 0 ? 1 : 0) : (k + form.group - 1) / form.group;
}

// Returns the number of bytes that n columns of k packed weights occupy. This function, pack_weights() and
// unpack_weights() throw an Error if the form violates a rule or a span has the wrong size.
int64_t packed_bytes(const PackedForm& form, int64_t n, int64_t k);

// Weights, scales and zero points before packing, without gaps. Each weight and each zero point occupies a
// byte. `scales` and `zeros` are empty if the form has none.
template <class Byte>
struct PlainWeights {
  std::span<Byte> weights;        // n lines of k weights
  std::span<Byte> scales, zeros;  // n lines of packed_groups() elements
};

// Returns the number that weight `at` of column `column` represents, which is the weight minus its zero
// point, times its scale.
double number_at(const PackedForm& form, int64_t k, const PlainWeights<const std::byte>& of, int64_t column,
                 int64_t at);

// Packs weights. Throws an Error if a weight or zero point is out of the type's range, or if an e4m3 weight
// is NaN.
void pack_weights(const PackedForm& form, int64_t n, int64_t k, const PlainWeights<const std::byte>& from,
                  std::span<std::byte> to);
// Reverses pack_weights().
void unpack_weights(const PackedForm& form, int64_t n, int64_t k, std::span<const std::byte> from,
                    const PlainWeights<std::byte>& to);

}  // namespace ptxbuilder::kernels

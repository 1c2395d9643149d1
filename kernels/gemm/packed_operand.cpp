#include "kernels/gemm/packed_operand.h"

#include "ptxbuilder/ir/instruction.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int kWordsOfLoad = 4;
constexpr uint32_t kBoth =
    0x00010001;  // multiplied by this, a 16-bit constant is in both halves of a register

RegisterLayout of_rows() { return wgmma_layout(kPackedColumns, 8).reduced_rows(); }

// The constants of a 16-bit float type. A register with `bits`, and a small integer in the lowest bits,
// represents the float `one` plus this integer; `one` is 2^mantissa.
template <class T>
struct Float16 {
  static constexpr bool is_f16 = T::dtype == DType::f16;
  static constexpr uint32_t bits = is_f16 ? 0x6400 : 0x4300;
  static constexpr float one = is_f16 ? 1024 : 128;
  // To convert an e4m3 number, its exponent and mantissa are moved by e4m3_shift bits to the positions of
  // this type's lowest exponent bits and highest mantissa bits. The resulting float is too small by a factor
  // of e4m3_scale.
  static constexpr int e4m3_shift = is_f16 ? 1 : 4;
  static constexpr float e4m3_scale = is_f16 ? 0x1p8F : 0x1p120F;
};

// Returns (word & mask) | bits, computed with one instruction (PTX ISA, lop3). ptxas alone would generate two
// instructions, each with one of the constants.
u32 with_bits(u32 word, uint32_t mask, uint32_t bits) {
  constexpr int kAndOr = 0xea;
  return u32(instruction<"lop3.b32">(word, u32(mask), u32(bits), kAndOr));
}

// Converts the 4 bits of pair `pair` in each half of the word into a float, which is Float16::one plus the
// integer from 0 to 15.
template <class T>
u32 float_of_nibbles(u32 word, int pair) {
  return with_bits(word >> (4 * pair), 0xf * kBoth, Float16<T>::bits * kBoth);
}

// Converts four bytes into two pairs of f16; the first pair comes from bytes 0 and 2. Uses the method of
// float_of_nibbles().
std::vector<u32> f16_of_bytes(u32 word) {
  constexpr uint32_t kBits = Float16<f16>::bits * kBoth;
  const u32 first = with_bits(word, 0xff * kBoth, kBits);
  return {first, with_bits(word >> 8, 0xff * kBoth, kBits)};
}
// Returns four bytes of `low` and `high`, which the selector chooses (PTX ISA, prmt).
u32 permuted(u32 low, u32 high, uint32_t selector) {
  return u32(instruction<"prmt.b32">(low, high, u32(selector)));
}
// Converts four bytes, minus `offset`, into two pairs of bf16. bf16 has too few bits for the method of
// f16_of_bytes(), so the conversion uses f32; after the subtraction, the results are exact in bf16.
std::vector<u32> bf16_of_bytes(u32 word, float offset) {
  constexpr uint32_t kBits = 0x4b000000;  // 2^23
  const auto float_of = [&](uint32_t byte) {
    return bit_cast<u32>(bit_cast<f32>(permuted(word, kBits, 0x7440U | byte)) - (0x1p23F + offset));
  };
  const auto pair = [&](uint32_t first) {
    const u32 low = float_of(first), high = float_of(first + 2);
    return permuted(low, high, 0x7632);
  };
  const u32 first = pair(0);
  return {first, pair(1)};
}

// Converts four e4m3 numbers into two pairs of floats. The caller has to multiply them by
// Float16::e4m3_scale.
template <class T>
std::vector<u32> float_of_e4m3(u32 word) {
  const auto pair = [](u32 x) {
    return (x & (0x8000 * kBoth)) | ((x & (0x7f00 * kBoth)) >> Float16<T>::e4m3_shift);
  };
  return {pair(word << 8), pair(word)};
}

}  // namespace

PackedOperand::PackedOperand(Kernel& k, const GemmOperation& o, const TilePlan& t, const GemmParameters& p)
    : form_(o.packed),
      block_(block_of(o.packed)),
      type_(o.a),
      tile_(k.shared(DType::u32, {t.bm / kPackedColumns, block_.bytes / 4}, SwizzleNone, t.stages, "B")),
      lines_(ceil_div(p.get<u32>("N"), kPackedColumns)),
      blocks_{p.get<gptr<u32>>("B"), ceil_div(p.get<u32>("K"), kPackedDepth) * (block_.bytes / 4),
              o.has_groups() ? lines_ * p.get<u32>("groups") : lines_} {}

void PackedOperand::load(const Stage& s, u32 kt, u32 first, const Work& work) const {
  u32 line = first / kPackedColumns;
  if (work.group) line = line + *work.batch * lines_;
  bulk_gather(
      tile_[s], blocks_, [&](u32 row) { return line + row; }, kt * (block_.bytes / 4));
}

smem PackedOperand::block(const Stage& s, u32 row) const {
  return tile_[s].address() + row / kPackedColumns * block_.bytes;
}

u32 PackedOperand::line(u32 row, int part) const {
  return row + (form_.group == 0 ? 0 : part / parts_of_group() * kPackedColumns);
}

std::vector<u32> PackedOperand::words(const smem& block, int part) const {
  const int all = depth() / 16 * 4 * form_.row().bits / 16, begin = part * all;
  const u32 thread = tid_x() % 128;
  std::vector<u32> words;
  for (int w = begin; w < begin + all;) {
    const sptr<u32> from(block + thread * 16 + (w / kWordsOfLoad * 128 * 16 + w % kWordsOfLoad * 4));
    const auto add = [&](const auto& loaded) { words.insert(words.end(), loaded.begin(), loaded.end()); };
    if (all < kWordsOfLoad)
      add(ptxbuilder::load<2>(from)), w += 2;
    else
      add(ptxbuilder::load<kWordsOfLoad>(from)), w += kWordsOfLoad;
  }
  return words;
}

// Subtracts Float16::one, and the zero point or the offset of stored integers, from converted weights. The
// results are exact.
template <class T>
RegisterTile<T> PackedOperand::without_zeros(const RegisterTile<T>& w, const smem& block, int part) const {
  if (!form_.has_zeros()) return w - T(Float16<T>::one - static_cast<float>(form_.row().least));
  const sptr<u16> zeros(block + block_.zeros);
  const RegisterTile<u32> rows = row_index(of_rows());
  const auto zero = [&](int i) { return u32(u16(zeros[line(rows.value(i), part)])); };
  const u32 first = zero(0), second = zero(1);
  return w - RegisterTile<T>::of_registers(of_rows(), {first | second << 16 | Float16<T>::bits * kBoth});
}

template <class T>
RegisterTile<T> PackedOperand::converted(const smem& block, int part) const {
  std::vector<u32> pairs;
  const auto add = [&](const std::vector<u32>& more) { pairs.insert(pairs.end(), more.begin(), more.end()); };
  const auto tile = [&] {
    return RegisterTile<T>::of_registers(wgmma_layout(kPackedColumns, depth()), pairs);
  };
  const std::vector<u32> all = words(block, part);
  switch (form_.type) {
    case WeightType::e4m3:
      for (const u32& word : all) add(float_of_e4m3<T>(word));
      return tile() * T(Float16<T>::e4m3_scale);
    case WeightType::int8:
      if (!Float16<T>::is_f16) {
        for (const u32& word : all) add(bf16_of_bytes(word, static_cast<float>(-form_.row().least)));
        return tile();
      }
      for (const u32& word : all) add(f16_of_bytes(word));
      break;
    default:
      for (const u32& word : all)
        for (int pair = 0; pair < 4; ++pair) pairs.push_back(float_of_nibbles<T>(word, pair));
  }
  return without_zeros(tile(), block, part);
}

void PackedOperand::multiply(const Stage& s, u32 row, int part, Accumulator& sums,
                             const TileView& columns) const {
  const smem from = block(s, row);
  const auto add = [&](const auto& weights) { wgmma_group([&] { mma(sums, weights, columns); }); };
  type_ == DType::f16 ? add(converted<f16>(from, part)) : add(converted<bf16>(from, part));
}

RegisterTile<f32> PackedOperand::scales(const Stage& s, u32 row, int part) const {
  const RegisterTile<u32> rows = row_index(of_rows());
  const smem from = block(s, row) + block_.scales;
  const auto scale = [&](int i) -> f32 {
    const u32 at = line(rows.value(i), part);
    if (form_.scales == DType::f32) return sptr<f32>(from)[at];
    if (form_.scales == DType::f16) return f32(f16(sptr<f16>(from)[at]));
    return f32(bf16(sptr<bf16>(from)[at]));
  };
  const f32 first = scale(0), second = scale(1);
  return RegisterTile<f32>::of(of_rows(), {first, second});
}

}  // namespace ptxbuilder::kernels

#include "kernels/gemm/packed_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ptxbuilder/error.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int64_t kMostPacked = int64_t{1} << 34;  // in bytes; the kernel numbers 32-bit words with u32
constexpr int kMagnitude = 0x7f;  // bits of the magnitude in an e4m3 number; if all are 1, it is NaN

int64_t parts_in(int64_t all, int64_t part) { return (all + part - 1) / part; }

void check_bytes(const char* name, size_t given, int64_t wanted) {
  if (given != static_cast<size_t>(wanted))
    throw Error(fmt::format("packed weights: they have {} B of {}, but must have {}", given, name, wanted));
}

// Returns the offset that is added to an integer before it is stored. It makes all integers nonnegative, so
// that one subtraction completes their conversion to floats.
int stored_offset(const WeightRow& row) { return -row.least; }

// Computes the size of packed weights, and where each weight, scale and zero point is stored.
class Places {
 public:
  Places(const PackedForm& form, int64_t n, int64_t k)
      : form_(form),
        block_((check(form), block_of(form))),
        n_(n),
        k_(k),
        blocks_along_k_(parts_in(k, kPackedDepth)),
        groups_(packed_groups(form, k)) {
    if (n < 0 || k < 0)
      throw Error(fmt::format("packed weights: n = {} and k = {}; both must be at least 0", n, k));
    if (static_cast<__int128>(parts_in(n, kPackedColumns)) * blocks_along_k_ * block_.bytes >= kMostPacked)
      throw Error(fmt::format("packed weights: n = {} and k = {} need more than 2^34 B: divide n", n, k));
  }

  int64_t bytes() const { return parts_in(n_, kPackedColumns) * blocks_along_k_ * block_.bytes; }
  int64_t groups() const { return groups_; }

  template <class Byte>
  void check_sizes(const PlainWeights<Byte>& plain, size_t packed) const {
    check_bytes("packed weights", packed, bytes());
    check_bytes("weights", plain.weights.size(), n_ * k_);
    check_bytes("scales", plain.scales.size(), form_.has_scales() ? n_ * groups_ * size_of(form_.scales) : 0);
    check_bytes("zeros", plain.zeros.size(), form_.has_zeros() ? n_ * groups_ : 0);
  }

  // Calls `work(column, k, word, shift)` for each weight. `word` is the byte offset of the 32-bit word that
  // holds the weight, and `shift` is the position of its lowest bit.
  template <class Work>
  void each_weight(Work&& work) const {
    for (int64_t column = 0; column < n_; ++column)
      for (int64_t k = 0; k < k_; ++k) {
        const PackedPlace at = place_of(form_.row().bits, static_cast<int>(column % kPackedColumns),
                                        static_cast<int>(k % kPackedDepth));
        work(column, k, block(column, k) + 4 * at.word, at.shift);
      }
  }
  // Calls `work(number, scale, zero)` for each group of each column, with the byte offsets of the group's
  // scale and zero point. If a group is longer than a block, each block of the group holds a copy of both.
  template <class Work>
  void each_group(Work&& work) const {
    const int64_t length = form_.group == 0 ? kPackedDepth : form_.group;
    for (int64_t column = 0; column < n_; ++column)
      for (int64_t at = 0; at < parts_in(k_, length); ++at) {
        const int64_t line = at % block_.groups * kPackedColumns + column % kPackedColumns,
                      begin = block(column, at * length);
        work(column * groups_ + (form_.group == 0 ? 0 : at),
             begin + block_.scales + line * size_of(form_.scales), begin + block_.zeros + line * 2);
      }
  }

 private:
  static void check(const PackedForm& form) {
    if (const std::string refusal = refusal_of(form); !refusal.empty()) throw Error(refusal);
  }
  int64_t block(int64_t column, int64_t k) const {
    return (column / kPackedColumns * blocks_along_k_ + k / kPackedDepth) * block_.bytes;
  }

  PackedForm form_;
  PackedBlock block_;
  int64_t n_, k_, blocks_along_k_, groups_;
};

}  // namespace

std::string refusal_of(const PackedForm& form) {
  if (!form.is_packed() || static_cast<size_t>(form.type) > weight_rows.size())
    return fmt::format("packed weights: type {} is not one of weight.def", static_cast<int>(form.type));
  if (form.group != 0 && form.group != 32 && form.group != 64 && form.group != 128)
    return fmt::format(
        "packed weights: groups of {} values along k; the size must be 32, 64 or 128, or 0 for all of k",
        form.group);
  if (form.scales != DType::f32 && !is_half(form.scales))
    return fmt::format("packed weights: the scales are {}; they must be f32, f16 or bf16", name(form.scales));
  return "";
}

std::string text(const PackedForm& form) {
  if (!form.is_packed()) return "none";
  return form.group == 0 ? std::string(form.row().word)
                         : fmt::format("{}_{}_{}", form.row().word, form.group, name(form.scales));
}

int64_t packed_bytes(const PackedForm& form, int64_t n, int64_t k) { return Places(form, n, k).bytes(); }

double number_at(const PackedForm& form, int64_t k, const PlainWeights<const std::byte>& of, int64_t column,
                 int64_t at) {
  const std::byte weight = of.weights[static_cast<size_t>(column * k + at)];
  const DType type = form.type == WeightType::e4m3 ? DType::e4m3
                     : form.row().least < 0        ? DType::s8
                                                   : DType::u8;
  const auto group =
      static_cast<size_t>(column * packed_groups(form, k) + (form.group == 0 ? 0 : at / form.group));
  const double zero = form.has_zeros() ? static_cast<double>(of.zeros[group]) : 0;
  const double scale =
      form.has_scales()
          ? read_element(&of.scales[group * static_cast<size_t>(size_of(form.scales))], form.scales)
          : 1;
  return (read_element(&weight, type) - zero) * scale;
}

void pack_weights(const PackedForm& form, int64_t n, int64_t k, const PlainWeights<const std::byte>& from,
                  std::span<std::byte> to) {
  const Places places(form, n, k);
  places.check_sizes(from, to.size());
  std::ranges::fill(to, std::byte{0});
  const WeightRow& row = form.row();
  const bool is_float = form.type == WeightType::e4m3;
  places.each_weight([&](int64_t column, int64_t at, int64_t byte, int shift) {
    const std::byte given = from.weights[static_cast<size_t>(column * k + at)];
    const int number = row.least < 0 ? static_cast<int8_t>(given) : static_cast<int>(given);
    if (is_float ? (number & kMagnitude) == kMagnitude : number < row.least || number > row.greatest)
      throw Error(fmt::format("packed weights: weight {} of column {} is {}; {}", at, column,
                              is_float ? "NaN" : std::to_string(number),
                              is_float ? "a packed 8-bit float must be a number"
                                       : fmt::format("{} has {} to {}", row.word, row.least, row.greatest)));
    uint32_t word;
    std::memcpy(&word, &to[static_cast<size_t>(byte)], sizeof word);
    word |= static_cast<uint32_t>(number + stored_offset(row)) << shift;
    std::memcpy(&to[static_cast<size_t>(byte)], &word, sizeof word);
  });
  const auto size = static_cast<size_t>(size_of(form.scales));
  places.each_group([&](int64_t group, int64_t scale, int64_t zero) {
    const auto at = static_cast<size_t>(group);
    if (form.has_scales()) std::memcpy(&to[static_cast<size_t>(scale)], &from.scales[at * size], size);
    if (!form.has_zeros()) return;
    if (const auto number = static_cast<int>(from.zeros[at]); number > row.greatest)
      throw Error(fmt::format("packed weights: zero {} of column {} is {}; {} has {} to {}",
                              group % places.groups(), group / places.groups(), number, row.word, row.least,
                              row.greatest));
    to[static_cast<size_t>(zero)] = from.zeros[at];
  });
}

void unpack_weights(const PackedForm& form, int64_t n, int64_t k, std::span<const std::byte> from,
                    const PlainWeights<std::byte>& to) {
  const Places places(form, n, k);
  places.check_sizes(to, from.size());
  const WeightRow& row = form.row();
  places.each_weight([&](int64_t column, int64_t at, int64_t byte, int shift) {
    uint32_t word;
    std::memcpy(&word, &from[static_cast<size_t>(byte)], sizeof word);
    const uint32_t stored = word >> shift & ((1U << row.bits) - 1);
    to.weights[static_cast<size_t>(column * k + at)] =
        static_cast<std::byte>(static_cast<int>(stored) - stored_offset(row));
  });
  const auto size = static_cast<size_t>(size_of(form.scales));
  places.each_group([&](int64_t group, int64_t scale, int64_t zero) {
    const auto at = static_cast<size_t>(group);
    if (form.has_scales()) std::memcpy(&to.scales[at * size], &from[static_cast<size_t>(scale)], size);
    if (form.has_zeros()) to.zeros[at] = from[static_cast<size_t>(zero)];
  });
}

}  // namespace ptxbuilder::kernels

#include "ptxbuilder/plan/sparse_matrix.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <optional>

namespace ptxbuilder {
namespace {

constexpr int kStored = kSparseGroup / 2;                  // number of stored elements in a group
constexpr int kBlockGroups = kSparseBlock / kSparseGroup;  // number of groups in a row of a block
constexpr uint32_t kFirstTwo = kFirstTwoOfEach & 15;

void check_shape(const char* name, DType type, int64_t rows, int64_t cols, Where where) {
  if (!can_be_sparse(type))
    throw Error(
        where,
        fmt::format(
            "{}: the type of the matrix is {}, but only f16, bf16, e4m3, e5m2, s8 and u8 are supported", name,
            ptxbuilder::name(type)));
  if (rows < 0 || cols < 0 || cols % kSparseGroup != 0)
    throw Error(where, fmt::format("{}: the matrix has {} x {} elements, but the number of columns must be a "
                                   "multiple of {}: add columns of zeros",
                                   name, rows, cols, kSparseGroup));
}

// Accesses the four bits of each group in the metadata of a matrix. Positions within a block are stored in a
// table, because evaluating a layout is slow.
class Places {
 public:
  Places(DType type, int64_t rows, int64_t cols) : line_words_(metadata_shape(rows, cols).words) {
    const Layout layout = metadata_layout(type);
    for (int row = 0; row < kSparseBlock; ++row)
      for (int group = 0; group < kBlockGroups; ++group)
        within_[static_cast<size_t>(row * kBlockGroups + group)] =
            static_cast<int>(layout({int64_t{row}, int64_t{group}}));
  }

  struct Place {
    size_t word;
    int shift;
  };
  Place of(int64_t row, int64_t group) const {
    const int within = within_[static_cast<size_t>(row % kSparseBlock * kBlockGroups + group % kBlockGroups)];
    const int64_t block = group / kBlockGroups * line_words_ + row / kSparseBlock * kSparseBlockWords;
    return {static_cast<size_t>(block + within / 8), within % 8 * 4};
  }

 private:
  int64_t line_words_;
  std::array<int, kSparseBlock* kBlockGroups> within_ = {};
};

// Calls `work` with a null pointer whose type points to an unsigned integer of the element's size.
template <class Work>
auto by_size(DType type, const Work& work) {
  return size_of(type) == 2 ? work(static_cast<uint16_t*>(nullptr)) : work(static_cast<uint8_t*>(nullptr));
}

template <class Bits>
bool is_zero(DType type, Bits element) {
  return element == 0 || (is_float(type) && element == Bits{1} << (8 * sizeof(Bits) - 1));
}

// Returns the four bits for the two elements that are stored: the nonzero elements and, if there are fewer
// than two, zeros.
template <class Bits>
std::optional<uint32_t> chosen(DType type, const Bits* group) {
  uint32_t kept = 0;
  int count = 0;
  for (int i = 0; i < kSparseGroup; ++i)
    if (!is_zero(type, group[i])) kept |= 1u << i, ++count;
  if (count > kStored) return std::nullopt;
  for (int i = 0; count < kStored; ++i)
    if ((kept >> i & 1) == 0) kept |= 1u << i, ++count;
  const auto low = static_cast<uint32_t>(std::countr_zero(kept));
  return low | static_cast<uint32_t>(std::countr_zero(kept & (kept - 1))) << 2;
}

}  // namespace

Layout metadata_layout(DType type) {
  // A thread's word has eight positions. Four threads share each of 8 rows, and the next warp has the next 16
  // rows. With 16-bit elements, a word holds four groups of a row, and four groups of the row that is 8 rows
  // further down. With 8-bit elements, a word holds eight groups of one of these two rows; the rows alternate
  // between threads.
  return size_of(type) == 2 ? make_layout({{8, 2, 4}, {4, 4}}, {{32, 4, 256}, {1, 8}})
                            : make_layout({{8, 2, 4}, {8, 2}}, {{32, 8, 256}, {1, 16}});
}

SparseMatrix compress_2_4(DType type, const void* dense, int64_t rows, int64_t cols, int64_t stride,
                          Where where) {
  check_shape("compress_2_4", type, rows, cols, where);
  const MetadataShape shape = metadata_shape(rows, cols);
  SparseMatrix matrix = {type, rows, cols, {}, {}};
  matrix.values.resize(static_cast<size_t>(rows * cols / kStored * size_of(type)));
  matrix.metadata.assign(static_cast<size_t>(shape.lines * shape.words), kFirstTwoOfEach);
  const Places places(type, rows, cols);
  by_size(type, [&]<class Bits>(Bits*) {
    const auto* all = static_cast<const std::byte*>(dense);
    std::byte* to = matrix.values.data();
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t group = 0; group < cols / kSparseGroup; ++group) {
        std::array<Bits, kSparseGroup> of;
        const int64_t at = row * (stride != 0 ? stride : cols) + group * kSparseGroup;
        std::memcpy(of.data(), all + at * size_of(type), sizeof of);
        const std::optional<uint32_t> bits = chosen(type, of.data());
        if (!bits)
          throw Error(where, fmt::format("compress_2_4: in row {}, columns {} to {}, more than two of these "
                                         "four elements are not zero: set the smallest of them to zero first",
                                         row, group * kSparseGroup, group * kSparseGroup + kSparseGroup - 1));
        for (const Bits stored : {of[*bits & 3], of[*bits >> 2]}) {
          std::memcpy(to, &stored, sizeof stored);
          to += sizeof stored;
        }
        const auto [word, shift] = places.of(row, group);
        matrix.metadata[word] ^= (kFirstTwo ^ *bits) << shift;
      }
  });
  return matrix;
}

std::vector<std::byte> decompress_2_4(const SparseMatrix& matrix, Where where) {
  const auto& [type, rows, cols, values, metadata] = matrix;
  check_shape("decompress_2_4", type, rows, cols, where);
  const MetadataShape shape = metadata_shape(rows, cols);
  const auto bytes = static_cast<size_t>(size_of(type)), elements = static_cast<size_t>(rows * cols);
  if (values.size() != elements / kStored * bytes ||
      metadata.size() != static_cast<size_t>(shape.lines * shape.words))
    throw Error(where, fmt::format("decompress_2_4: {} B of values and {} words of metadata were given, but "
                                   "{} x {} {} have {} and {}",
                                   values.size(), metadata.size(), rows, cols, name(type),
                                   elements / kStored * bytes, shape.lines * shape.words));
  std::vector<std::byte> dense(elements * bytes);
  const Places places(type, rows, cols);
  const std::byte* from = values.data();
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t group = 0; group < cols / kSparseGroup; ++group) {
      const auto [word, shift] = places.of(row, group);
      const uint32_t bits = metadata[word] >> shift & 15;
      if ((bits & 3) == bits >> 2)
        throw Error(
            where, fmt::format("decompress_2_4: the metadata of row {}, columns {} to {}, names element {} "
                               "of these four twice",
                               row, group * kSparseGroup, group * kSparseGroup + kSparseGroup - 1, bits & 3));
      for (const uint32_t element : {bits & 3, bits >> 2}) {
        const auto at = static_cast<size_t>(row * cols + group * kSparseGroup + element);
        std::memcpy(dense.data() + at * bytes, from, bytes);
        from += bytes;
      }
    }
  return dense;
}

}  // namespace ptxbuilder

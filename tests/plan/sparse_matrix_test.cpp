// Tests matrices with two nonzero elements in every four: compression and decompression, the places of
// metadata in the manual, and refused matrices.
#include "ptxbuilder/plan/sparse_matrix.h"

#include <fmt/format.h>

#include <array>
#include <random>

#include "error_kit.h"

namespace ptxbuilder::test::sparse_matrix_test {
namespace {

// A matrix with at most two nonzero elements in each group, in rows of `stride` elements. The elements
// between rows are not zero.
struct Dense {
  DType type;
  int64_t rows, cols, stride;
  std::vector<std::byte> bytes;

  size_t at(int64_t row, int64_t col) const {
    return static_cast<size_t>((row * stride + col) * size_of(type));
  }
  double value(int64_t row, int64_t col) const { return read_element(&bytes[at(row, col)], type); }
  void set(int64_t row, int64_t col, double value) { write_element(&bytes[at(row, col)], type, value); }
};

Dense draw(DType type, int64_t rows, int64_t cols, int64_t gap, std::mt19937& random) {
  Dense d = {type, rows, cols, cols + gap, {}};
  d.bytes.resize(static_cast<size_t>(rows * d.stride * size_of(type)));
  const auto number = [&] { return 1.0 + static_cast<double>(random() % 7); };
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = cols; col < d.stride; ++col) d.set(row, col, number());
    for (int64_t group = 0; group < cols; group += 4)
      for (int i = 0; i < 2; ++i) d.set(row, group + random() % 4, random() % 5 == 0 ? 0 : number());
  }
  return d;
}

SparseMatrix compressed(const Dense& d) {
  return compress_2_4(d.type, d.bytes.data(), d.rows, d.cols, d.stride);
}

// Returns the four bits of a group, from the lane and the bits in the manual's figures (PTX ISA,
// wgmma.mma_async.sp). With 16 bits, an instruction has 32 columns, and two lanes of four hold its metadata.
// A matrix of 8-bit elements has 64 columns, and all four lanes hold metadata.
uint32_t bits_of(const SparseMatrix& s, int64_t row, int64_t col) {
  const bool wide = size_of(s.type) == 2;
  const int64_t warp = row % 64 / 16, g = row % 8, upper = row % 16 / 8, k = col % 64;
  const int64_t selector = wide ? k / 32 : 0;
  const int64_t lane = 4 * g + (wide ? 2 * selector + k % 32 / 16 : 2 * (k / 32) + upper);
  const int64_t shift = wide ? 16 * upper + k % 16 : k % 32;
  const int64_t blocks = (s.rows + 63) / 64, block = col / 64 * blocks + row / 64;
  return s.metadata[static_cast<size_t>(block * 128 + 32 * warp + lane)] >> shift & 15;
}

constexpr std::array kTypes = {DType::f16, DType::bf16, DType::e4m3, DType::e5m2, DType::s8, DType::u8};

}  // namespace

TEST_CASE("a matrix is compressed, its metadata is in the manual's places, and it is restored") {
  std::mt19937 random(20261128);
  for (const DType type : kTypes)
    for (const auto [rows, cols, gap] :
         {std::array<int64_t, 3>{64, 64, 0}, {1, 4, 0}, {130, 132, 3}, {70, 256, 8}}) {
      const Dense d = draw(type, rows, cols, gap, random);
      const SparseMatrix s = compressed(d);
      int64_t wrong = 0;
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t group = 0; group < cols; group += 4) {
          const uint32_t bits = bits_of(s, row, group), low = bits & 3, high = bits >> 2;
          wrong += low >= high;
          for (int64_t i = 0; i < 4; ++i) {
            const int64_t stored = row * cols / 2 + group / 2 + (i == high);
            const bool is_stored = i == low || i == high;
            const double value =
                is_stored ? read_element(&s.values[static_cast<size_t>(stored * size_of(type))], type) : 0;
            wrong += value != d.value(row, group + i);
          }
        }
      CHECK_MESSAGE(wrong == 0, name(type) << " " << rows << " x " << cols);
      const std::vector<std::byte> back = decompress_2_4(s);
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t col = 0; col < cols; ++col)
          wrong += read_element(&back[static_cast<size_t>((row * cols + col) * size_of(type))], type) !=
                   d.value(row, col);
      CHECK_MESSAGE(wrong == 0, name(type) << " " << rows << " x " << cols << ", back");
      // The metadata beyond the matrix must name two elements as well.
      CHECK(s.metadata.size() == static_cast<size_t>((rows + 63) / 64 * ((cols + 63) / 64) * 128));
      for (const uint32_t word : s.metadata)
        for (int i = 0; i < 32; i += 4) wrong += (word >> i & 3) >= (word >> i >> 2 & 3);
      CHECK_MESSAGE(wrong == 0, name(type) << " " << rows << " x " << cols << ", metadata");
    }
}

TEST_CASE("a negative zero is zero, and an empty matrix has nothing") {
  Dense d = {DType::f16, 1, 4, 4, std::vector<std::byte>(8)};
  d.set(0, 0, -0.0), d.set(0, 1, 3), d.set(0, 3, 5);
  const SparseMatrix s = compressed(d);
  CHECK(read_element(&s.values[0], DType::f16) == 3);
  CHECK(read_element(&s.values[2], DType::f16) == 5);
  CHECK(s.metadata[0] == 0x4444444d);  // elements 1 and 3
  CHECK(compress_2_4(DType::bf16, nullptr, 0, 64).metadata.empty());
  CHECK(decompress_2_4(compress_2_4(DType::bf16, nullptr, 5, 0)).empty());
}

TEST_CASE("a matrix that is not sparse is refused with the place") {
  std::mt19937 random(1);
  Dense d = draw(DType::bf16, 70, 136, 0, random);
  CHECK_NOTHROW(compressed(d));
  for (int64_t col : {128, 129, 130}) d.set(66, col, 1);
  d.set(66, 131, 0);
  CHECK_ERROR(
      compressed(d),
      "compress_2_4: in row 66, columns 128 to 131, more than two of these four elements are not zero");
  CHECK_ERROR(compress_2_4(DType::bf16, d.bytes.data(), 70, 134),
              "compress_2_4: the matrix has 70 x 134 elements, but the number of columns must be a multiple "
              "of 4: add columns of zeros");
  CHECK_ERROR(compress_2_4(DType::f32, d.bytes.data(), 8, 64),
              "compress_2_4: the type of the matrix is f32, but only f16");
  CHECK_ERROR(compress_2_4(DType::tf32, d.bytes.data(), 8, 64),
              "compress_2_4: the type of the matrix is tf32, but only f16");
}

TEST_CASE("metadata that names an element twice is refused with the place") {
  std::mt19937 random(2);
  SparseMatrix s = compressed(draw(DType::f16, 70, 128, 0, random));
  CHECK_NOTHROW(decompress_2_4(s));
  // The second line of blocks begins at word 256, row 64 in its second block, and row 66 in thread 8 of that
  // block.
  s.metadata[256 + 128 + 8] = (s.metadata[256 + 128 + 8] & ~0xf0u) | 0xa0;
  CHECK_ERROR(decompress_2_4(s),
              "decompress_2_4: the metadata of row 66, columns 68 to 71, names element 2 of these "
              "four twice");
  s.metadata.pop_back();
  CHECK_ERROR(decompress_2_4(s),
              "8960 B of values and 511 words of metadata were given, but 70 x 128 f16 have 8960 and 512");
}

}  // namespace ptxbuilder::test::sparse_matrix_test

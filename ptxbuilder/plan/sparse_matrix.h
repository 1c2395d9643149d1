// Defines matrices that store two of every four elements of a row (2:4 sparsity). This is the format of A for
// wgmma and mma instructions with .sp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/error.h"
#include "ptxbuilder/layout/layout.h"

namespace ptxbuilder {

// Sizes of the metadata. Each group of four elements of a row has four bits of metadata. They hold the
// positions of the two stored elements in ascending order, with two bits for each position and the first
// position in the low bits. A block covers 64 rows x 64 columns of the uncompressed matrix. A block has one
// word for each thread of the warpgroup that multiplies it, so a warp loads 128 contiguous bytes.
inline constexpr int kSparseGroup = 4, kSparseBlock = 64, kSparseBlockWords = 128;
// A metadata word that selects the first two elements of each of its eight groups.
inline constexpr uint32_t kFirstTwoOfEach = 0x44444444;

// Returns whether a sparse A of this type is supported. The supported types are f16, bf16, e4m3, e5m2, s8 and
// u8.
constexpr bool can_be_sparse(DType type) { return is_half(type) || is_fp8(type) || is_int8(type); }

// Returns the layout that maps (row, group) of a block to the position of the group's four bits. A word has
// eight positions, counted from the low bits (PTX ISA, wgmma.mma_async.sp, "Sparse matrix storage"). For
// 16-bit types, two instructions, with selectors 0 and 1, use the same word.
Layout metadata_layout(DType type);

// The size of a matrix's metadata. The blocks in the same 64 columns of the matrix form a line, from the
// first row to the last.
struct MetadataShape {
  int64_t lines, words;  // number of lines, and of words in a line
};
constexpr MetadataShape metadata_shape(int64_t rows, int64_t cols) {
  const auto blocks = [](int64_t extent) { return (extent + kSparseBlock - 1) / kSparseBlock; };
  return {blocks(cols), blocks(rows) * kSparseBlockWords};
}

// A row-major matrix in host memory.
struct SparseMatrix {
  DType type = DType::bf16;
  int64_t rows = 0, cols = 0;      // extents of the uncompressed matrix
  std::vector<std::byte> values;   // rows of cols / 2 elements, without gaps
  std::vector<uint32_t> metadata;  // size as in metadata_shape(); also valid for groups beyond the matrix
};

// Compresses a dense matrix: stores the nonzero elements, and adds zeros if a group of four has fewer than
// two nonzero elements; -0 counts as zero. `stride` is the distance between rows in elements; 0 means that
// rows have no gaps. Throws Error for a group with more than two nonzero elements (the message names the row
// and the column), for an unsupported type, and if the number of columns is not a multiple of 4.
SparseMatrix compress_2_4(DType type, const void* dense, int64_t rows, int64_t cols, int64_t stride = 0,
                          Where where = Where::here());

// Returns the dense matrix, without gaps. Throws Error for a group whose metadata selects an element twice
// (the message names the row and the column), and for arrays whose sizes do not match the matrix.
std::vector<std::byte> decompress_2_4(const SparseMatrix& matrix, Where where = Where::here());

}  // namespace ptxbuilder

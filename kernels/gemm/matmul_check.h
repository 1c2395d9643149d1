// The rules of a matrix product's arguments, and the operands as they lie in memory once these hold.
#pragma once

#include "kernels/call/copy_matrix.h"
#include "kernels/gemm/matmul.h"

namespace ptxbuilder::kernels {

// One matrix as it lies, with all strides known.
struct PlacedMatrix {
  const char* name = "";  // "A"
  DType type = DType::bf16;
  MatrixShape shape;
  MatrixPlace place;

  int element_bytes() const { return size_of(type); }
  // Whether a tensor map takes it where it lies.
  bool aligned_for_tma() const;
  // Columns, from the first on, that TMA stores there, and nothing behind them: it writes whole units of 16 B
  // at the end of a row (measured on an H100).
  int64_t columns_by_tma() const;
  // Whether each batch begins as many strides behind the one before as it has rows: so the kernel finds C.
  bool batches_touch() const;
  // Whether threads of the kernel store D there, which TMA cannot.
  bool stored_by_threads() const;
  // Whether the kernel cannot store D there at all.
  bool out_of_reach() const { return columns_by_tma() < shape.columns && !stored_by_threads(); }
};

// What a product reads and writes. A and B are not read where alpha or k is 0; an operand of product.def that
// the product has not has no memory.
struct PlacedMatrices {
  PlacedMatrix a, b, d;
  ByOperand<PlacedMatrix> operands = {};  // elements without gaps are a row
  bool has_product = true;                // of A and B
};

// What a kernel for these arguments computes, where TMA stores D.
GemmOperation operation_of(const MatmulArguments& arguments);
// The same where D lies there.
GemmOperation operation_of(const MatmulArguments& arguments, const PlacedMatrix& d);

// Throws Error that names operand, rule and value. Types are left to checked().
PlacedMatrices checked(const MatmulArguments& arguments, Where where);

// Throws Error for memory at address 0 of what a launch reads or writes; without one, sizes are enough.
void check_addresses(const PlacedMatrices& placed, Where where);

// Throws Error for a workspace of fewer than `bytes`, that is not aligned, or that overlaps a matrix or the
// bias.
void check_workspace(const MatmulArguments& arguments, const PlacedMatrices& placed, size_t bytes,
                     Where where);

}  // namespace ptxbuilder::kernels

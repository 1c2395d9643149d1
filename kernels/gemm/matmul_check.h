// The rules of a matrix product's arguments, and the operands as they lie in memory once these hold.
#pragma once

#include <vector>

#include "kernels/call/engine.h"
#include "kernels/gemm/matmul.h"

namespace ptxbuilder::kernels {

// The outer dimensions of a matrix as an operand.
enum : size_t { kMatrixRows, kMatrixBatches };
Operand matrix_operand(const char* name, const DeviceMatrix& m, int64_t rows, int64_t columns,
                       int64_t batches);

// Columns of D, from the first on, that TMA stores there, and nothing after them: it writes whole units of
// 16 B at the end of a row (measured on an H100).
int64_t columns_by_tma(const Operand& d);
// Says whether each batch begins as many strides after the one before as it has rows: so the kernel finds C.
bool batches_touch(const Operand& matrix);
// Says whether threads of the kernel store D there, which TMA cannot.
bool stored_by_threads(const Operand& d);

// A product reads and writes these. A and B are not read where alpha or k is 0; an operand of product.def
// that the product has not has no elements.
struct PlacedProduct {
  GemmOperation operation;
  GemmSize size;  // with modes, that of a product of matrices which takes as long
  Operand a, b, d;
  ByOperand<Operand> others = {};  // elements without gaps are a row
  bool has_product = true;         // of A and B
  bool is_empty = false;           // nothing is to be done
  const ProductModes* modes = nullptr;

  // The product in whole tiles, as the kernel counts them where there are modes; else it is as it is.
  GemmSize size_in(const GemmTile& tile) const;

  std::vector<const Operand*> operands() const;
  MovedOperands moved();
  // OperandSets rotates these. C is read by threads, and stays.
  std::vector<Operand*> read() { return {&a, &b}; }
  std::vector<Operand*> written() { return {&d}; }
  bool pads_written() const { return !operation.d_by_threads; }
  bool is_tunable() const { return has_product; }
};

// Says what a kernel for these arguments computes, where TMA stores D.
GemmOperation operation_of(const MatmulArguments& arguments);

// Throws Error that names operand, rule and value. Types are left to checked() of the operation.
PlacedProduct checked(const MatmulArguments& arguments, Where where);

}  // namespace ptxbuilder::kernels

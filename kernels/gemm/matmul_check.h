// The rules for a matrix product's arguments, and the operands' layout in memory once the rules are met.
#pragma once

#include <vector>

#include "kernels/call/engine.h"
#include "kernels/gemm/matmul.h"

namespace ptxbuilder::kernels {

// The outer dimensions of a matrix as an operand.
enum : size_t { kMatrixRows, kMatrixBatches };
Operand matrix_operand(const char* name, const DeviceMatrix& m, int64_t rows, int64_t columns,
                       int64_t batches);

// Returns the number of columns of D, from the first on, that TMA can store without writing beyond them: it
// writes whole units of 16 B at the end of a row (measured on an H100).
int64_t columns_by_tma(const Operand& d);
// Returns whether consecutive batches begin `rows` strides apart, as the kernel assumes for C.
bool batches_touch(const Operand& matrix);
// Returns whether threads of the kernel store D, which TMA cannot.
bool stored_by_threads(const Operand& d);

// The operands that a product reads and writes. A and B are not read if alpha or k is 0; an operand of
// product.def that the product does not have has no elements.
struct PlacedProduct {
  GemmOperation operation;
  GemmSize size;  // with modes, the size of a product of matrices that takes equally long
  Operand a, b, d;
  ByOperand<Operand> others = {};  // elements without gaps are one row
  bool has_product = true;         // whether A and B are multiplied
  bool is_empty = false;           // there is nothing to do
  const ProductModes* modes = nullptr;

  // Returns the size in whole tiles, as the kernel counts them, if there are modes; otherwise just the size.
  GemmSize size_in(const GemmTile& tile) const;

  std::vector<const Operand*> operands() const;
  MovedOperands moved();
  // OperandSets rotates these. C is read by threads, and stays where it is.
  std::vector<Operand*> read() { return {&a, &b}; }
  std::vector<Operand*> written() { return {&d}; }
  bool pads_written() const { return !operation.d_by_threads; }
  bool is_tunable() const { return has_product; }
};

// Returns the operation that a kernel for these arguments computes if TMA stores D.
GemmOperation operation_of(const MatmulArguments& arguments);

// Throws Error that names the operand, the rule and the value. The operation's checked() checks the types.
PlacedProduct checked(const MatmulArguments& arguments, Where where);

}  // namespace ptxbuilder::kernels

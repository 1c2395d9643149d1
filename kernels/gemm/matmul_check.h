// Checks a matrix product's arguments, and describes the operands' layout in memory.
#pragma once

#include <vector>

#include "kernels/call/engine.h"
#include "kernels/gemm/matmul.h"

namespace ptxbuilder::kernels {

// The outer dimensions of a matrix as an operand.
enum : size_t { kMatrixRows, kMatrixBatches };
Operand matrix_operand(const char* name, const DeviceMatrix& m, int64_t rows, int64_t columns,
                       int64_t batches);

// Returns how many of D's first columns TMA can store without writing beyond them: it writes whole units of
// 16 B at the end of a row (measured on an H100).
int64_t columns_by_tma(const Operand& d);
// Returns whether consecutive batches begin `rows` strides apart, as the kernel assumes for C.
bool batches_touch(const Operand& matrix);
// Returns whether threads of the kernel store D because TMA cannot.
bool stored_by_threads(const Operand& d);

// The operands that a product reads and writes. A and B are not read if alpha or k is 0. An operand of
// product.def that the product does not have has no elements.
struct PlacedProduct {
  GemmOperation operation;
  GemmSize size;  // with modes, the size of a matrix product that takes the same time
  Operand a, b, d;
  ByOperand<Operand> others = {};  // an operand without gaps is described as one row
  bool has_product = true;         // whether A and B are multiplied
  bool is_empty = false;           // there is nothing to do
  const ProductModes* modes = nullptr;

  // Returns the size in whole tiles, as the kernel counts them, if there are modes; otherwise returns the
  // size.
  GemmSize size_in(const GemmTile& tile) const;

  std::vector<const Operand*> operands() const;
  MovedOperands moved();
  // Returns the operands that OperandSets rotates. C is not among them, since threads read it in place.
  std::vector<Operand*> read() { return {&a, &b}; }
  std::vector<Operand*> written() { return {&d}; }
  bool pads_written() const { return !operation.d_by_threads; }
  bool is_tunable() const { return has_product; }
};

// Returns the operation of a kernel for these arguments, on the assumption that TMA stores D.
GemmOperation operation_of(const MatmulArguments& arguments);

// Returns the checked operands. Throws Error that names the operand, the rule and the value. The types are
// checked by checked() of the operation.
PlacedProduct checked(const MatmulArguments& arguments, Where where);

}  // namespace ptxbuilder::kernels

// Checks the arguments of a matrix product, and describes how its operands are laid out in memory.
#pragma once

#include <vector>

#include "kernels/call/engine.h"
#include "kernels/gemm/matmul.h"

namespace ptxbuilder::kernels {

// Indices of the outer dimensions of an Operand that is a matrix.
enum : size_t { kMatrixRows, kMatrixBatches };
Operand matrix_operand(const char* name, const DeviceMatrix& m, int64_t rows, int64_t columns,
                       int64_t batches);

// Returns how many of D's first columns TMA can store. TMA writes entire units of 16 B at the end of a row
// (measured on an H100), so it would overwrite memory after a row that ends within a unit.
int64_t columns_by_tma(const Operand& d);
// Returns whether each batch begins where the rows of the previous batch end, as the kernel assumes for C.
bool batches_touch(const Operand& matrix);
// Returns whether threads have to store D or a part of it because TMA cannot.
bool stored_by_threads(const Operand& d);

// The operands that a product reads and writes. A and B are not read if alpha or k is 0. In `others`, an
// operand that the product lacks is present, but has no elements.
struct PlacedProduct {
  GemmOperation operation;
  GemmSize size;  // with modes: the size of a plain matrix product that takes the same time
  Operand a, b, d;
  ByOperand<Operand> others = {};  // operands of product.def; one without gaps is described as a single row
  bool has_product = true;         // false: A and B are not multiplied
  bool is_empty = false;           // true: there is nothing to do
  const ProductModes* modes = nullptr;

  // Returns the size that the kernel works on. This is `size`, except that an axis of several modes is
  // rounded up to whole tiles along each mode.
  GemmSize size_in(const GemmTile& tile) const;

  std::vector<const Operand*> operands() const;
  MovedOperands moved();
  // These functions return the operands for which OperandSets rotates between copies. C is not among them,
  // since threads read it in place.
  std::vector<Operand*> read() { return {&a, &b}; }
  std::vector<Operand*> written() { return {&d}; }
  bool pads_written() const { return !operation.d_by_threads; }
  bool is_tunable() const { return has_product; }
};

// Returns the operation that a kernel for these arguments computes, on the assumption that TMA stores D.
GemmOperation operation_of(const MatmulArguments& arguments);

// Checks the arguments and returns the operands. Throws an Error that names the operand, the rule and the
// value. Types are not checked here, but by checked() in config.h.
PlacedProduct checked(const MatmulArguments& arguments, Where where);

}  // namespace ptxbuilder::kernels

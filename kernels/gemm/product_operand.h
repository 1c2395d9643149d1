// The operands that a product may have in addition to A, B and D. Each row of product.def describes one
// operand. The row determines the fields of GemmOperation and MatmulArguments, the kernel's parameter and how
// the epilogue uses it, the checks of memory and overlap, the arguments of launches and prepared launches,
// the field of `ptxb run`, the word in files of tuned tiles, and the float64 reference. It also determines
// everything for C, Python, PyTorch and XLA, except two things that are written by hand for readability and
// that tests compare with the table: the field of ptxb_matmul and the parameter of ptxbuilder.matmul().
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "ptxbuilder/error.h"
#include "ptxbuilder/plan/sparse_matrix.h"

namespace ptxbuilder::kernels {

// `addend` is GemmOperation::addend(): D's type, or bf16 if D has 8 bits.
enum class OperandType : uint8_t { f32, addend, s32, s64 };

// The shapes of operands. `rows` and `columns` have an element for each row or column of each batch;
// `columns_of_all` are shared by all batches; `elements` are whole matrices; `groups` have a number for each
// group. If rows are grouped, `rows` are those of one batch, and `columns` and `columns_of_all` belong to
// each group. For every 128 values of k, `rows_by_k` and `columns_by_k` have a line with a number for each
// row or column. For every 128 columns, `blocks` have a line with a number for every 128 values of k. For
// every 64 values of k, `row_blocks` and `column_blocks` have a line of metadata of a sparse A or B
// (metadata_shape()).
enum class OperandShape : uint8_t {
  one,
  rows,
  columns,
  columns_of_all,
  elements,
  groups,
  rows_by_k,
  columns_by_k,
  blocks,
  row_blocks,
  column_blocks
};
inline constexpr int kScaleBlock = 128;

// The roles of operands, in the order in which they are applied. Groups determine the range of the sum, a
// placement determines the matrix of B, a gather the rows of A, a scatter the rows of D that are written, and
// sparsity the values that are not zero. Block factors multiply the sum of every 128 values of k before it is
// added up, and factors multiply the sum. Then beta times the residual and the addends are added, and the
// activation, or its slope at the inputs, is applied. Finally the greatest magnitude is written, and the
// result is multiplied once more before it is rounded. Operands of all roles except the first six and the
// last two have gradients.
enum class OperandRole : uint8_t {
  groups,
  placement,
  gather,
  scatter,
  sparsity,
  block_factor,
  factor,
  residual,
  addend,
  inputs,
  greatest,
  result_factor
};
// Returns whether TMA loads boxes of the operand's lines together with the stages.
constexpr bool comes_by_tma(OperandRole role) {
  return role == OperandRole::sparsity || role == OperandRole::block_factor;
}

// The operands of a product other than A, B and D; each is a row of product.def.
enum class ProductOperand : uint8_t {
#define PTXBUILDER_MATRIX(name, ...) name,
#define PTXBUILDER_VECTOR(name, ...) name,
#include "kernels/gemm/product.def"
};

// A row of product.def.
struct ProductOperandRow {
  ProductOperand operand;
  const char *name, *shown;
  std::string_view word;
  OperandType type;
  OperandShape shape;
  OperandRole role;
  const char* meaning;

  constexpr bool is_matrix() const { return shape == OperandShape::elements; }
  constexpr bool is_written() const { return role == OperandRole::greatest; }
  // Returns the number of the operand's elements, without gaps, for `m` rows of `n` sums over `k`. With
  // `grouped_rows`, batches are groups of the `m` rows.
  int64_t count(int64_t m, int64_t n, int64_t k, int64_t batches, bool grouped_rows = false) const {
    const auto [lines, length] = of_batch(m, n, k);
    return lines * length * (is_by_batch(grouped_rows) ? batches : 1);
  }
  // The elements of a batch, in lines of equal length. There is one line, except for matrices and for shapes
  // with several lines along k.
  struct Lines {
    int64_t lines, length;
    Lines(int64_t lines, int64_t length) : lines(lines), length(length) {}
    Lines(const MetadataShape& of) : Lines(of.lines, of.words) {}  // NOLINT
  };
  Lines of_batch(int64_t m, int64_t n, int64_t k) const {
    const auto blocks_of = [](int64_t extent) { return (extent + kScaleBlock - 1) / kScaleBlock; };
    switch (shape) {
      case OperandShape::rows:
        return {1, m};
      case OperandShape::columns:
      case OperandShape::columns_of_all:
        return {1, n};
      case OperandShape::elements:
        return {m, n};
      case OperandShape::rows_by_k:
        return {blocks_of(k), m};
      case OperandShape::columns_by_k:
        return {blocks_of(k), n};
      case OperandShape::blocks:
        return {blocks_of(n), blocks_of(k)};
      case OperandShape::row_blocks:
        return metadata_shape(m, k);
      case OperandShape::column_blocks:
        return metadata_shape(n, k);
      case OperandShape::one:
      case OperandShape::groups:
        break;
    }
    return {1, 1};
  }
  // Returns whether the operand has an element for each column.
  constexpr bool is_of_columns() const {
    return shape == OperandShape::columns || shape == OperandShape::columns_of_all;
  }
  // Returns whether each batch, or each group of rows, has its own elements.
  constexpr bool is_by_batch(bool grouped_rows = false) const {
    if (grouped_rows)
      return is_of_columns() || shape == OperandShape::groups || shape == OperandShape::columns_by_k ||
             shape == OperandShape::blocks || shape == OperandShape::column_blocks;
    return shape != OperandShape::one && shape != OperandShape::columns_of_all;
  }
  // Returns the index of the element that applies to a row and column of a batch.
  int64_t at(int64_t m, int64_t n, int64_t batch, int64_t row, int64_t column,
             bool grouped_rows = false) const {
    const int64_t own = is_by_batch(grouped_rows) ? batch : 0;
    switch (shape) {
      case OperandShape::one:
        return 0;
      case OperandShape::rows:
        return own * m + row;
      case OperandShape::columns:
      case OperandShape::columns_of_all:
        return own * n + column;
      case OperandShape::groups:
        return own;
      case OperandShape::elements:
      case OperandShape::rows_by_k:
      case OperandShape::columns_by_k:
      case OperandShape::blocks:
      case OperandShape::row_blocks:
      case OperandShape::column_blocks:
        break;
    }
    return (own * m + row) * n + column;
  }
  // Returns the position of the block factor for a row and column of a batch, at `depth`, a multiple of 128,
  // along `k`: the line, counted over all lines, and the element of the line.
  struct Place {
    int64_t line, element;
  };
  Place at_depth(int64_t m, int64_t n, int64_t k, int64_t batch, int64_t row, int64_t column, int64_t depth,
                 bool grouped_rows = false) const {
    const int64_t own = is_by_batch(grouped_rows) ? batch * of_batch(m, n, k).lines : 0;
    const int64_t block = depth / kScaleBlock;
    if (shape == OperandShape::blocks) return {own + column / kScaleBlock, block};
    return {own + block, shape == OperandShape::rows_by_k ? row : column};
  }
};

// The rows are in the order of ProductOperand.
inline constexpr std::array product_operands = {
#define PTXBUILDER_MATRIX(name, shown, word, role, meaning)                                     \
  ProductOperandRow{                                                                            \
      ProductOperand::name, #name,  #shown, #word, OperandType::addend, OperandShape::elements, \
      OperandRole::role,    meaning},
#define PTXBUILDER_VECTOR(name, word, type, shape, role, meaning)                                       \
  ProductOperandRow{ProductOperand::name, #name,  #name, #word, OperandType::type, OperandShape::shape, \
                    OperandRole::role,    meaning},
#include "kernels/gemm/product.def"
};

static_assert(std::ranges::none_of(product_operands, [](const ProductOperandRow& row) {
  return row.shape == OperandShape::one && row.type != OperandType::f32;
}));

// The number of operands that are matrices.
inline constexpr size_t product_matrices = static_cast<size_t>(
    std::ranges::count_if(product_operands, [](const ProductOperandRow& row) { return row.is_matrix(); }));

// An array that is indexed with a ProductOperand.
template <class T>
struct ByOperand : std::array<T, product_operands.size()> {
  using Base = std::array<T, product_operands.size()>;
  T& operator[](ProductOperand which) { return Base::operator[](static_cast<size_t>(which)); }
  const T& operator[](ProductOperand which) const { return Base::operator[](static_cast<size_t>(which)); }
};

}  // namespace ptxbuilder::kernels

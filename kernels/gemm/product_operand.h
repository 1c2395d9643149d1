// The operands that a product may have in addition to A, B and D. Each row of product.def describes one
// operand. The following are generated from the row: the fields of GemmOperation and MatmulArguments, the
// kernel's parameter and its use in the epilogue, the checks of memory and overlap, the arguments of launches
// and prepared launches, the field of `ptxb run`, the word in files of tuned tiles, the float64 reference,
// and most of the code for C, Python, PyTorch and XLA. For readability, the field of ptxb_matmul and the
// parameter of ptxbuilder.matmul() are written manually. Tests compare these two with the table.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "ptxbuilder/error.h"
#include "ptxbuilder/plan/sparse_matrix.h"

namespace ptxbuilder::kernels {

// The types of operands. `addend` stands for GemmOperation::addend(), which is D's type, or bf16 if D has 8
// bits.
enum class OperandType : uint8_t { f32, addend, s32, s64 };

// The shapes of operands:
// - `rows` and `columns`: an element for each row or column of each batch.
// - `columns_of_all`: an element for each column, shared by all batches.
// - `elements`: an element for each element of D.
// - `groups`: an element for each group.
// - `rows_by_k` and `columns_by_k`: a line for every 128 values of k, with an element for each row or column.
// - `blocks`: a line for every 128 columns, with an element for every 128 values of k.
// - `row_blocks` and `column_blocks`: a line for every 64 values of k, with the metadata of a sparse A or B
// (metadata_shape()).
// If rows are grouped, operands with `rows` have an element for each of the M rows, and operands with
// `columns` or `columns_of_all` have an element for each column of each group.
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

// The roles of operands, in the order in which they are applied. `groups` limit the range of rows or of k,
// `placement` selects the matrix of B, `gather` selects the rows of A, `scatter` selects the rows of D, and
// `sparsity` determines which values are stored. A `block_factor` multiplies the sum of every 128 values of
// k, and a `factor` multiplies the total sum. Then beta times the `residual`, and each `addend`, are added.
// The activation, or its slope at the `inputs`, is applied next. Finally the `greatest` magnitude is written,
// and the `result_factor` multiplies the result before it is rounded. Operands of all roles except the first
// six and the last two have gradients.
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
// Returns whether TMA loads operands with this role, in boxes, together with the stages.
constexpr bool comes_by_tma(OperandRole role) {
  return role == OperandRole::sparsity || role == OperandRole::block_factor;
}

// The operands of a product other than A, B and D. Each enumerator corresponds to a row of product.def.
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
  // Returns how many elements the operand has in a product of `m` rows and `n` columns, with sums over `k`
  // values. If `grouped_rows`, `batches` is the number of groups into which the `m` rows are divided.
  int64_t count(int64_t m, int64_t n, int64_t k, int64_t batches, bool grouped_rows = false) const {
    const auto [lines, length] = of_batch(m, n, k);
    return lines * length * (is_by_batch(grouped_rows) ? batches : 1);
  }
  // The elements of a batch, as lines of equal length. Only matrices, block factors and metadata have more
  // than one line.
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
  // Returns the position of the block factor for a row and a column of a batch. It consists of a line,
  // counted over all batches, and an element within the line. `depth` is the position along k, a multiple of
  // 128.
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

// The rows of product.def, in the order of ProductOperand.
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

// Number of rows that describe matrices.
inline constexpr size_t product_matrices = static_cast<size_t>(
    std::ranges::count_if(product_operands, [](const ProductOperandRow& row) { return row.is_matrix(); }));

// An array indexed by ProductOperand.
template <class T>
struct ByOperand : std::array<T, product_operands.size()> {
  using Base = std::array<T, product_operands.size()>;
  T& operator[](ProductOperand which) { return Base::operator[](static_cast<size_t>(which)); }
  const T& operator[](ProductOperand which) const { return Base::operator[](static_cast<size_t>(which)); }
};

}  // namespace ptxbuilder::kernels

// Implements top k, which returns the largest elements of a row and their columns, in descending order.
#include "kernels/rows/operations.h"
#include "kernels/rows/row.h"

namespace ptxbuilder::kernels {
namespace {

// The largest element and its column, the first if there are several. f32 represents columns exactly.
struct Greatest {
  Numbers value, column;
};

Numbers column_where(const RegisterTile<pred>& is_greatest, const Numbers& column) {
  return select(is_greatest, -column, -INFINITY);
}

Greatest greatest(Row& row, const Numbers& x, const Numbers& column) {
  const Numbers most = reduce_rows(Reduction::max, x);
  const Numbers place = reduce_rows(Reduction::max, column_where(x == row.spread(most), column));
  const RowParts parts = row.exchange({most, place});
  const Numbers all = parts.reduce(Reduction::max, [](const auto& part) { return part[0]; });
  const Numbers first = parts.reduce(
      Reduction::max, [&](const auto& part) { return select(part[0] == all, part[1], -INFINITY); });
  return {all, -first};
}

Kernel top_k_kernel(const RowProblem& problem) {
  if (problem.tile.ctas > 1) throw Error("top_k: a row has more columns than one CTA holds");
  return row_kernel(problem, [](Row& row) {
    const Numbers column = astype<f32>(row.column());
    // Elements that have been selected, and elements after the last column, are NaN, which a maximum ignores.
    Var<Numbers> left(row.load("x", NAN));
    for_(0, row.size("k"), [&](u32 i) {
      const Greatest next = greatest(row, left.value(), column);
      row.store_number_at("values", i, next.value);
      row.store_number_at("columns_of_values", i, next.column);
      left = select(column == row.spread(next.column), f32(NAN), left.value());
    });
  });
}

}  // namespace

RowOperation top_k() {
  using enum RowTensor::Type;
  using enum RowTensor::Use;
  return {.name = "top_k",
          .summary = "the k greatest elements of each row and their columns, in descending order",
          .tensors = {{"x", {"rows", "columns"}, any, read, "the rows"},
                      {"values", {"rows", "k"}, of_first, written, "the greatest elements; NaN is ignored"},
                      {"columns_of_values",
                       {"rows", "k"},
                       integer,
                       written,
                       "their columns; among equal elements the first"}},
          .limits = {.values = 16, .values_of_words = 16},
          .build = top_k_kernel};
}

}  // namespace ptxbuilder::kernels

// Implements the transpose of a matrix. Tiles pass through shared memory, so that both loads and stores make
// wide accesses along rows.
#include <fmt/format.h>

#include "kernels/rows/element.h"
#include "kernels/rows/operations.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/parameters.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int kEdge = 64;  // edge of a tile, in elements

template <class T>
void transpose_tile(Kernel& k, const Parameters& p, int vector) {
  const SharedTile tile = k.shared<T>({kEdge, kEdge}, Swizzle128B, 1, "tile");
  const u32 rows = p.get<u32>("rows"), columns = p.get<u32>("columns"), across = ceil_div(columns, kEdge);
  const u32 row = ctaid_x() / across * kEdge, column = ctaid_x() % across * kEdge;
  const GlobalTensor x(p.get<gptr<T>>("x"), {rows, columns}), y(p.get<gptr<T>>("y"), {columns, rows});
  const RegisterLayout by_rows = strided({kEdge, kEdge}, vector);
  store(tile[0], load<T>(x.multiples_of(vector).tile(row, column), by_rows));
  sync_threads();
  store(y.multiples_of(vector).tile(column, row), layout_cast(load<T>(tile[0].transposed()), by_rows));
}

Kernel transpose_kernel(const RowProblem& problem) {
  Kernel k(problem.operation->name);
  Parameters p;
  p.add("x", Parameter::Kind::pointer, *problem.types[0], "the matrix");
  p.add("y", Parameter::Kind::pointer, *problem.types[0], "its transpose");
  p.add("rows", Parameter::Kind::scalar, DType::u32, "extent of x");
  p.add("columns", Parameter::Kind::scalar, DType::u32, "extent of x");
  p.declare(k, Where::here());
  k.threads(RegisterLayout::kThreads);
  k.grid(fmt::format("ceil_div(rows, {0}) * ceil_div(columns, {0})", kEdge));
  with_type(*problem.types[0], [&]<class T>(T) { transpose_tile<T>(k, p, problem.tile.vector); });
  return k;
}

}  // namespace

RowOperation transpose() {
  using enum RowTensor::Type;
  using enum RowTensor::Use;
  return {.name = "transpose",
          .summary = "y = the transpose of x",
          .tensors = {{"x", {"rows", "columns"}, any, read, "the matrix"},
                      {"y", {"columns", "rows"}, of_first, written, "its columns as rows"}},
          .is_of_rows = false,
          .build = transpose_kernel};
}

}  // namespace ptxbuilder::kernels

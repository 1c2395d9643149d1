// This sums the rows of each column, behind an operation whose CTAs have summed theirs.
#include "kernels/rows/operations.h"
#include "kernels/rows/row.h"
#include "ptxbuilder/registers/memory.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int kColumns = 8, kRows = 256;  // of a CTA, at a time

template <class T>
void store_as(const Parameters& p, u32 column, const Numbers& sums) {
  const GlobalTensor y(p.get<gptr<T>>("y"), {p.get<u32>("columns")});
  if constexpr (std::same_as<T, f32>)
    store(y.as_row().tile(0, column), sums);
  else
    store(y.as_row().tile(0, column), astype<T>(sums));
}

Kernel row_sums_kernel(const RowProblem& problem) {
  Kernel k(problem.operation->name);
  Parameters p;
  p.add("x", Parameter::Kind::pointer, DType::f32, "the rows");
  p.add("y", Parameter::Kind::pointer, *problem.types[1], "the sum of each column");
  p.add("rows", Parameter::Kind::scalar, DType::u32, "an extent of x");
  p.add("columns", Parameter::Kind::scalar, DType::u32, "an extent of x and y");
  p.declare(k, Where::here());
  k.grid("ceil_div(columns, " + std::to_string(kColumns) + ")");
  k.overlaps();
  griddepcontrol_wait();
  const u32 column = ctaid_x() * kColumns, rows = p.get<u32>("rows");
  const GlobalTensor x(p.get<gptr<f32>>("x"), {rows, p.get<u32>("columns")});
  const RegisterLayout layout = strided({kRows, kColumns}, 1);
  Var<Numbers> sums(Numbers(f32(0), layout));
  for_(0, rows, kRows, [&](u32 row) { sums = sums + load<f32>(x.tile(row, column), layout); });
  const Numbers all = reduce_cols(Reduction::add, sums.value());
  if (problem.types[1] == DType::f16)
    store_as<f16>(p, column, all);
  else if (problem.types[1] == DType::bf16)
    store_as<bf16>(p, column, all);
  else
    store_as<f32>(p, column, all);
  return k;
}

}  // namespace

RowOperation row_sums() {
  using enum RowTensor::Type;
  using enum RowTensor::Use;
  return {.name = "row_sums",
          .summary = "y = the sum of each column of x",
          .tensors = {{"x", {"rows", "columns"}, number, read, "the rows"},
                      {"y", {"columns"}, any, written, "the sum of each column"}},
          .build = row_sums_kernel};
}

}  // namespace ptxbuilder::kernels

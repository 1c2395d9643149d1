// Adds up the columns of one or two matrices. It runs after an operation with summed results, which stores a
// row of sums for each group of CTAs.
#include "kernels/rows/operations.h"
#include "kernels/rows/row.h"
#include "ptxbuilder/registers/memory.h"

namespace ptxbuilder::kernels {
namespace {

// The numbers of rows and columns that a CTA processes at a time. If large clusters share a row, there are
// few rows of sums.
struct Block {
  int rows, columns;
};
Block block_for(const RowTile& t) { return t.ctas >= 8 ? Block{32, 128} : Block{256, 32}; }

template <class T>
void store_as(const Parameters& p, const std::string& y, u32 column, const Numbers& sums) {
  const GlobalTensor to(p.get<gptr<T>>(y), {p.get<u32>("columns")});
  if constexpr (std::same_as<T, f32>)
    store(to.as_row().tile(0, column), sums);
  else
    store(to.as_row().tile(0, column), astype<T>(sums));
}

void sum(const Parameters& p, const std::string& x, const std::string& y, DType type, const RowTile& t) {
  const Block block = block_for(t);
  const u32 column = ctaid_x() * static_cast<uint32_t>(block.columns), rows = p.get<u32>("rows");
  const GlobalTensor from =
      GlobalTensor(p.get<gptr<f32>>(x), {rows, p.get<u32>("columns")}).multiples_of(t.vector);
  const RegisterLayout layout = strided({block.rows, block.columns}, t.vector);
  Var<Numbers> sums(Numbers(f32(0), layout));
  for_(0, rows, static_cast<uint32_t>(block.rows),
       [&](u32 row) { sums = sums + load<f32>(from.tile(row, column), layout); });
  const Numbers all = reduce_cols(Reduction::add, sums.value());
  if (type == DType::f16)
    store_as<f16>(p, y, column, all);
  else if (type == DType::bf16)
    store_as<bf16>(p, y, column, all);
  else
    store_as<f32>(p, y, column, all);
}

Kernel row_sums_kernel(const RowProblem& problem) {
  const std::vector<RowTensor>& tensors = problem.operation->tensors;
  const bool has_second = problem.types[2].has_value();
  Kernel k(problem.operation->name);
  Parameters p;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (problem.types[i])
      p.add(tensors[i].name, Parameter::Kind::pointer, *problem.types[i], tensors[i].meaning);
  p.add("rows", Parameter::Kind::scalar, DType::u32, "an extent of x");
  p.add("columns", Parameter::Kind::scalar, DType::u32, "an extent of x and y");
  p.declare(k, Where::here());
  k.grid("ceil_div(columns, " + std::to_string(block_for(problem.tile).columns) + ")",
         has_second ? "2" : "1");
  k.overlaps();
  griddepcontrol_wait();
  const auto first = [&] { sum(p, "x", "y", *problem.types[1], problem.tile); };
  if (!has_second)
    first();
  else
    if_(ctaid_y() == 0, first, [&] { sum(p, "x2", "y2", *problem.types[3], problem.tile); });
  return k;
}

}  // namespace

RowOperation row_sums() {
  using enum RowTensor::Type;
  using enum RowTensor::Use;
  return {.name = "row_sums",
          .summary = "y = the sum of each column of x, and y2 of x2",
          .tensors = {{"x", {"rows", "columns"}, number, read, "the rows"},
                      {"y", {"columns"}, any, written, "the sum of each column"},
                      {"x2", {"rows", "columns"}, number, read_if_given, "other rows"},
                      {"y2", {"columns"}, any, written_if_given, "the sum of each of their columns"}},
          .build = row_sums_kernel};
}

}  // namespace ptxbuilder::kernels

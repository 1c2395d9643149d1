// Rotary embedding: both halves of each head are turned by the angles of its position.
#include <fmt/format.h>

#include "kernels/rows/element.h"
#include "kernels/rows/operations.h"
#include "kernels/rows/row.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/parameters.h"

namespace ptxbuilder::kernels {
namespace {

template <class T>
class RotaryTile {
 public:
  RotaryTile(const Parameters& p, const RowTile& tile, const RowOperation& o)
      : p_(p), tile_(tile), layout_(tile.layout()), given_(o.tensors[0].name), turned_(o.tensors[3].name) {}

  // `back` turns the other way, as the gradient does.
  void operator()(bool back) const {
    const u32 heads = p_.get<u32>("heads"), rows = p_.get<u32>("rows") * heads,
              row = ctaid_x() * tile_.rows();
    // A thread has one row.
    const u32 own = row + u32(row_index(layout_.reduced_rows()).value(0));
    const u32 position = own / heads % p_.get<u32>("positions");
    const RegisterTile<f32> first = half(given_, rows, row, 0), second = half(given_, rows, row, 1),
                            cos = angle("cos", position), turn = angle("sin", position),
                            sin = back ? -turn : turn;
    put(rows, row, 0, first * cos - second * sin);
    put(rows, row, 1, second * cos + first * sin);
  }

 private:
  TensorTile<T> place(const std::string& tensor, u32 rows, u32 row, int which) const {
    const u32 columns = p_.get<u32>("columns");
    const gptr<T> start = p_.get<gptr<T>>(tensor) + columns * which;
    const GlobalTensor all(start, {rows, columns}, {columns * 2, 1});
    return all.multiples_of(tile_.vector).tile(row, 0);
  }
  RegisterTile<f32> half(const std::string& tensor, u32 rows, u32 row, int which) const {
    return widened(load<T>(place(tensor, rows, row, which), layout_));
  }
  void put(u32 rows, u32 row, int which, const RegisterTile<f32>& x) const {
    store(place(turned_, rows, row, which), narrowed<T>(x));
  }
  RegisterTile<f32> angle(const std::string& tensor, u32 position) const {
    const u32 columns = p_.get<u32>("columns");
    TensorTile<T> tile{{p_.get<gptr<T>>(tensor) + u64(position) * u64(columns), 0}};
    tile.cols = s32(columns);
    tile.vector = tile_.vector;
    return widened(load<T>(tile, layout_));
  }
  const Parameters& p_;
  const RowTile& tile_;
  const RegisterLayout layout_;
  const std::string given_, turned_;
};

Kernel rotary_kernel_of(const RowProblem& problem, bool back) {
  const RowOperation& o = *problem.operation;
  if (problem.tile.is_shared()) throw Error("rotary: a half of a head has more columns than a warp holds");
  Kernel k(o.name);
  const Parameters p = declare_parameters(k, problem);
  k.threads(RegisterLayout::kThreads);
  k.grid(fmt::format("ceil_div(rows * heads, {})", problem.tile.rows()));
  with_type(*problem.types[0], [&]<class T>(T) { RotaryTile<T>(p, problem.tile, o)(back); });
  return k;
}

RowOperation rotary_of(const std::string& name, const std::string& x, const std::string& y,
                       Kernel (*build)(const RowProblem&)) {
  using enum RowTensor::Type;
  using enum RowTensor::Use;
  return {.name = name,
          .summary = y + " = the halves of each head of " + x + ", turned by the angles of its position",
          .tensors = {{x, {"rows", "heads", "halves", "columns"}, any, read, "two halves of each head"},
                      {"cos",
                       {"positions", "columns"},
                       of_first,
                       read,
                       "of the angles; row r has position r % positions"},
                      {"sin", {"positions", "columns"}, of_first, read, "of the angles"},
                      {y, {"rows", "heads", "halves", "columns"}, of_first, written, "the halves, turned"}},
          .limits = {.rows_of_thread = 1},
          .reduces = false,
          .build = build};
}

}  // namespace

RowOperation rotary() {
  return rotary_of("rotary", "x", "y",
                   [](const RowProblem& problem) { return rotary_kernel_of(problem, false); });
}
RowOperation rotary_gradient() {
  return rotary_of("rotary_gradient", "dy", "dx",
                   [](const RowProblem& problem) { return rotary_kernel_of(problem, true); });
}

}  // namespace ptxbuilder::kernels

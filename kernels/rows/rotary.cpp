// Implements rotary embedding, which rotates the halves of each head by the angles of its position.
#include <fmt/format.h>

#include "kernels/rows/halves.h"
#include "kernels/rows/operations.h"
#include "kernels/rows/row.h"

namespace ptxbuilder::kernels {
namespace {

Kernel rotary_kernel_of(const RowProblem& problem, bool back) {
  const RowOperation& o = *problem.operation;
  if (problem.tile.is_shared()) throw Error("rotary: a half of a head has more columns than a warp holds");
  Kernel k(o.name);
  const Parameters p = declare_parameters(k, problem);
  k.threads(RegisterLayout::kThreads);
  k.grid(fmt::format("ceil_div(rows * heads, {})", problem.tile.rows()));
  with_type(*problem.types[0], [&]<class T>(T) {
    const Halves<T> halves(p, problem.tile);
    const u32 heads = p.get<u32>("heads"), own = halves.own_row();
    const pred is_there = own < p.get<u32>("rows") * heads;
    const auto given = halves.load_head(o.tensors[0].name, own, is_there);
    halves.store_head(o.tensors[3].name, own, is_there,
                      halves.turned(given, own / heads % p.get<u32>("positions"), back));
  });
  return k;
}

RowOperation rotary_of(const std::string& name, const std::string& x, const std::string& y,
                       Kernel (*build)(const RowProblem&)) {
  using enum RowTensor::Type;
  using enum RowTensor::Use;
  return {.name = name,
          .summary = y + " = the halves of each head of " + x + ", rotated by the angles of its position",
          .tensors = {{x, {"rows", "heads", "halves", "columns"}, any, read, "two halves of each head"},
                      {"cos",
                       {"positions", "columns"},
                       of_first,
                       read,
                       "the cosines of the angles; row r has position r % positions"},
                      {"sin", {"positions", "columns"}, of_first, read, "the sines of the angles"},
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

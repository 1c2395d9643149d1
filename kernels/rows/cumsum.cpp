// Implements the cumulative sum, which is the sum of each element of a row and all elements before it.
#include "kernels/rows/operations.h"
#include "kernels/rows/row.h"

namespace ptxbuilder::kernels {
namespace {

f32 from_lane(u32 lane, f32 x) { return bit_cast<f32>(shfl_sync_idx(bit_cast<u32>(x), lane)); }

// Returns the sum of x over this lane and all lower lanes that share its row.
f32 sum_of_lanes(f32 x, int lanes) {
  const u32 lane = tid_x() % 32, in_row = lane % static_cast<uint32_t>(lanes);
  for (uint32_t distance = 1; distance < static_cast<uint32_t>(lanes); distance *= 2) {
    const f32 before = from_lane((lane - distance) & 31u, x);
    x = x + select(in_row >= distance, before, f32(0));
  }
  return x;
}

// Returns the cumulative sums within a warp's part of each row. The total of the part is appended to
// `totals`, for each row of the thread.
Numbers sums_in_part(const Numbers& x, const RowTile& t, std::vector<f32>& totals) {
  const u32 lane = tid_x() % 32, last = lane | static_cast<uint32_t>(t.lanes - 1);
  std::vector<f32> sums;
  for (int r = 0; r < t.rows_of_thread; ++r) {
    f32 before = 0;  // sum over all earlier accesses
    for (int v = 0; v < t.vectors; ++v) {
      std::vector<f32> own;
      for (int i = 0; i < t.vector; ++i) {
        const f32 one = x.value((r * t.vectors + v) * t.vector + i);
        own.push_back(own.empty() ? one : own.back() + one);
      }
      const f32 to_here = sum_of_lanes(own.back(), t.lanes),
                of_lanes_before = before + (to_here - own.back());
      for (const f32& one : own) sums.push_back(of_lanes_before + one);
      before = before + from_lane(last, to_here);
    }
    totals.push_back(before);
  }
  return Numbers::of(x.layout(), sums);
}

Kernel cumsum_kernel(const RowProblem& problem) {
  return row_kernel(problem, [&](Row& row) {
    std::vector<f32> totals;
    const Numbers sums = sums_in_part(row.load("x"), problem.tile, totals);
    const RegisterLayout rows = row.layout().reduced_rows();
    const Numbers place(row.begin_of_part(), rows);
    const Numbers before =
        row.exchange({place, Numbers::of(rows, totals)}).reduce(Reduction::add, [&](const auto& part) {
          return select(part[0] < place, part[1], 0.f);
        });
    row.store("y", sums + row.spread(before));
  });
}

}  // namespace

RowOperation cumsum() {
  using enum RowTensor::Type;
  using enum RowTensor::Use;
  return {.name = "cumsum",
          .summary = "y = the sums of each element of a row and all before it",
          .tensors = {{"x", {"rows", "columns"}, any, read, "the rows"},
                      {"y", {"rows", "columns"}, of_first, written, "their sums, each up to its column"}},
          .build = cumsum_kernel};
}

}  // namespace ptxbuilder::kernels

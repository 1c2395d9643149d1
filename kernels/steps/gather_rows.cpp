// gather_rows: copies the rows of a table that an index selects to a matrix, or adds the rows of a matrix to
// them. For comparison, it can also copy the same number of consecutive rows. One thread of a CTA loads each
// row with a separate copy, and another thread stores.
#include <algorithm>
#include <cmath>

#include "kernels/family/family.h"
#include "kernels/family/run.h"
#include "ptxbuilder/ir/math.h"
#include "ptxbuilder/tile/bulk.h"
#include "ptxbuilder/tile/commit.h"
#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder::kernels {
namespace {

enum : int { kGather, kScatterAdd, kCopy };

struct GatherConfig {
  int way, n, rows, stages, ctas;
};

Kernel gather_rows(const GatherConfig& c) {
  Kernel k("gather_rows");
  auto [matrix, table, index, m, count] =
      k.params<TensorMap, gptr<f32>, gptr<u32>, u32, u32>("matrix", "table", "index", "m", "count");
  k.grid("min(ceil_div(m, " + std::to_string(c.rows) + "), " + std::to_string(c.ctas) +
         " * multiprocessors)");
  k.describe({{"matrix", "m rows of n"},
              {"table", "rows of n; an index names some of them"},
              {"index", "the number of a row of the table for each row of the matrix"},
              {"m", "rows of the matrix"},
              {"count", "rows of the table"}});
  const SharedTile tile = k.shared(DType::f32, {c.rows, c.n}, Swizzle::none, c.stages, "rows");
  const Pipeline pipe(k, c.stages, {tile}, 1);
  const auto n = static_cast<uint32_t>(c.n), rows = static_cast<uint32_t>(c.rows);
  const IndexedRows<f32> of_table{table, n, count};
  // Iterates over the blocks of rows of this CTA. If rows are copied, the last block begins early enough to
  // end at m.
  const auto each_block = [&](const std::function<void(u32)>& body) {
    for_(ctaid_x(), ceil_div(m, rows), nctaid_x(),
         [&](u32 block) { body(c.way == kCopy ? min(block * rows, m - rows) : block * rows); });
  };
  const auto number_of = [&](u32 first) -> RowIndex {
    return [&, first](u32 row) { return u32(index[min(first + row, m - 1)]); };
  };

  k.warpgroups(1, 0, [&](u32) {
    elect([&] {
      auto ring = pipe.producer();
      each_block([&](u32 first) {
        auto s = ring.acquire();
        if (c.way == kGather)
          bulk_gather(tile[s], of_table, number_of(first));
        else if (c.way == kScatterAdd)
          tma_load(tile[s], matrix, 0, first);
        else
          bulk_load(tile[s], table, first * n);
      });
    });
  });
  k.warpgroups(1, 0, [&](u32) {
    auto ring = pipe.consumer();
    each_block([&](u32 first) {
      auto s = ring.wait();
      elect([&] {
        if (c.way == kScatterAdd)  // rows at m and above are zeros, and are not stored
          bulk_scatter_reduce(CopyReduction::add, of_table, tile[s],
                              [&](u32 row) { return select(first + row < m, number_of(first)(row), count); });
        else
          tma_store(matrix, tile[s], 0, first);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group_read(0);
      });
      sync_warpgroup();  // all threads of the warpgroup must have stored
      ring.release(s);
    });
    elect([] { cp_async_bulk_wait_group(0); });
  });
  return k;
}

void run(const command::Fields& f, command::Run& run) {
  const auto m = static_cast<uint64_t>(f["m"]), n = static_cast<uint64_t>(f["n"]),
             count = static_cast<uint64_t>(f["count"]);
  const int way = f.small("way");
  if (way == kCopy && (m < static_cast<uint64_t>(f["rows"]) || count < m))
    throw Error(
        "gather_rows: a copy must have at least as many rows as a block, and the table as many rows as the "
        "copy");
  if (std::max(m, count) * n > UINT32_MAX) throw Error("gather_rows: m n and count n must be below 2^32");
  command::Tensor index = run.normal(DType::u32, {m}),
                  in = run.normal(DType::f32, {n, way == kScatterAdd ? m : count}),
                  out = run.output(DType::f32, {n, way == kScatterAdd ? count : m});
  // The index contains all rows of the table in an irregular order, and some rows that do not exist.
  std::vector<uint64_t> rows(m);
  for (uint64_t i = 0; i < m; ++i) {
    rows[i] = i % 61 == 60 ? UINT32_MAX - i : i * 2654435761u % (uint64_t{1} << 32) % count;
    index.set(i, static_cast<double>(rows[i]));
  }
  index.to_device();
  const command::Tensor &matrix = way == kScatterAdd ? in : out, &table = way == kScatterAdd ? out : in;
  run.launch({matrix.tensor(), table.pointer(), index.pointer(), runtime::scalar(static_cast<uint32_t>(m)),
              runtime::scalar(static_cast<uint32_t>(count))});
  std::vector<double> sums(way == kScatterAdd && run.verifies() ? count * n : 0), magnitudes(sums.size());
  for (uint64_t i = 0; i < m && !sums.empty(); ++i)
    for (uint64_t column = 0; column < n && rows[i] < count; ++column) {
      sums[rows[i] * n + column] += in[i * n + column];
      magnitudes[rows[i] * n + column] += std::abs(in[i * n + column]);
    }
  run.check(
      out, 1,
      [&](size_t i) {
        if (way == kScatterAdd) return command::Expected{sums[i], 1e-6 * magnitudes[i]};
        const uint64_t row = way == kCopy ? i / n : std::min(rows[i / n], count - 1);
        return command::Expected{in[row * n + i % n], 0};
      },
      way == kScatterAdd ? std::function<void()>([&] { out.zero(); }) : nullptr);
  run.measure(0, 8 * static_cast<double>(m * n));
}

const command::Registration registration({
    .name = "gather_rows",
    .summary = "rows of a table that an index selects, gathered or added to, or a plain copy",
    .fields = {{"m", 300, "rows of the matrix"},
               {"count", 400, "rows of the table"},
               {"n", 64, "columns", 4},
               {"way", kGather, "what the kernel does", 1, 0, {"gather", "scatter_add", "copy"}},
               {"rows", 16, "rows of a block"},
               {"stages", 4, "blocks in flight"},
               {"ctas", 2, "CTAs of an SM"}},
    .build =
        [](const command::Fields& f) {
          return gather_rows(
              {f.small("way"), f.small("n"), f.small("rows"), f.small("stages"), f.small("ctas")});
        },
    .run = run,
});

}  // namespace
}  // namespace ptxbuilder::kernels

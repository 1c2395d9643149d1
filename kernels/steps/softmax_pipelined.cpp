// softmax_pipelined: the softmax of each row of an m x n matrix. Each CTA processes several blocks of rows;
// emit_pipeline loads them in advance and stores them later.
#include <cmath>
#include <numbers>

#include "kernels/family/family.h"
#include "kernels/family/run.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/emit_pipeline.h"

namespace ptxbuilder::kernels {
namespace {

Kernel softmax_pipelined(int rows, int n, int stages) {
  Kernel k("softmax_pipelined");
  auto [X, Y, m] = k.params<TensorMap, TensorMap, u32>("X", "Y", "m");
  const IndexMap block = [](const GridIndex& i) { return BlockIndex{ctaid_x() + i[0] * nctaid_x(), 0}; };
  const BlockSpec x(X, DType::f32, {rows, n}, block), y(Y, DType::f32, {rows, n}, block);
  emit_pipeline(k, {steps_of_cta(ceil_div(m, rows))}, {x}, {y}, {.stages = stages}, [&](PipelineStep& s) {
    auto v = load<f32>(s.in(0)) * std::numbers::log2e_v<float>;
    auto e = exp2(v - broadcast(reduce_rows(Reduction::max, v), v.layout()), Approx::yes);
    store(s.out(0), e / broadcast(reduce_rows(Reduction::add, e), e.layout()));
  });
  return k;
}

Kernel described(Kernel k, int rows, int ctas) {
  k.grid("min(ceil_div(m, " + std::to_string(rows) + "), " + std::to_string(ctas) + ")");
  k.describe({{"X", "m rows of n"}, {"Y", "the softmax of each row"}, {"m", "rows"}});
  return k;
}

void run(const command::Fields& f, command::Run& run) {
  const uint64_t m = static_cast<uint64_t>(f["m"]), n = static_cast<uint64_t>(f["n"]);
  command::Tensor x = run.normal(DType::f32, {n, m}), y = run.output(DType::f32, {n, m});
  run.launch({x.tensor(), y.tensor(), runtime::scalar(static_cast<uint32_t>(m))});
  std::vector<double> sums(m);
  for (size_t i = 0; i < m * n; ++i) sums[i / n] += std::exp(x[i]);
  run.check(y, static_cast<double>(n), [&](size_t i) {
    const double value = std::exp(x[i]) / sums[i / n];
    return command::Expected{value, 1e-5 * value};  // exp2 and the division are approximate
  });
  run.measure(4 * static_cast<double>(m * n), 8 * static_cast<double>(m * n));
}

const command::Registration registration({
    .name = "softmax_pipelined",
    .summary = "the softmax of rows with a pipeline of blocks",
    .fields = {{"m", 40, "rows"},
               {"n", 256, "columns: a block has whole rows", 32},
               {"rows", 4, "rows of a block"},
               {"stages", 3, "blocks in flight"},
               {"ctas", 4, "the largest number of CTAs of the grid"}},
    .build =
        [](const command::Fields& f) {
          return described(softmax_pipelined(f.small("rows"), f.small("n"), f.small("stages")),
                           f.small("rows"), f.small("ctas"));
        },
    .run = run,
});

}  // namespace
}  // namespace ptxbuilder::kernels

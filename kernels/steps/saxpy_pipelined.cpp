// saxpy_pipelined: y = alpha x + y on an m x n matrix: each CTA has 32 rows, whose blocks emit_pipeline loads
// ahead and stores behind.
#include "kernels/family/family.h"
#include "kernels/family/run.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/emit_pipeline.h"

namespace ptxbuilder::kernels {
namespace {

constexpr float kAlpha = 2;
constexpr int kBlock = 32;  // rows and columns of a block

Kernel saxpy_pipelined(int stages) {
  Kernel k("saxpy_pipelined");
  auto [X, Y, alpha, n] = k.params<TensorMap, TensorMap, f32, u32>("X", "Y", "alpha", "n");
  const IndexMap block = [](const GridIndex& i) { return BlockIndex{ctaid_x(), i[0]}; };
  const BlockSpec x(X, DType::f32, {kBlock, kBlock}, block), y(Y, DType::f32, {kBlock, kBlock}, block);
  emit_pipeline(k, {ceil_div(n, kBlock)}, {x, y}, {y}, {.stages = stages},
                [&, alpha = alpha](PipelineStep& s) {
                  store(s.out(0), load<f32>(s.in(0)) * alpha + load<f32>(s.in(1)));
                });
  return k;
}

Kernel described(Kernel k) {
  k.grid("ceil_div(extent(X, 1), 32)");
  k.describe({{"X", "what is multiplied by alpha"},
              {"Y", "what it is added to, and the result"},
              {"alpha", "a factor"},
              {"n", "columns"}});
  return k;
}

void run(const command::Fields& f, command::Run& run) {
  const uint64_t m = static_cast<uint64_t>(f["m"]), n = static_cast<uint64_t>(f["n"]);
  command::Tensor x = run.normal(DType::f32, {n, m}), y = run.normal(DType::f32, {n, m});
  std::vector<double> before(m * n);
  for (size_t i = 0; i < m * n; ++i) before[i] = y[i];
  run.launch({x.tensor(), y.tensor(), runtime::scalar(kAlpha), runtime::scalar(static_cast<uint32_t>(n))});
  run.check(
      y, 1,
      [&](size_t i) {
        double value = kAlpha * x[i] + before[i];
        return command::Expected{value, unit_roundoff(DType::f32) * std::abs(value)};
      },
      [&] {
        for (size_t i = 0; i < y.count(); ++i) y.set(i, before[i]);
        y.to_device();
      });
  run.measure(2 * static_cast<double>(m * n), 12 * static_cast<double>(m * n));
}

const command::Registration registration({
    .name = "saxpy_pipelined",
    .summary = "y = alpha x + y by a pipeline of blocks",
    .fields = {{"m", 64, "rows, 32 of a CTA"}, {"n", 160, "columns", 4}, {"stages", 4, "blocks on the way"}},
    .build = [](const command::Fields& f) { return described(saxpy_pipelined(f.small("stages"))); },
    .run = run,
});

}  // namespace
}  // namespace ptxbuilder::kernels

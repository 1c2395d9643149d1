// saxpy_pipelined: y = alpha x + y for an m x n matrix. Each CTA processes 32 rows in blocks; emit_pipeline
// loads the blocks in advance and stores them later.
#include "kernels/family/family.h"
#include "kernels/steps/saxpy_run.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/emit_pipeline.h"

namespace ptxbuilder::kernels {
namespace {

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
  k.describe({{"X", "the factor of alpha"},
              {"Y", "the addend, and the result"},
              {"alpha", "a factor"},
              {"n", "columns"}});
  return k;
}

void run(const command::Fields& f, command::Run& run) {
  run_saxpy(f, run, [&](command::Tensor& x, command::Tensor& y) {
    return std::vector{x.tensor(), y.tensor(), runtime::scalar(kAlpha),
                       runtime::scalar(static_cast<uint32_t>(f["n"]))};
  });
}

const command::Registration registration({
    .name = "saxpy_pipelined",
    .summary = "y = alpha x + y with a pipeline of blocks",
    .fields = {{"m", 64, "rows, 32 of a CTA"}, {"n", 160, "columns", 4}, {"stages", 4, "blocks in flight"}},
    .build = [](const command::Fields& f) { return described(saxpy_pipelined(f.small("stages"))); },
    .run = run,
});

}  // namespace
}  // namespace ptxbuilder::kernels

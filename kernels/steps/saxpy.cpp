// saxpy: y = alpha x + y on an m x n matrix, one element a thread, by plain loads and stores.
#include <fmt/format.h>

#include "kernels/family/family.h"
#include "kernels/steps/saxpy_run.h"

namespace ptxbuilder::kernels {
namespace {

Kernel saxpy(uint32_t threads) {
  Kernel k("saxpy");
  auto [x, y, alpha, count] = k.params<gptr<f32>, gptr<f32>, f32, u32>("x", "y", "alpha", "count");
  k.threads(threads);
  k.grid(fmt::format("ceil_div(count, {})", threads));
  k.describe({{"x", "what is multiplied by alpha"},
              {"y", "what it is added to, and the result"},
              {"alpha", "a factor"},
              {"count", "elements of x and of y"}});
  u32 i = ctaid_x() * threads + tid_x();
  if_(i < count, [&] { y[i] = fma(alpha, x[i], y[i]); });
  return k;
}

void run(const command::Fields& f, command::Run& run) {
  const uint64_t count = static_cast<uint64_t>(f["m"]) * static_cast<uint64_t>(f["n"]);
  if (count > UINT32_MAX) throw Error("saxpy: m n must be below 2^32");
  run_saxpy(f, run, [&](command::Tensor& x, command::Tensor& y) {
    return std::vector{x.pointer(), y.pointer(), runtime::scalar(kAlpha),
                       runtime::scalar(static_cast<uint32_t>(count))};
  });
}

const command::Registration registration({
    .name = "saxpy",
    .summary = "y = alpha x + y by plain loads and stores",
    .fields = {{"m", 256, "rows"}, {"n", 32, "columns"}, {"threads", 32, "threads of a CTA"}},
    .build = [](const command::Fields& f) { return saxpy(static_cast<uint32_t>(f["threads"])); },
    .run = run,
});

}  // namespace
}  // namespace ptxbuilder::kernels

// saxpy: y = alpha x + y for an m x n matrix, with one thread per element and plain loads and stores.
#include <fmt/format.h>

#include "kernels/family/family.h"
#include "kernels/family/run.h"

namespace ptxbuilder::kernels {
namespace {

constexpr float kAlpha = 2;

Kernel saxpy(uint32_t threads) {
  Kernel k("saxpy");
  auto [x, y, alpha, count] = k.params<gptr<f32>, gptr<f32>, f32, u32>("x", "y", "alpha", "count");
  k.threads(threads);
  k.grid(fmt::format("ceil_div(count, {})", threads));
  k.describe({{"x", "the factor of alpha"},
              {"y", "the addend, and the result"},
              {"alpha", "a factor"},
              {"count", "elements of x and of y"}});
  u32 i = ctaid_x() * threads + tid_x();
  if_(i < count, [&] { y[i] = fma(alpha, x[i], y[i]); });
  return k;
}

void run(const command::Fields& f, command::Run& run) {
  uint64_t m = static_cast<uint64_t>(f["m"]), n = static_cast<uint64_t>(f["n"]), count = m * n;
  if (count > UINT32_MAX) throw Error("saxpy: m n must be below 2^32");
  command::Tensor x = run.normal(DType::f32, {n, m}), y = run.normal(DType::f32, {n, m});
  std::vector<double> before(count);
  for (size_t i = 0; i < count; ++i) before[i] = y[i];
  run.launch(
      {x.pointer(), y.pointer(), runtime::scalar(kAlpha), runtime::scalar(static_cast<uint32_t>(count))});
  // The result is rounded once, so its error is at most half a unit in the last place.
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
  run.measure(2 * static_cast<double>(count), 12 * static_cast<double>(count));
}

const command::Registration registration({
    .name = "saxpy",
    .summary = "y = alpha x + y with plain loads and stores",
    .fields = {{"m", 256, "rows"}, {"n", 32, "columns"}, {"threads", 32, "threads of a CTA"}},
    .build = [](const command::Fields& f) { return saxpy(static_cast<uint32_t>(f["threads"])); },
    .run = run,
});

}  // namespace
}  // namespace ptxbuilder::kernels

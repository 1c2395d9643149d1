// A kernel family of somebody else's: y = alpha x, with the command line of the project's own kernels.
#include "ptxbuilder/kernels/command/family.h"
#include "ptxbuilder/kernels/command/run.h"

using namespace ptxbuilder;

namespace {

constexpr float kAlpha = 3;
constexpr uint32_t kThreads = 128;  // of a CTA, unless a kernel says otherwise

Kernel scale() {
  Kernel k("scale");
  auto [x, y, alpha, n] = k.params<gptr<f32>, gptr<f32>, f32, u32>("x", "y", "alpha", "n");
  u32 i = ctaid_x() * kThreads + tid_x();
  if_(i < n, [&] { y[i] = alpha * x[i]; });
  k.grid("ceil_div(n, 128)");
  return k;
}

void run(const command::Fields& f, command::Run& run) {
  const auto n = static_cast<uint32_t>(f["n"]);
  command::Tensor x = run.normal(DType::f32, {n}), y = run.output(DType::f32, {n});
  run.launch({x.pointer(), y.pointer(), runtime::scalar(kAlpha), runtime::scalar(n)});
  run.check(y, 1, [&](size_t i) {
    const double value = kAlpha * x[i];
    return command::Expected{value, unit_roundoff(DType::f32) * std::abs(value)};
  });
  run.measure(n, 8.0 * n);
}

const command::Registration registration({
    .name = "scale",
    .summary = "y = alpha x",
    .fields = {{"n", 1000, "elements"}},
    .build = [](const command::Fields&) { return scale(); },
    .run = run,
});

}  // namespace

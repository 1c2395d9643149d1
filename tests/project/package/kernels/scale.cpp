// A user's kernel family: y = alpha x, with the command line of the project's own kernels.
#include "ptxbuilder/kernels/family/family.h"
#include "ptxbuilder/kernels/family/run.h"

using namespace ptxbuilder;

namespace {

constexpr float kAlpha = 3;

Kernel scale(const command::Fields& f) {
  const auto threads = static_cast<uint32_t>(f["threads"]);
  Kernel k("scale");
  auto [x, y, alpha, n] = k.params<gptr<f32>, gptr<f32>, f32, u32>("x", "y", "alpha", "n");
  k.threads(threads);
  k.grid("ceil_div(n, " + f.word("threads") + ")");  // the parameter n determines the number of CTAs
  u32 i = ctaid_x() * threads + tid_x();
  if_(i < n, [&] { y[i] = alpha * x[i]; });
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
    .fields = {{"n", 1000, "elements"}, {"threads", 128, "threads of a CTA", 32}},  // multiples of 32
    .build = scale,
    .run = run,
});

}  // namespace

// @NAME@ computes an RMS normalization: y = x / sqrt(mean(x^2) + 1e-5) * w for each row of x. The fields at
// the end of this file are options of the executable.
#include <ptxbuilder/kernels/family/family.h>
#include <ptxbuilder/kernels/family/run.h>
#include <ptxbuilder/ptxbuilder.h>

#include <cmath>

using namespace ptxbuilder;

namespace {

constexpr float kEpsilon = 1e-5f;

// Builds the kernel. A CTA has four warps and processes `block` rows; one warp processes each row, so that
// the sum needs no shared memory. A lane holds 8 adjacent columns of every 256, which are 16 bytes, the
// widest access.
Kernel build(const command::Fields& f) {
  const int block = f.small("block"), columns = f.small("columns");
  const RegisterLayout layout({block, columns}, make_layout({{32, 4}, {8, columns / 256, block / 4}},
                                                            {{8, columns}, {1, 256, 4 * columns}}));
  Kernel k("@NAME@");
  auto [x, w, y, rows] = k.params<gptr<bf16>, gptr<f32>, gptr<bf16>, u32>("x", "w", "y", "rows");
  k.threads(128);
  k.grid("ceil_div(rows, " + f.word("block") + ")");  // the number of CTAs, as a rule over the parameter rows
  k.describe(
      {{"x", "rows of numbers"}, {"w", "a factor of each column"}, {"y", "the result, stored like x"}});

  const GlobalTensor X(x, {rows, columns}), Y(y, {rows, columns});
  const GlobalTensor W(w, {columns});
  const u32 first = ctaid_x() * block;
  const auto numbers = astype<f32>(load(X.tile(first, 0), layout));  // rows after the last one are read as 0
  const auto factors = load(W.as_row().tile(0, 0), layout.reduced_cols());
  const auto mean = reduce_rows(Reduction::add, numbers * numbers) * (1.0f / static_cast<float>(columns));
  const auto scales = rsqrt(mean + kEpsilon);
  store(Y.tile(first, 0), astype<bf16>(numbers * broadcast(scales, layout) * broadcast(factors, layout)));
  return k;
}

// Creates the inputs, launches the kernel, defines the expected results in float64, and states the work for
// --bench.
void run(const command::Fields& f, command::Run& run) {
  const auto rows = static_cast<size_t>(f["rows"]), columns = static_cast<size_t>(f["columns"]);
  command::Tensor x = run.normal(DType::bf16, {columns, rows}), w = run.normal(DType::f32, {columns});
  command::Tensor y = run.output(DType::bf16, {columns, rows});
  run.launch({x.pointer(), w.pointer(), y.pointer(), runtime::scalar(static_cast<uint32_t>(rows))});

  std::vector<double> scales(rows);
  for (size_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (size_t i = row * columns; i < (row + 1) * columns; ++i) sum += x[i] * x[i];
    scales[row] = 1 / std::sqrt(sum / static_cast<double>(columns) + kEpsilon);
  }
  run.check(y, 1, [&](size_t i) {
    const double value = x[i] * scales[i / columns] * w[i % columns];
    // The tolerance is one rounding to bf16, plus 1 % for the preceding rounding in f32, whose error is about
    // a thousandth as large.
    return command::Expected{value, 1.01 * unit_roundoff(DType::bf16) * std::abs(value)};
  });
  const double elements = static_cast<double>(rows * columns);
  run.measure(4 * elements, 4 * elements);  // operations, and bytes that are read or written
}

const command::Registration registration({
    .name = "@NAME@",
    .summary = "RMS normalization of rows",
    .fields = {{"rows", 300, "rows of x and y"},
               {"columns", 512, "columns of x and y", 256},  // a multiple of 256
               {"block", 4, "rows of a CTA", 4}},
    .build = build,
    .run = run,
});

}  // namespace

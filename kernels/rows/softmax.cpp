// Softmax: y = exp(x) / sum(exp(x)) of each row.
#include "kernels/rows/exponential_sum.h"
#include "kernels/rows/operations.h"

namespace ptxbuilder::kernels {
namespace {

Kernel softmax_kernel(const RowProblem& problem) {
  return row_kernel(problem, [](Row& row) {
    const Numbers powers = row.load("x", -INFINITY) * kLog2E;
    const Numbers most = part_maximum(powers), y = exp2(powers - row.spread(most), Approx::yes);
    const ExponentialSum all = exponential_sum(row, most, y);
    row.store("y", y * row.spread(exp2(most - all.most, Approx::yes) / all.sum));
  });
}

Kernel softmax_gradient_kernel(const RowProblem& problem) {
  return row_kernel(problem, [](Row& row) {
    const Numbers dy = row.load("dy"), y = row.load("y");
    row.store("dx", y * (dy - row.spread(row.sum(dy * y))));
  });
}

}  // namespace

RowOperation softmax() {
  using enum RowTensor::Type;
  using enum RowTensor::Use;
  return {.name = "softmax",
          .summary = "y = exp(x) / sum(exp(x)) of each row",
          .tensors = {{"x", {"rows", "columns"}, any, read, "the rows"},
                      {"y", {"rows", "columns"}, of_first, written, "rows whose sums are 1"}},
          .build = softmax_kernel};
}

RowOperation softmax_gradient() {
  using enum RowTensor::Type;
  using enum RowTensor::Use;
  return {.name = "softmax_gradient",
          .summary = "the gradient of softmax by x",
          .tensors = {{"y", {"rows", "columns"}, any, read, "what softmax has written"},
                      {"dy", {"rows", "columns"}, any, read, "the gradient of y"},
                      {"dx", {"rows", "columns"}, of_first, written, "the gradient of x"}},
          .limits = {.values = 16, .values_of_words = 16},
          .build = softmax_gradient_kernel};
}

}  // namespace ptxbuilder::kernels

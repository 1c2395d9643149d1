// Softmax: y = exp(x) / sum(exp(x)) of each row.
#include "kernels/rows/exponential_sum.h"
#include "kernels/rows/operations.h"

namespace ptxbuilder::kernels {
namespace {

Kernel softmax_kernel(const RowProblem& problem) {
  return row_kernel(problem, [](Row& row) {
    const Numbers x = row.load("x", -INFINITY), most = part_maximum(x), y = exponential(x, row.spread(most));
    const ExponentialSum all = exponential_sum(row, most, reduce_rows(Reduction::add, y));
    row.store("y", y * row.spread(exponential(most, all.most) / all.sum));
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

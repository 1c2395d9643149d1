// Implements softmax, y = exp(x) / sum(exp(x)) for each row.
#include "kernels/rows/exponential_sum.h"
#include "kernels/rows/operations.h"

namespace ptxbuilder::kernels {
namespace {

Kernel softmax_kernel(const RowProblem& problem) {
  return row_kernel(problem, [](Row& row) {
    const auto of_piece = [](Row& piece) { return piece.load("x", -INFINITY); };
    const Numbers most = part_maximum(row.over_pieces(Reduction::max, of_piece));
    const auto term = [&](Row& piece) { return exponential(of_piece(piece), piece.spread(most)); };
    const ExponentialSum all =
        exponential_sum(row, most, reduce_rows(Reduction::add, row.over_pieces(Reduction::add, term)));
    const Numbers scale = exponential(most, all.most) / all.sum;
    row.for_pieces([&](Row& piece) { piece.store("y", term(piece) * piece.spread(scale)); });
  });
}

Kernel softmax_gradient_kernel(const RowProblem& problem) {
  return row_kernel(problem, [](Row& row) {
    const Numbers products = row.over_pieces(Reduction::add, [](Row& piece) {
      const Numbers dy = piece.load("dy");
      return dy * piece.load("y");
    });
    const Numbers sum = row.sum(products);
    row.for_pieces(
        [&](Row& piece) { piece.store("dx", piece.load("y") * (piece.load("dy") - piece.spread(sum))); });
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
          .limits = {.waiting = 1},
          .build = softmax_kernel};
}

RowOperation softmax_gradient() {
  using enum RowTensor::Type;
  using enum RowTensor::Use;
  return {.name = "softmax_gradient",
          .summary = "the gradient of softmax with respect to x",
          .tensors = {{"y", {"rows", "columns"}, any, read, "the result of softmax"},
                      {"dy", {"rows", "columns"}, any, read, "the gradient of y"},
                      {"dx", {"rows", "columns"}, of_first, written, "the gradient of x"}},
          .limits = {.values = 16,
                     .values_of_words = 16,
                     .waiting = 2,
                     .values_of_warp = 32,
                     .threads_of_warps = 768},
          .build = softmax_gradient_kernel};
}

}  // namespace ptxbuilder::kernels

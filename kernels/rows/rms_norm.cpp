// Implements RMS norm, y = x / sqrt(mean(x^2) + epsilon) * weight for each row.
#include "kernels/rows/operations.h"
#include "kernels/rows/row.h"

namespace ptxbuilder::kernels {
namespace {

Kernel rms_norm_kernel(const RowProblem& problem) {
  return row_kernel(problem, [](Row& row) {
    const Numbers squares = row.over_pieces(Reduction::add, [](Row& piece) {
      const Numbers x = piece.load("x");
      return x * x;
    });
    const Numbers scale = rsqrt(row.sum(squares) / row.columns() + row.number("epsilon"));
    row.for_pieces([&](Row& piece) {
      piece.store("y", piece.load("x") * piece.spread(scale) * piece.load_columns("weight", 1));
    });
    row.store_number("scale", scale);
  });
}

Kernel rms_scale_kernel(const RowProblem& problem) {
  return row_kernel(problem, [](Row& row) {
    const Numbers x = row.load("x");
    row.store_number("scale", rsqrt(row.sum(x * x) / row.columns() + row.number("epsilon")));
  });
}

Kernel rms_norm_gradient_kernel(const RowProblem& problem) {
  return rows_kernel(problem, [](RowThreads& threads) {
    const auto weight = threads.columns("weight", 1);
    auto sums = threads.sums("dweight");
    const auto one = [&](Row& row) {
      const Numbers dy = row.load("dy"), scale = row.spread(row.load_number("scale")),
                    normal = row.load("x") * scale;
      if (sums) sums->add_product(dy, normal);
      const Numbers slope = dy * weight(row);
      const Numbers mean = row.sum(slope * normal) / row.columns();
      row.store("dx", fma(normal, row.spread(-mean), slope) * scale);
    };
    threads.for_each(one, {"dy", "x", "scale"});
    threads.store("dweight", sums);
  });
}

}  // namespace

RowOperation rms_norm() {
  using enum RowTensor::Type;
  using enum RowTensor::Use;
  return {.name = "rms_norm",
          .summary = "y = x / sqrt(mean(x^2) + epsilon) * weight of each row",
          .tensors = {{"x", {"rows", "columns"}, any, read, "the rows"},
                      {"weight", {"columns"}, any, read_if_given, "a factor of each column"},
                      {"y", {"rows", "columns"}, of_first, written, "rows of mean square 1, times weight"},
                      {"scale", {"rows"}, number, written_if_given, "1 / sqrt(mean(x^2) + epsilon)"}},
          .numbers = {{"epsilon", 1e-6F, "the addend of the mean square"}},
          .limits = {.values_of_words = 24, .waiting = 1},
          .build = rms_norm_kernel};
}

RowOperation rms_scale() {
  using enum RowTensor::Type;
  using enum RowTensor::Use;
  return {.name = "rms_scale",
          .summary =
              "scale = 1 / sqrt(mean(x^2) + epsilon) for each row: an RMS norm for a product that scales its "
              "rows",
          .tensors = {{"x", {"rows", "columns"}, any, read, "the rows"},
                      {"scale", {"rows"}, number, written, "the factor that makes their mean square 1"}},
          .numbers = {{"epsilon", 1e-6F, "the addend of the mean square"}},
          .limits = {.values_of_words = 16},
          .build = rms_scale_kernel};
}

RowOperation rms_norm_gradient() {
  using enum RowTensor::Type;
  using enum RowTensor::Use;
  return {.name = "rms_norm_gradient",
          .summary = "the gradients of rms_norm with respect to x and weight",
          .tensors = {{"x", {"rows", "columns"}, any, read, "the rows"},
                      {"weight", {"columns"}, any, read_if_given, "a factor of each column"},
                      {"scale", {"rows"}, number, read, "the result of rms_norm"},
                      {"dy", {"rows", "columns"}, any, read, "the gradient of y"},
                      {"dx", {"rows", "columns"}, of_first, written, "the gradient of x"},
                      {"dweight", {"columns"}, any, written_if_given, "the gradient of weight", true}},
          .limits = {.values = 16, .values_of_words = 10, .wide = 2, .threads_at_once = 512},
          .build = rms_norm_gradient_kernel};
}

}  // namespace ptxbuilder::kernels

// Implements layer norm, y = (x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias for each row.
#include "kernels/rows/operations.h"
#include "kernels/rows/row.h"

namespace ptxbuilder::kernels {
namespace {

Kernel layer_norm_kernel(const RowProblem& problem) {
  return row_kernel(problem, [](Row& row) {
    // Squares of deviations are summed relative to the mean of each part, and these sums are then corrected
    // to the mean of the row.
    const Numbers count(row.columns_of_part(), row.layout().reduced_rows());
    const auto of_piece = [](Row& piece) { return piece.load("x"); };
    const Numbers of_part =
        reduce_rows(Reduction::add, row.over_pieces(Reduction::add, of_piece)) / max(count, 1.f);
    const Numbers squares = row.over_pieces(Reduction::add, [&](Row& piece) {
      const Numbers near = piece.inside(of_piece(piece) - piece.spread(of_part));
      return near * near;
    });
    const RowParts parts = row.exchange({count, of_part, reduce_rows(Reduction::add, squares)});
    const Numbers mean =
        parts.reduce(Reduction::add, [](const auto& part) { return part[0] * part[1]; }) / row.columns();
    const Numbers square = parts.reduce(Reduction::add, [&](const auto& part) {
      const Numbers apart = part[1] - mean;
      return part[2] + part[0] * apart * apart;
    });
    const Numbers scale = rsqrt(square / row.columns() + row.number("epsilon"));
    row.for_pieces([&](Row& piece) {
      piece.store("y", fma((of_piece(piece) - piece.spread(mean)) * piece.spread(scale),
                           piece.load_columns("weight", 1), piece.load_columns("bias", 0)));
    });
    row.store_number("mean", mean);
    row.store_number("scale", scale);
  });
}

Kernel layer_norm_gradient_kernel(const RowProblem& problem) {
  return rows_kernel(problem, [](RowThreads& threads) {
    auto sums = threads.sums("dweight"), sums_of_bias = threads.sums("dbias");
    const auto one = [&](Row& row) {
      const Numbers weight = row.load_columns("weight", 1), dy = row.load("dy");
      const Numbers scale = row.spread(row.load_number("scale")),
                    normal = (row.load("x") - row.spread(row.load_number("mean"))) * scale;
      const auto add = [&] {
        if (sums) sums->add_product(dy, normal);
        if (sums_of_bias) sums_of_bias->add(dy);
      };
      // If a thread holds many values, they are added before the exchange, so that dy need not stay in
      // registers until the sums of the row are ready.
      if (row.is_wide()) add();
      const Numbers slope = dy * weight;
      const RowParts parts =
          row.exchange({reduce_rows(Reduction::add, slope), reduce_rows(Reduction::add, slope * normal)});
      const auto mean_of = [&](size_t number) {
        return parts.reduce(Reduction::add, [=](const auto& part) { return part[number]; }) / row.columns();
      };
      const Numbers mean = mean_of(0), along = mean_of(1);
      row.store("dx", (fma(normal, row.spread(-along), slope) - row.spread(mean)) * scale);
      if (!row.is_wide()) add();
    };
    threads.for_each(one, {"dy", "x", "mean", "scale"});
    threads.store("dweight", sums);
    threads.store("dbias", sums_of_bias);
  });
}

}  // namespace

RowOperation layer_norm() {
  using enum RowTensor::Type;
  using enum RowTensor::Use;
  return {.name = "layer_norm",
          .summary = "y = (x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias of each row",
          .tensors = {{"x", {"rows", "columns"}, any, read, "the rows"},
                      {"weight", {"columns"}, any, read_if_given, "a factor of each column"},
                      {"bias", {"columns"}, any, read_if_given, "the addend of each column"},
                      {"y",
                       {"rows", "columns"},
                       of_first,
                       written,
                       "rows of mean 0 and variance 1, times weight, and bias"},
                      {"mean", {"rows"}, number, written_if_given, "the mean"},
                      {"scale", {"rows"}, number, written_if_given, "1 / sqrt(variance(x) + epsilon)"}},
          .numbers = {{"epsilon", 1e-5F, "the addend of the variance"}},
          .limits = {.values = 32, .values_of_words = 20, .waiting = 1},
          .build = layer_norm_kernel};
}

RowOperation layer_norm_gradient() {
  using enum RowTensor::Type;
  using enum RowTensor::Use;
  return {.name = "layer_norm_gradient",
          .summary = "the gradients of layer_norm with respect to x, weight and bias",
          .tensors = {{"x", {"rows", "columns"}, any, read, "the rows"},
                      {"weight", {"columns"}, any, read_if_given, "a factor of each column"},
                      {"mean", {"rows"}, number, read, "a result of layer_norm"},
                      {"scale", {"rows"}, number, read, "a result of layer_norm"},
                      {"dy", {"rows", "columns"}, any, read, "the gradient of y"},
                      {"dx", {"rows", "columns"}, of_first, written, "the gradient of x"},
                      {"dweight", {"columns"}, any, written_if_given, "the gradient of weight", true},
                      {"dbias", {"columns"}, any, written_if_given, "the gradient of bias", true}},
          .limits = {.values = 16, .values_of_words = 10, .wide = 2, .threads_at_once = 512},
          .build = layer_norm_gradient_kernel};
}

}  // namespace ptxbuilder::kernels

// Implements cross entropy, which computes log(sum(exp(x))) - x[target] for each row.
#include "kernels/rows/exponential_sum.h"
#include "kernels/rows/operations.h"

namespace ptxbuilder::kernels {
namespace {

Kernel cross_entropy_kernel(const RowProblem& problem) {
  return row_kernel(problem, [](Row& row) {
    std::optional<RegisterTile<s32>> target;
    std::optional<Numbers> of_target;
    const auto load_target = [&] {
      target = row.load_index("target");
      of_target = row.load_at("x", *target, NAN);
    };
    const RegisterLayout rows = row.layout().reduced_rows();
    Var<Numbers> most(Numbers(f32(kLeast), rows)), sum(Numbers(f32(0), rows));
    row.for_pieces([&](Row& piece) {
      const Numbers x = piece.load("x", -INFINITY);
      if (!row.is_in_pieces()) load_target();  // loads the target while x is being loaded
      const Numbers before = most, now = max(before, part_maximum(x));
      const Numbers terms = reduce_rows(Reduction::add, exponential(x, piece.spread(now)));
      sum = row.is_in_pieces() ? fma(sum.value(), exponential(before, now), terms) : terms;
      most = now;
    });
    if (row.is_in_pieces()) load_target();
    const ExponentialSum all = exponential_sum(row, most, sum);
    const Numbers lse = all.most + log2(all.sum) * (1 / kLog2E);
    row.store_number("loss", select(*target < 0, f32(0), lse - *of_target));
    row.store_number("lse", lse);
  });
}

Kernel cross_entropy_gradient_kernel(const RowProblem& problem) {
  return row_kernel(problem, [](Row& row) {
    const Numbers x = row.load("x");
    const RegisterTile<s32> target = row.load_index("target");
    const Numbers slope = select(target < 0, f32(0), row.load_number("dloss")), lse = row.load_number("lse");
    const Numbers y = exp2((x - row.spread(lse)) * kLog2E, Approx::yes);
    const RegisterTile<pred> is_target = astype<s32>(row.column()) == row.spread(target);
    row.store("dx", select(is_target, y - 1.f, y) * row.spread(slope));
  });
}

RowTensor target() {
  return {.name = "target",
          .shape = {"rows"},
          .type = RowTensor::Type::integer,
          .meaning = "a column of each row; below 0 the row does not count",
          .counts = {"columns"}};
}

}  // namespace

RowOperation cross_entropy() {
  using enum RowTensor::Type;
  using enum RowTensor::Use;
  return {
      .name = "cross_entropy",
      .summary = "loss = log(sum(exp(x))) - x[target] of each row, 0 where target is below 0",
      .tensors = {{"x", {"rows", "columns"}, any, read, "the rows"},
                  target(),
                  {"loss", {"rows"}, number, written, "the loss of each row; NaN if there is no such column"},
                  {"lse", {"rows"}, number, written_if_given, "log(sum(exp(x)))"}},
      .limits = {.in_pieces = true},
      .build = cross_entropy_kernel};
}

RowOperation cross_entropy_gradient() {
  using enum RowTensor::Type;
  using enum RowTensor::Use;
  return {.name = "cross_entropy_gradient",
          .summary = "the gradient of cross_entropy with respect to x",
          .tensors = {{"x", {"rows", "columns"}, any, read, "the rows"},
                      target(),
                      {"lse", {"rows"}, number, read, "the result of cross_entropy"},
                      {"dloss", {"rows"}, number, read, "the gradient of loss"},
                      {"dx", {"rows", "columns"}, of_first, written, "the gradient of x"}},
          .limits = {.values_of_words = 16},
          .reduces = false,
          .build = cross_entropy_gradient_kernel};
}

}  // namespace ptxbuilder::kernels

// Registers the families "attention_gradient_sums", "attention_gradient_queries" and
// "attention_gradient_sinks", which are the kernels that run before and after attention_gradient.
#include <cmath>

#include "kernels/attention_gradient/family.h"
#include "kernels/attention_gradient/kernel.h"
#include "kernels/family/run.h"

namespace ptxbuilder::kernels {
namespace {

runtime::Argument number(uint64_t value) { return runtime::scalar(static_cast<uint32_t>(value)); }

struct Sizes {
  explicit Sizes(const command::Fields& f)
      : depth(static_cast<uint64_t>(f["depth"])),
        queries(static_cast<uint64_t>(f["queries"])),
        heads(static_cast<uint64_t>(f["heads"])),
        batches(static_cast<uint64_t>(f["batches"])),
        rows(static_cast<uint64_t>(padded_queries(gradient_tile(f), f["queries"]))) {}

  std::vector<uint64_t> shape() const { return {depth, queries, heads, batches}; }
  uint64_t depth, queries, heads, batches, rows;
};

void run_sums(const command::Fields& f, command::Run& run) {
  const Sizes s(f);
  const DType type = gradient_operation(f).type;
  command::Tensor o = run.normal(type, s.shape()), grad = run.normal(type, s.shape()),
                  lse = run.normal(DType::f32, {s.queries, s.heads, s.batches});
  const bool has_lse_grad = f["lse_grad"] != 0;
  command::Tensor lse_grad = run.normal(DType::f32, {s.queries, s.heads, s.batches});
  const auto block = static_cast<uint64_t>(gradient_tile(f).bm);
  command::Tensor numbers = run.output(DType::f32, {block, 2, s.rows / block, s.heads, s.batches}),
                  dq = run.output(DType::f32, {s.rows * s.depth, s.heads, s.batches});
  lse.set(0, -INFINITY);  // row 0 sees no key
  lse.to_device();
  std::vector<runtime::Argument> arguments = {o.tensor(),        grad.tensor(),    lse.pointer(),
                                              numbers.pointer(), dq.pointer(),     number(s.queries),
                                              number(s.heads),   number(s.batches)};
  if (has_lse_grad) arguments.push_back(lse_grad.pointer());
  const bool has_turns = gradient_operation(f).deterministic;
  command::Tensor turns = run.output(
      DType::u32, {static_cast<uint64_t>(count_of_turns(gradient_tile(f), static_cast<int64_t>(s.rows))),
                   s.heads, s.batches});
  if (has_turns) arguments.push_back(turns.pointer());
  run.launch(arguments);
  run.check(numbers, static_cast<double>(s.depth), [&](size_t i) {
    const size_t blocks = s.rows / block, head = i / (2 * s.rows),
                 row = i / (2 * block) % blocks * block + i % block, at = head * s.queries + row;
    const bool is_there = row < s.queries;
    if (i / block % 2 == 0) {
      if (at == 0 || !is_there) return command::Expected{INFINITY, 0};
      const double power = lse[at] * 1.4426950408889634;
      return command::Expected{power, 0x1p-22 * std::abs(power)};
    }
    double sum = 0, magnitude = 0;
    for (size_t c = 0; c < s.depth && is_there; ++c) {
      const double term = o[at * s.depth + c] * grad[at * s.depth + c];
      sum += term, magnitude += std::abs(term);
    }
    if (has_lse_grad && is_there) sum -= lse_grad[at];
    return command::Expected{sum, 0x1p-20 * (magnitude + std::abs(sum))};
  });
  for (command::Tensor* zeros : {&dq, &turns})
    if (zeros == &dq || has_turns) run.check(*zeros, 1, [](size_t) { return command::Expected{0, 0}; });
  run.measure(0, static_cast<double>(2 * o.count() * static_cast<size_t>(size_of(type)) + 4 * dq.count()));
}

void run_queries(const command::Fields& f, command::Run& run) {
  const Sizes s(f);
  const AttentionGradientOperation o = gradient_operation(f);
  command::Tensor dq = run.normal(DType::f32, {s.rows * s.depth, s.heads, s.batches});
  command::Tensor out = run.output(o.type, s.shape());
  const float scale = 0.125F;
  run.launch({dq.pointer(), out.tensor(), number(s.queries), number(s.heads), number(s.batches),
              runtime::scalar(scale)});
  // For each element of dQ, the position of its sum.
  std::vector<size_t> places(s.depth * s.queries * s.heads * s.batches);
  for (size_t i = 0; i < dq.count(); ++i) {
    const GradientSumPlace at = place_of_sum(i, o, gradient_tile(f), s.rows);
    if (at.row < s.queries) places[(at.head * s.queries + at.row) * s.depth + at.column] = i;
  }
  run.check(out, 1, [&](size_t i) {
    const double value = dq[places[i]] * scale;
    return command::Expected{value, unit_roundoff(o.type) * std::abs(value) * 1.01 + 0x1p-24};
  });
  run.measure(0, static_cast<double>(4 * dq.count() + out.count() * static_cast<size_t>(size_of(o.type))));
}

void run_sinks(const command::Fields& f, command::Run& run) {
  const Sizes s(f);
  const auto block = static_cast<uint64_t>(gradient_tile(f).bm);
  command::Tensor numbers = run.normal(DType::f32, {block, 2, s.rows / block, s.heads, s.batches}),
                  sinks = run.normal(DType::f32, {s.heads});
  // Rows beyond the last query have no weights.
  for (size_t i = 0; i < numbers.count(); ++i)
    if (i / block % 2 == 0 && i % (2 * s.rows) / (2 * block) * block + i % block >= s.queries)
      numbers.set(i, INFINITY);
  numbers.to_device();
  command::Tensor dsinks = run.output(DType::f32, {s.heads});
  run.launch({numbers.pointer(), sinks.pointer(), dsinks.pointer(), number(s.queries), number(s.heads),
              number(s.batches)});
  run.check(dsinks, static_cast<double>(s.rows * s.batches), [&](size_t head) {
    double sum = 0, magnitude = 0;
    for (size_t batch = 0; batch < s.batches; ++batch)
      for (size_t row = 0; row < s.rows; ++row) {
        const size_t at = (batch * s.heads + head) * 2 * s.rows + row / block * 2 * block + row % block;
        const double term = std::exp2(sinks[head] * 1.4426950408889634 - numbers[at]) * numbers[at + block];
        sum -= term, magnitude += std::abs(term);
      }
    return command::Expected{sum, 0x1p-18 * magnitude};
  });
  run.measure(0, static_cast<double>(4 * numbers.count()));
}

std::vector<command::Field> fields() {
  return {{"queries", 1024, "rows of a head"},
          {"heads", 2, "heads of all tensors in a batch"},
          {"batches", 1, "batches of all tensors"},
          {"depth", 128, "columns of all tensors: 64, 128, 192 or 256", 64},
          {"type", 1, "type of all tensors", 1, 1, {"f16", "bf16"}}};
}

std::vector<command::Field> with(std::vector<command::Field> fields, command::Field more) {
  fields.push_back(std::move(more));
  return fields;
}

const command::Registration sums({
    .name = "attention_gradient_sums",
    .summary =
        "before attention_gradient: sum(dO * O) of each row, its logarithm to base 2, and zeros for dQ",
    .fields = with(with(fields(), {"lse_grad", 0, "whether lse has a gradient as well", 1, 0, {"no", "yes"}}),
                   {"deterministic", 0, "whether there are turns to be set to 0", 1, 0, {"no", "yes"}}),
    .build =
        [](const command::Fields& f) {
          return attention_gradient_sums(gradient_operation(f), gradient_tile(f));
        },
    .run = run_sums,
});
const command::Registration sinks({
    .name = "attention_gradient_sinks",
    .summary = "the gradient of sinks, from the numbers that attention_gradient_sums has written",
    .fields = fields(),
    .build =
        [](const command::Fields& f) {
          return attention_gradient_sinks(gradient_operation(f), gradient_tile(f));
        },
    .run = run_sinks,
});
const command::Registration queries({
    .name = "attention_gradient_queries",
    .summary = "after attention_gradient: dQ from its sums",
    .fields = fields(),
    .build =
        [](const command::Fields& f) {
          return attention_gradient_queries(gradient_operation(f), gradient_tile(f));
        },
    .run = run_queries,
});

}  // namespace
}  // namespace ptxbuilder::kernels

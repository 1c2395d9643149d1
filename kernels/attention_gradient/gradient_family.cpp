// Registers the family "attention_gradient", which computes dK and dV of attention and the sums of dQ.
// attention_gradient/kernel.h describes the computation.
#include <cmath>

#include "kernels/attention_gradient/family.h"
#include "kernels/attention_gradient/kernel.h"
#include "kernels/attention_gradient/reference.h"
#include "kernels/family/run.h"

namespace ptxbuilder::kernels {
namespace {

void run(const command::Fields& f, command::Run& run) {
  const AttentionGradientOperation o = gradient_operation(f);
  const AttentionGradientTile t = gradient_tile(f);
  const auto size = [&](const char* name) { return static_cast<uint64_t>(f[name]); };
  if (f["group"] % f["ctas"] != 0)
    throw Error("attention_gradient: group = " + std::to_string(f["group"]) + "; a multiple of the " +
                std::to_string(f["ctas"]) + " CTAs that divide it");
  const uint64_t depth = size("depth"), queries = size("queries"), keys = size("keys"),
                 key_heads = size("key_heads"), heads = key_heads * size("group"), batches = size("batches"),
                 columns = f["value_depth"] > 0 ? size("value_depth") : depth,
                 block = static_cast<uint64_t>(t.bm),
                 rows = static_cast<uint64_t>(padded_queries(t, f["queries"]));
  const std::vector<uint64_t> of_queries = {depth, queries, heads, batches},
                              of_keys = {depth, keys, key_heads, batches},
                              of_values = {columns, keys, key_heads, batches},
                              of_gradients = {columns, queries, heads, batches};
  command::Tensor q = run.normal(o.type, of_queries), k = run.normal(o.type, of_keys),
                  v = run.normal(o.type, of_values), grad = run.normal(o.type, of_gradients),
                  numbers = run.normal(DType::f32, {block, 2, rows / block, heads, batches});
  command::Tensor dk = run.output(o.type, of_keys), dv = run.output(o.type, of_values),
                  dq = run.output(DType::f32, {depth * rows, heads, batches});
  // A typical logarithm for random scores. Rows beyond the last query get infinity, so that their weights are
  // 0.
  const double most = std::log2(static_cast<double>(keys)) + 0.72;
  for (size_t i = 0; i < numbers.count(); ++i)
    if (const size_t row = i / (2 * block) % (rows / block) * block + i % block; i / block % 2 == 0)
      numbers.set(i, row < queries ? most + 0.1 * numbers[i] : INFINITY);
  numbers.to_device();
  const double scale = 1 / std::sqrt(static_cast<double>(depth));
  const int64_t visible = f["keys"] - f["queries"] + 1, window_start = visible - f["window"];
  const auto number = [](uint64_t value) { return runtime::scalar(static_cast<uint32_t>(value)); };
  std::vector<runtime::Argument> arguments = {q.tensor(),
                                              k.tensor(),
                                              v.tensor(),
                                              grad.tensor(),
                                              dk.tensor(),
                                              dv.tensor(),
                                              numbers.pointer(),
                                              dq.pointer(),
                                              number(queries),
                                              number(keys),
                                              number(size("group")),
                                              runtime::scalar(static_cast<float>(scale))};
  if (o.causal) arguments.push_back(runtime::scalar(static_cast<int32_t>(visible)));
  if (o.window) arguments.push_back(runtime::scalar(static_cast<int32_t>(window_start)));
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) \
  if (o.name)                                                 \
    arguments.push_back(                                      \
        runtime::scalar(static_cast<float>(step_of_field(static_cast<double>(f[#name]), below))));
#include "kernels/attention/attention.def"
  const DropoutRule dropout = {static_cast<float>(step_of_field(static_cast<double>(f["dropout"]), 1))};
  command::Tensor seed = dropout.seed_on_device(run);
  if (o.dropout) arguments.push_back(seed.pointer());
  command::Tensor turns = run.output(
      DType::u32, {static_cast<uint64_t>(count_of_turns(t, static_cast<int64_t>(rows))), heads, batches});
  std::function<void()> ahead;
  if (o.deterministic) {
    arguments.push_back(turns.pointer());
    ahead = [turns]() mutable { turns.zero(); };
  }
  run.launch(arguments, ahead);

  const AttentionGradientReference reference(
      q, k, v, grad, numbers,
      {scale, static_cast<double>(f["softcap"]), o.causal ? std::optional(visible) : std::nullopt,
       o.window ? std::optional(window_start) : std::nullopt, dropout});
  const double cost = static_cast<double>(f["keys"] * f["depth"] * 2);
  const auto start = [&] {
    for (size_t i = 0; i < dq.count(); ++i) dq.set(i, 0);
    dq.to_device();
  };
  run.check(
      dk, cost, [&](size_t i) { return reference.key(i); }, [&] { start(), dk.poison(); });
  run.check(
      dv, cost, [&](size_t i) { return reference.value(i); }, [&] { start(), dv.poison(); });
  run.check(
      dq, cost,
      [&](size_t i) {
        const GradientSumPlace at = place_of_sum(i, o, t, rows);
        return reference.query_sum(at.head, at.row, at.column);
      },
      start);
  double pairs = 0;  // pairs of a query and a key that it sees, per head
  for (int64_t i = 0; i < f["queries"]; ++i) {
    const int64_t end = o.causal ? std::clamp<int64_t>(i + visible, 0, f["keys"]) : f["keys"];
    pairs += static_cast<double>(end - (o.window ? std::clamp<int64_t>(i + window_start, 0, end) : 0));
  }
  const double elements = static_cast<double>(q.count() + grad.count() + 2 * (k.count() + v.count()));
  run.measure(pairs * static_cast<double>((6 * depth + 4 * columns) * heads * batches),
              elements * size_of(o.type));
}

const std::vector<std::string> kTypes = {"f16", "bf16"}, kYesNo = {"no", "yes"};

const command::Registration registration({
    .name = "attention_gradient",
    .summary = "attention, backward: dK and dV of a block of keys, and its part of dQ",
    .fields = {{"queries", 1024, "rows of a head of Q"},
               {"keys", 1024, "rows of a head of K and V"},
               {"key_heads", 2, "heads of K and V in a batch"},
               {"group", 1, "heads of Q that share one of K and V"},
               {"batches", 1, "batches of all tensors"},
               {"depth", 128, "columns of Q and K: 64, 128, 192 or 256", 64},
               {"value_depth", 0, "columns of V and dO: 128 if Q has more; 0 for the same number as Q", 128,
                0},
               {"causal", 0, "whether a query sees only keys up to its own; the last query sees all keys", 1,
                1, kYesNo},
               {"window", 0, "how many keys a query sees at most, up to its own; 0 for all", 1, 0},
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) step_field(#name, below, rule, meaning),
#include "kernels/attention/attention.def"
               {"type", 1, "type of all tensors", 1, 1, kTypes},
               {"deterministic", 0, "whether blocks of keys are added to dQ in a fixed order", 1, 1, kYesNo},
               {"rows", 0, "rows of a block of queries, 64 or 80 with 128 columns; 0 for the default", 1, 0},
               {"ctas", 1, "CTAs of a cluster, which divide a group evenly: 1, 2 or 4"},
               {"heads_first", 0, "whether the CTAs of all heads' first blocks of keys come first", 1, 1,
                kYesNo},
               {"stages", 2, "stages of the rings of Q and dO"}},
    .build =
        [](const command::Fields& f) { return attention_gradient(gradient_operation(f), gradient_tile(f)); },
    .run = run,
});

}  // namespace
}  // namespace ptxbuilder::kernels

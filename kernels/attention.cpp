// attention: O = softmax(scale Q K^T) V for each head (Dao and others, FlashAttention; Shah and others,
// FlashAttention-3), with every mask, depth and tile; attention/kernel.cpp is the kernel.
#include <cmath>

#include "kernels/attention/choice.h"
#include "kernels/attention/kernel.h"
#include "kernels/command/family.h"
#include "kernels/command/run.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::kernels {
namespace {

AttentionOperation operation(const command::Fields& f) {
  AttentionOperation o;
  o.type = *dtype_from_name(f.word("type"));
  o.depth = f.small("depth");
  o.value_depth = f["value_depth"] ? f.small("value_depth") : o.depth;
  o.causal = f["causal"] != 0;
  o.window = f["window"] != 0;
  o.softcap = f["softcap"] != 0;
  o.packed = f["packed"] != 0;
  return o;
}

AttentionTile tile(const command::Fields& f) {
  AttentionTile t;
  t.consumers = f.small("consumers");
  t.bn = f.small("bn");
  t.stages = f.small("stages");
  t.ahead = f["ahead"] != 0;
  t.turns = f["turns"] != 0;
  t.more_values = static_cast<int>(f["more_values"]);
  t.late = f["late"] != 0;
  t.lazy = f["lazy"] != 0;
  t.whole = f["whole"] != 0;
  return t;
}

// Rows of Q and K that belong together, in all heads of a batch.
struct Sequence {
  size_t batch, queries, keys, first_query = 0, first_key = 0;
};

// All batches; or packed, sequences of which each has fewer queries than the one before, and more keys.
std::vector<Sequence> sequences(const command::Fields& f) {
  std::vector<Sequence> all;
  const auto queries = static_cast<size_t>(f["queries"]), keys = static_cast<size_t>(f["keys"]),
             batches = static_cast<size_t>(f["batches"]);
  Sequence s = {0, queries, keys};
  for (size_t i = 0; i < batches; ++i) {
    if (f["packed"] == 0) {
      s.batch = i;
      all.push_back(s);
      continue;
    }
    s.queries = queries * (batches - i) / batches;
    s.keys = keys * (i + 1) / batches;
    all.push_back(s);
    s.first_query += s.queries, s.first_key += s.keys;
  }
  return all;
}

// What a row of O and its lse should be, in float64.
class Reference {
 public:
  Reference(const command::Tensor& q, const command::Tensor& k, const command::Tensor& v,
            std::vector<Sequence> sequences, const command::Fields& f, double scale)
      : q_(q), k_(k), v_(v), sequences_(std::move(sequences)), f_(f), scale_(scale) {}

  // The keys that a query sees: from the first to the second. The last query sees the last key.
  std::pair<int64_t, int64_t> seen(const Sequence& s, size_t query) const {
    const auto keys = static_cast<int64_t>(s.keys),
               last = static_cast<int64_t>(query) + keys - static_cast<int64_t>(s.queries);
    const int64_t end = f_["causal"] ? std::clamp<int64_t>(last + 1, 0, keys) : keys;
    const int64_t first = f_["window"] ? std::clamp<int64_t>(last + 1 - f_["window"], 0, end) : 0;
    return {first, end};
  }

  // Weights are rounded to the type of V, and O too; the rest is what scores and exp2 lose in f32.
  command::Expected output(size_t i) const {
    const size_t columns = v_.shape()[0];
    const Row r = row(i / columns);
    double sum = 0, magnitude = 0;
    for (size_t j = 0; j < r.weights.size(); ++j) {
      const double term = r.weights[j] * v_[(r.first_value + j) * columns + i % columns];
      sum += term, magnitude += std::abs(term);
    }
    const double u = unit_roundoff(v_.dtype());
    return {sum, u * std::abs(sum) * 1.01 + magnitude * (u + 4 * r.score_error + 1e-5) + 0x1p-24};
  }
  command::Expected log_sum(size_t i) const {
    const Row r = row(i);
    return {r.log_sum, 2 * r.score_error + 1e-5 * (1 + std::abs(r.log_sum))};
  }

 private:
  // Of a query of a head: its weight for each key that it sees, where their values begin, how far rounding in
  // f32 may move their scores, and the logarithm of the sum that they were divided by.
  struct Row {
    std::vector<double> weights;
    size_t first_value = 0;
    double score_error = 0, log_sum = -INFINITY;
  };
  // `i` counts the rows of Q.
  Row row(size_t i) const {
    const size_t depth = q_.shape()[0], rows = q_.shape()[1], heads = q_.shape()[2];
    const size_t head = i / rows % heads, batch = i / rows / heads;
    const Sequence* s = &sequences_.back();
    for (const Sequence& one : sequences_)
      if (one.batch == batch && i % rows - one.first_query < one.queries) s = &one;
    const auto [first, end] = seen(*s, i % rows - s->first_query);
    Row out;
    const size_t shared = batch * k_.shape()[2] + head / (heads / k_.shape()[2]);
    out.first_value = shared * k_.shape()[1] + s->first_key + static_cast<size_t>(first);
    const double cap = static_cast<double>(f_["softcap"]);
    double most = -INFINITY;
    for (int64_t j = 0; j < end - first; ++j) {
      double score = 0, magnitude = 0;
      for (size_t l = 0; l < depth; ++l) {
        const double product = q_[i * depth + l] * k_[(out.first_value + static_cast<size_t>(j)) * depth + l];
        score += product, magnitude += std::abs(product);
      }
      score *= scale_;
      double error = 0x1p-20 * scale_ * magnitude;
      if (cap > 0) score = cap * std::tanh(score / cap), error += 0x1p-10 * std::abs(score);
      out.weights.push_back(score);
      out.score_error = std::max(out.score_error, error);
      most = std::max(most, score);
    }
    double sum = 0;
    for (double& w : out.weights) sum += w = std::exp(w - most);
    for (double& w : out.weights) w /= sum;
    if (!out.weights.empty()) out.log_sum = most + std::log(sum);
    return out;
  }

  const command::Tensor &q_, &k_, &v_;
  std::vector<Sequence> sequences_;
  const command::Fields& f_;
  double scale_;
};

void run(const command::Fields& f, command::Run& run) {
  const AttentionOperation o = operation(f);
  const auto size = [&](const char* name) { return static_cast<uint64_t>(f[name]); };
  const uint64_t heads = size("heads"), group = size("group");
  if (heads % group != 0)
    throw Error("attention: " + std::to_string(heads) +
                " heads are no multiple of group = " + std::to_string(group));
  if (tile(f).whole && size("keys") % size("bn") != 0)
    throw Error("attention: " + std::to_string(size("keys")) +
                " keys are no whole blocks of bn = " + std::to_string(size("bn")) + ": leave out --whole");
  const std::vector<Sequence> all = sequences(f);
  const uint64_t rows = o.packed ? all.back().first_query + all.back().queries : size("queries"),
                 keys = o.packed ? all.back().first_key + all.back().keys : size("keys"),
                 batches = o.packed ? 1 : size("batches");
  const auto depth = static_cast<uint64_t>(o.depth), columns = static_cast<uint64_t>(o.value_depth);
  command::Tensor q = run.normal(o.type, {depth, rows, heads, batches}),
                  k = run.normal(o.type, {depth, keys, heads / group, batches}),
                  v = run.normal(o.type, {columns, keys, heads / group, batches}),
                  out = run.output(o.type, {columns, rows, heads, batches}),
                  lse = run.output(DType::f32, {rows, heads, batches});
  command::Tensor query_offsets = run.output(DType::u32, {all.size() + 1}),
                  key_offsets = run.output(DType::u32, {all.size() + 1});
  const double scale = 1 / std::sqrt(static_cast<double>(depth));
  const auto number = [](uint64_t value) { return runtime::scalar(static_cast<uint32_t>(value)); };
  const int64_t visible = o.packed ? 1 : f["keys"] - f["queries"] + 1;

  std::vector<runtime::Argument> arguments = {q.tensor(), k.tensor(), v.tensor()};
  if (!o.packed) arguments.push_back(out.tensor());
  arguments.push_back(lse.pointer());
  arguments.push_back(number(size("queries")));
  if (!o.packed) arguments.push_back(number(keys));
  for (const uint64_t value : {heads, size("batches"), group}) arguments.push_back(number(value));
  arguments.push_back(runtime::scalar(static_cast<float>(scale)));
  if (o.causal) arguments.push_back(runtime::scalar(static_cast<int32_t>(visible)));
  if (takes_longest_first(o)) {
    const AttentionSize sizes = {f["queries"], f["keys"], f["heads"], f["batches"], f["group"]};
    const int ctas = f["sms"] != 0 ? f.small("sms") : hopper::multiprocessors;
    arguments.push_back(number(static_cast<uint64_t>(heads_together(o, sizes, tile(f), ctas))));
  }
  if (o.window) arguments.push_back(runtime::scalar(static_cast<int32_t>(visible - f["window"])));
  if (o.softcap) arguments.push_back(runtime::scalar(static_cast<float>(f["softcap"])));
  if (o.packed) {
    const Sequence end = {0, 0, 0, rows, keys};
    for (size_t i = 0; i <= all.size(); ++i) {
      query_offsets.set(i, static_cast<double>((i < all.size() ? all[i] : end).first_query));
      key_offsets.set(i, static_cast<double>((i < all.size() ? all[i] : end).first_key));
    }
    query_offsets.to_device();
    key_offsets.to_device();
    arguments.push_back(out.pointer());
    arguments.push_back(runtime::scalar(columns));
    arguments.push_back(runtime::scalar(columns * rows));
    arguments.push_back(query_offsets.pointer());
    arguments.push_back(key_offsets.pointer());
  }
  run.launch(arguments);

  const Reference reference(q, k, v, all, f, scale);
  const double cost = static_cast<double>(f["keys"] * f["depth"]);
  run.check(out, cost, [&](size_t i) { return reference.output(i); });
  run.check(lse, cost, [&](size_t i) { return reference.log_sum(i); });
  double pairs = 0;  // of queries and keys, of a head
  for (const Sequence& s : all)
    for (size_t i = 0; i < s.queries; ++i) {
      const auto [first, end] = reference.seen(s, i);
      pairs += static_cast<double>(end - first);
    }
  const double elements = static_cast<double>(q.count() + k.count() + v.count() + out.count());
  run.measure(2 * pairs * static_cast<double>((depth + columns) * heads), elements * size_of(o.type));
}

const std::vector<std::string> kTypes = {"f16", "bf16"}, kYesNo = {"no", "yes"};

const command::Registration registration({
    .name = "attention",
    .summary = "attention, forward: softmax(scale Q K^T) V, whose softmax runs under the products",
    .fields =
        {{"queries", 1024, "rows of a head of Q; packed, of the longest sequence"},
         {"keys", 1024, "rows of a head of K and V"},
         {"heads", 4, "of Q, of a batch"},
         {"batches", 1, "of all tensors; packed, sequences"},
         {"group", 1, "heads of Q that share one of K and V"},
         {"depth", 128, "columns of Q and K: a multiple of 16 up to 256", 16},
         {"value_depth", 0, "columns of V and O, no more than of Q; 0 for as many", 16, 0},
         {"causal", 0, "whether a query sees only the keys up to its own, the last query all", 1, 1, kYesNo},
         {"window", 0, "how many keys a query sees at most, up to its own; 0 for all", 1, 0},
         {"softcap", 0, "scores s become softcap tanh(s / softcap); 0 for s", 1, 0},
         {"packed", 0, "whether sequences of many lengths lie behind each other", 1, 1, kYesNo},
         {"type", 0, "of Q, K, V and O", 1, 1, kTypes},
         {"consumers", 2, "warpgroups of 64 queries in a CTA: 1 to 3"},
         {"bn", 128, "keys of a block", 16},
         {"stages", 2, "of the rings of keys and values"},
         {"more_values", 0, "stages that the ring of values has beside", 1, 0},
         {"sms", 0, "multiprocessors that the grid is for, where CTAs stay; 0 for the device's", 1, 0},
         {"ahead", 0, "whether CTAs stay, and begin the next queries before they end these", 1, 1, kYesNo},
         {"turns", 0, "whether consumers issue their products one after the other", 1, 1, kYesNo},
         {"late", 0, "with turns, whether they are passed in the softmax, not behind the products", 1, 1,
          kYesNo},
         {"lazy", 1, "whether sums are multiplied only where the greatest score has grown a lot", 1, 1,
          kYesNo},
         {"whole", 0, "whether the keys are whole blocks, of which none has to be hidden", 1, 1, kYesNo}},
    .build = [](const command::Fields& f) { return attention(operation(f), tile(f), {}, f.small("sms")); },
    .run = run,
});

}  // namespace
}  // namespace ptxbuilder::kernels

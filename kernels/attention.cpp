// attention: O = softmax(scale Q K^T) V for each head (Dao and others, FlashAttention; Shah and others,
// FlashAttention-3). A CTA takes a block of queries of a head: a producer loads keys and values into two
// rings, and each consumer warpgroup keeps 64 queries, whose softmax runs under the products of the block
// before.
#include <cmath>

#include "kernels/command/family.h"
#include "kernels/command/run.h"
#include "ptxbuilder/ir/global_tensor.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/registers/partial.h"
#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int kRows = 64;  // of queries, of a consumer
constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;

struct AttentionConfig {
  int depth;      // of a head
  int consumers;  // warpgroups, of kRows queries each
  int bn;         // keys of a block
  int stages;     // of each ring
  bool causal;
  bool turns;  // consumers issue their products one after the other

  int bm() const { return consumers * kRows; }
};

// The blocks of keys that a block of queries needs, taken from the last to the first: those of which some
// query sees a part come first, and need a mask.
struct Blocks {
  u32 all, unmasked;

  // Query i sees the keys below i + visible. At least one block, of which it may see nothing.
  Blocks(const AttentionConfig& c, u32 row, u32 keys, s32 visible)
      : all(max(ceil_div(c.causal ? seen(row + (c.bm() - 1), keys, visible) : keys, c.bn), 1)),
        unmasked(min((c.causal ? seen(row, keys, visible) : keys) / c.bn, all - 1)) {}

  static u32 seen(u32 row, u32 keys, s32 visible) { return u32(min(max(s32(row) + visible, 0), s32(keys))); }
};

// The softmax of a consumer's rows, as far as blocks were seen: the greatest score, and the sum of exp2 of
// what the others are below it.
class Softmax {
 public:
  // Turns a block's scores into weights. `scale` is of powers of two, and positive.
  Softmax(const RegisterTile<f32>& scores, f32 scale)
      : scale_(scale),
        most_(reduce_rows(Reduction::max, scores)),
        total_(partial_rows<Reduction::add>(weights(scores, true))) {}

  // The same for the next block; what was summed before is to be multiplied by the second.
  std::pair<RegisterTile<f32>, RegisterTile<f32>> add(const RegisterTile<f32>& scores, bool masked) {
    const RegisterTile<f32> before = most_.value(), most = max(reduce_rows(Reduction::max, scores), before);
    most_ = most;
    const RegisterTile<f32> shrink = exp2((before - reference(masked)) * scale_, Approx::yes);
    const RegisterTile<f32> p = weights(scores, masked);
    total_ = total_.value() * shrink + partial_rows<Reduction::add>(p);
    return {p, shrink};
  }

  RegisterTile<f32> weights(const RegisterTile<f32>& scores, bool masked) const {
    return exp2(fma(scores, scale_, -(reference(masked) * scale_)), Approx::yes);
  }
  RegisterTile<f32> total() const { return complete(total_.value()); }
  // The natural logarithm of the sum of exp(scale Q K^T); -inf where there is no key.
  RegisterTile<f32> log_sum(const RegisterTile<f32>& total) const {
    return (most_.value() * scale_ + log2(total, Approx::yes)) * kLn2;
  }

 private:
  // -inf is no reference: of a row that has seen no key yet, each weight is exp2(-inf).
  RegisterTile<f32> reference(bool masked) const {
    const RegisterTile<f32> most = most_.value();
    return masked ? select(most == -INFINITY, f32(0), most) : most;
  }

  f32 scale_;
  Var<RegisterTile<f32>> most_;
  Var<Partial<f32, Reduction::add>> total_;
};

template <class T>
Kernel attention(const AttentionConfig& c) {
  Kernel k("attention");
  auto [Q, K, V, O, lse, queries, keys, group, scale, visible] =
      k.params<TensorMap, TensorMap, TensorMap, TensorMap, gptr<f32>, u32, u32, u32, f32, s32>(
          "Q", "K", "V", "O", "lse", "queries", "keys", "group", "scale", "visible");
  const SharedTile sQ = k.shared<T>({kRows, c.depth}, Swizzle128B, c.consumers, "Q");
  const SharedTile sK = k.shared<T>({c.bn, c.depth}, Swizzle128B, c.stages, "K");
  const SharedTile sV = k.shared<T>({c.bn, c.depth}, Swizzle128B, c.stages, "V");
  Barriers loaded(k, std::vector<int>(static_cast<size_t>(c.consumers), 1), {"Q"});
  Pipeline key_ring(k, c.stages, {sK}, c.consumers), value_ring(k, c.stages, {sV}, c.consumers);
  std::optional<Turns> turns;
  if (c.turns) turns.emplace(k, c.consumers);

  // The longest rows first.
  const u32 row = (c.causal ? nctaid_x() - 1 - ctaid_x() : ctaid_x()) * c.bm(), head = ctaid_y();
  const Blocks blocks(c, row, keys, visible);

  k.warpgroups(1, c.consumers == 3 ? 32 : 24, [&, Q = Q, K = K, V = V, group = group](u32) {
    elect([&] {
      auto next_keys = key_ring.producer();
      auto next_values = value_ring.producer();
      for (int i = 0; i < c.consumers; ++i) tma_load(sQ[i].expecting(loaded[i]), Q, 0, row + i * kRows, head);
      const u32 of_keys = head / group;
      for_(0, blocks.all, [&](u32 i) {
        const u32 first = (blocks.all - 1 - i) * c.bn;
        tma_load(sK[next_keys.acquire()], K, 0, first, of_keys);
        tma_load(sV[next_values.acquire()], V, 0, first, of_keys);
      });
    });
  });

  k.warpgroups(
      c.consumers, c.consumers == 3 ? 160 : 240,
      [&, O = O, lse = lse, queries = queries, keys = keys, scale = scale, visible = visible](u32 wg) {
        auto full_keys = key_ring.consumer();
        auto full_values = value_ring.consumer();
        std::optional<WarpgroupTurn> turn;
        if (turns) turn = turns->of(wg);
        Accumulator scores(kRows, c.bn), sums(kRows, c.depth);
        const RegisterLayout layout = scores.layout(), by_row = layout.reduced_rows();
        const u32 own_row = row + wg * kRows;
        const RegisterTile<s32> rows = astype<s32>(row_index(by_row)) + s32(own_row);

        // The scores of block j, -inf for keys that a query does not see.
        const auto scores_of = [&](u32 j, bool masked) {
          const RegisterTile<f32> all = load<f32>(scores);
          if (!masked) return all;
          const RegisterTile<s32> column = astype<s32>(col_index(layout));
          const s32 first = s32(j * c.bn), end = s32(keys) - first;
          if (!c.causal) return select(column < end, all, -INFINITY);
          return select(column < min(rows + (visible - first), end), all, -INFINITY);
        };

        barrier_wait(loaded[wg], 0);
        const f32 scale2 = scale * kLog2E;
        const auto first = full_keys.wait();
        wgmma_group([&] { mma(scores, sQ[wg], sK[first]); });
        wgmma_wait(0);
        full_keys.release(first);
        const RegisterTile<f32> first_scores = scores_of(blocks.all - 1, true);
        Softmax softmax(first_scores, scale2);
        Var<RegisterTile<T>> weights(astype<T>(softmax.weights(first_scores, true)));

        const auto step = [&](u32 j, bool masked) {
          const auto next = full_keys.wait();
          if (turn) turn->wait();
          scores.zero();
          wgmma_group([&] { mma(scores, sQ[wg], sK[next]); });
          const auto last = full_values.wait();
          wgmma_group([&] { mma(sums, weights.value(), sV[last].transposed()); });
          if (turn) turn->pass();
          wgmma_wait(1);  // the scores are there, the sums are still under way
          full_keys.release(next);
          const auto [p, shrink] = softmax.add(scores_of(j, masked), masked);
          wgmma_wait(0);
          full_values.release(last);
          store(sums, load<f32>(sums) * shrink);
          weights = astype<T>(p);
        };
        const u32 masked = blocks.all - 1 - blocks.unmasked;
        if (c.causal) for_(0, masked, [&](u32 i) { step(blocks.all - 2 - i, true); });
        for_(0, blocks.unmasked, [&](u32 i) { step(blocks.unmasked - 1 - i, false); });

        const auto last = full_values.wait();
        wgmma_group([&] { mma(sums, weights.value(), sV[last].transposed()); });
        wgmma_wait(0);
        full_values.release(last);
        const RegisterTile<f32> total = softmax.total(), one(f32(1), total.layout());
        const RegisterTile<f32> inverse = select(total == f32(0), f32(0), divide(one, total, Approx::yes));
        store(sQ[wg], astype<T>(load<f32>(sums) * inverse));  // where the queries were
        fence_proxy_async<Space::shared>();
        sync_warpgroup();
        elect([&] {
          tma_store(O, sQ[wg], 0, own_row, head);
          cp_async_bulk_commit_group();
          cp_async_bulk_wait_group_read(0);
        });
        const GlobalTensor log_sums(lse, {nctaid_y(), queries});
        store(log_sums(head, _).as_col().tile(own_row, 0), softmax.log_sum(total));
      });
  k.grid("ceil_div(extent(Q, 1), " + std::to_string(c.bm()) + ")", "extent(Q, 2)");
  k.describe({{"Q", "heads of rows of queries"},
              {"K", "heads of rows of keys"},
              {"V", "heads of rows of values, one for each key"},
              {"O", "softmax(scale Q K^T) V: heads of rows, one for each query"},
              {"lse", "of each head and query the natural logarithm of the sum of exp(scale Q K^T)"},
              {"queries", "rows of a head of Q"},
              {"keys", "rows of a head of K"},
              {"group", "heads of Q that share one of K and V"},
              {"scale", "a factor of the scores, above 0"},
              {"visible", "query i sees the keys below i + visible, if the kernel is causal"}});
  return k;
}

// What a row of O and its lse should be, in float64.
class Reference {
 public:
  Reference(const command::Tensor& q, const command::Tensor& k, const command::Tensor& v, size_t group,
            double scale, std::optional<int64_t> visible)
      : q_(q), k_(k), v_(v), group_(group), scale_(scale), visible_(visible) {}

  // Of the query `row` of all heads in a row: its weight for each key, how far rounding in f32 may move their
  // scores, and the sum that they were divided by.
  struct Row {
    std::vector<double> weights;
    double score_error = 0, log_sum = -INFINITY;
  };
  Row row(size_t row) const {
    const size_t depth = q_.shape()[0], queries = q_.shape()[1], keys = k_.shape()[1],
                 head = row / queries / group_;
    const int64_t seen =
        visible_ ? static_cast<int64_t>(row % queries) + *visible_ : static_cast<int64_t>(keys);
    Row out;
    double most = -INFINITY;
    for (size_t j = 0; j < keys && static_cast<int64_t>(j) < seen; ++j) {
      double score = 0, magnitude = 0;
      for (size_t l = 0; l < depth; ++l) {
        const double product = q_[row * depth + l] * k_[(head * keys + j) * depth + l];
        score += product, magnitude += std::abs(product);
      }
      out.weights.push_back(scale_ * score);
      out.score_error = std::max(out.score_error, 0x1p-20 * scale_ * magnitude);
      most = std::max(most, scale_ * score);
    }
    double sum = 0;
    for (double& w : out.weights) sum += w = std::exp(w - most);
    for (double& w : out.weights) w /= sum;
    if (!out.weights.empty()) out.log_sum = most + std::log(sum);
    return out;
  }

  // Weights are rounded to the type of V, and O too; the rest is what scores and exp2 lose in f32.
  command::Expected output(size_t i) const {
    const size_t depth = v_.shape()[0], keys = v_.shape()[1], queries = q_.shape()[1];
    const Row r = row(i / depth);
    double sum = 0, magnitude = 0;
    for (size_t j = 0; j < r.weights.size(); ++j) {
      const double term = r.weights[j] * v_[(i / depth / queries / group_ * keys + j) * depth + i % depth];
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
  const command::Tensor &q_, &k_, &v_;
  size_t group_;
  double scale_;
  std::optional<int64_t> visible_;
};

const std::vector<std::string> kTypes = {"f16", "bf16"}, kYesNo = {"no", "yes"};

void run(const command::Fields& f, command::Run& run) {
  const auto size = [&](const char* name) { return static_cast<uint64_t>(f[name]); };
  const DType type = *dtype_from_name(f.word("type"));
  const uint64_t depth = size("depth"), heads = size("heads"), group = size("group");
  if (heads % group != 0)
    throw Error("attention: " + std::to_string(heads) +
                " heads are no multiple of group = " + std::to_string(group));
  const bool causal = f.word("causal") == "yes";
  command::Tensor q = run.normal(type, {depth, size("queries"), heads}),
                  k = run.normal(type, {depth, size("keys"), heads / group}),
                  v = run.normal(type, {depth, size("keys"), heads / group}),
                  o = run.output(type, {depth, size("queries"), heads}),
                  lse = run.output(DType::f32, {size("queries"), heads});
  const double scale = 1 / std::sqrt(static_cast<double>(depth));
  const int64_t visible = f["keys"] - f["queries"] + 1;  // the last query sees all keys
  run.launch({q.tensor(), k.tensor(), v.tensor(), o.tensor(), lse.pointer(),
              runtime::scalar(static_cast<uint32_t>(f["queries"])),
              runtime::scalar(static_cast<uint32_t>(f["keys"])),
              runtime::scalar(static_cast<uint32_t>(group)), runtime::scalar(static_cast<float>(scale)),
              runtime::scalar(static_cast<int32_t>(visible))});
  const Reference reference(q, k, v, group, scale, causal ? std::optional(visible) : std::nullopt);
  const double cost = static_cast<double>(f["keys"] * f["depth"]);
  run.check(o, cost, [&](size_t i) { return reference.output(i); });
  run.check(lse, cost, [&](size_t i) { return reference.log_sum(i); });
  double pairs = 0;  // of queries and keys
  for (int64_t i = 0; i < f["queries"]; ++i)
    pairs += static_cast<double>(causal ? std::clamp<int64_t>(i + visible, 0, f["keys"]) : f["keys"]);
  const double elements = static_cast<double>(q.count() + k.count() + v.count() + o.count());
  run.measure(4 * pairs * static_cast<double>(depth * heads), elements * size_of(type));
}

const command::Registration registration({
    .name = "attention",
    .summary = "attention, forward: softmax(scale Q K^T) V, whose softmax runs under the products",
    .fields = {{"queries", 1024, "rows of a head of Q"},
               {"keys", 1024, "rows of a head of K and V"},
               {"heads", 4, "of Q, of all batches"},
               {"group", 1, "heads of Q that share one of K and V"},
               {"depth", 128, "columns of a head: 64, 128 or 256", 64},
               {"causal", 0, "whether a query sees only the keys up to its own, the last query all", 1, 1,
                kYesNo},
               {"type", 0, "of Q, K, V and O", 1, 1, kTypes},
               {"consumers", 2, "warpgroups of 64 queries in a CTA: 1 to 3"},
               {"bn", 128, "keys of a block", 16},
               {"stages", 2, "of the rings of keys and values"},
               {"turns", 0, "whether consumers issue their products one after the other", 1, 1, kYesNo}},
    .build =
        [](const command::Fields& f) {
          const AttentionConfig c = {f.small("depth"),  f.small("consumers"),      f.small("bn"),
                                     f.small("stages"), f.word("causal") == "yes", f.word("turns") == "yes"};
          return f.word("type") == "f16" ? attention<f16>(c) : attention<bf16>(c);
        },
    .run = run,
});

}  // namespace
}  // namespace ptxbuilder::kernels

#include "kernels/attention/kernel.h"

#include <numeric>

#include "kernels/attention/schedule.h"
#include "kernels/attention/softmax.h"
#include "ptxbuilder/ir/global_tensor.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int kRows = 64;  // of queries, of a consumer
constexpr float kLog2E = 1.4426950408889634f;

// Registers of a thread of each role. A producer that keeps the place of the next queries takes more.
struct RoleRegisters {
  int producer, consumer;
};
RoleRegisters role_registers(const AttentionTile& t) {
  if (t.consumers == 1) return {40, 232};
  if (t.consumers == 3) return {32, 160};
  return t.ahead ? RoleRegisters{40, 232} : RoleRegisters{24, 240};
}

Swizzle widest_swizzle(int columns) {
  return columns % 64 == 0 ? Swizzle128B : columns % 32 == 0 ? Swizzle64B : Swizzle32B;
}

Parameters declare(Kernel& k, const AttentionOperation& o, const AttentionScore& score, Where where) {
  using enum Parameter::Kind;
  Parameters p;
  p.add("Q", tensor_map, o.type, "queries: columns, rows, heads, batches");
  p.add("K", tensor_map, o.type, "keys");
  p.add("V", tensor_map, o.type, "values, a row for each key");
  if (!o.packed) p.add("O", tensor_map, o.type, "softmax(scale Q K^T) V, a row for each query");
  if (o.lse)
    p.add("lse", pointer, DType::f32,
          "of each head and query the natural logarithm of the sum of exp(scale Q K^T)");
  p.add("queries", scalar, DType::u32,
        o.packed ? "rows of a head of the longest sequence" : "rows of a head of Q");
  if (!o.packed) p.add("keys", scalar, DType::u32, "rows of a head of K");
  p.add("heads", scalar, DType::u32, "of Q, of a batch");
  p.add("batches", scalar, DType::u32, o.packed ? "sequences" : "of each tensor");
  p.add("group", scalar, DType::u32, "heads of Q that share one of K and V");
  p.add("scale", scalar, DType::f32, "a factor of the scores, above 0");
  if (o.causal)
    p.add("visible", scalar, DType::s32,
          o.packed ? "query i sees the keys below i + visible + keys - queries, of its sequence"
                   : "query i sees the keys below i + visible");
  if (takes_longest_first(o))
    p.add("together", scalar, DType::u32, "heads of which the longest rows of queries come first");
  if (o.window)
    p.add("hidden", scalar, DType::s32,
          o.packed ? "query i sees the keys from i + hidden + keys - queries on, of its sequence"
                   : "query i sees the keys from i + hidden on");
  if (o.softcap) p.add("softcap", scalar, DType::f32, "scores s become softcap tanh(s / softcap)");
  if (o.packed) {
    p.add("O", pointer, o.type, "softmax(scale Q K^T) V, a row for each query");
    p.add("row_stride", scalar, DType::u64, "elements from a row of O to the next, a multiple of 8");
    p.add("head_stride", scalar, DType::u64, "elements from a head of O to the next, a multiple of 8");
    p.add("query_offsets", pointer, DType::u32, "where each sequence begins in Q, and where the last ends");
    p.add("key_offsets", pointer, DType::u32, "where each sequence begins in K, and where the last ends");
  }
  score.declare(p);
  p.declare(k, where);
  return p;
}

// What the roles share.
struct Shared {
  Shared(Kernel& k, const AttentionOperation& o, const AttentionTile& t)
      : Q(k.shared(o.type, {kRows, o.depth}, widest_swizzle(std::gcd(o.depth, o.value_depth)),
                   t.consumers * (t.ahead ? 2 : 1), "Q")),  // a part of which O leaves through
        K(k.shared(o.type, {t.bn, o.depth}, widest_swizzle(o.depth), t.stages, "K")),
        V(k.shared(o.type, {t.bn, o.value_depth}, widest_swizzle(o.value_depth), t.stages, "V")),
        queries(k, Q.stages(), {Q}, 1),
        keys(k, t.stages, {K}, t.consumers),
        values(k, t.stages, {V}, t.consumers) {
    if (t.turns) turns.emplace(k, t.consumers);
  }

  SharedTile Q, K, V;
  Pipeline queries, keys, values;
  std::optional<Turns> turns;
};

// Loads the queries of each consumer, and blocks of keys and values.
class AttentionProducer {
 public:
  AttentionProducer(const AttentionTile& t, const Shared& shared, const AttentionSizes& sizes,
                    const Parameters& p)
      : t_(t),
        shared_(shared),
        sizes_(sizes),
        Q_(p.get<TensorMap>("Q")),
        K_(p.get<TensorMap>("K")),
        V_(p.get<TensorMap>("V")),
        queries_(shared.queries.producer()),
        keys_(shared.keys.producer()),
        values_(shared.values.producer()) {}

  // The queries, and the last block of keys.
  void begin(const AttentionWork& w) {
    load(shared_.K[keys_.acquire()], K_, w, KeyBlocks(t_, w).end - 1);
    for (int wg = 0; wg < t_.consumers; ++wg)
      tma_load(shared_.Q[queries_.acquire()], Q_, 0, w.first_query + w.row + wg * kRows, w.head, batch(w));
  }
  // The other blocks, those of keys ahead of those of values.
  void finish(const AttentionWork& w) {
    const KeyBlocks blocks(t_, w);
    for_(1, blocks.count(), [&](u32 i) {
      load(shared_.K[keys_.acquire()], K_, w, blocks.end - 1 - i);
      load(shared_.V[values_.acquire()], V_, w, blocks.end - i);
    });
    load(shared_.V[values_.acquire()], V_, w, blocks.first);
  }

 private:
  void load(const TileView& to, TensorMap from, const AttentionWork& w, u32 block) const {
    tma_load(to, from, 0, w.first_key + block * t_.bn, w.head / sizes_.group, batch(w));
  }
  u32 batch(const AttentionWork& w) const { return sizes_.query_offsets ? u32(0) : w.batch; }

  const AttentionTile& t_;
  const Shared& shared_;
  const AttentionSizes& sizes_;
  TensorMap Q_, K_, V_;
  Producer queries_, keys_, values_;
};

// A warpgroup's 64 queries: scores of a block of keys, their softmax, and the sums of weights by values.
template <class T>
class AttentionConsumer {
 public:
  AttentionConsumer(const AttentionOperation& o, const AttentionTile& t, const AttentionScore& score,
                    const Shared& shared, const AttentionSizes& sizes, const Parameters& p, u32 wg)
      : o_(o),
        t_(t),
        score_(score),
        shared_(shared),
        sizes_(sizes),
        p_(p),
        wg_(wg),
        queries_(shared.queries.consumer()),
        keys_(shared.keys.consumer()),
        values_(shared.values.consumer()),
        scores_(kRows, t.bn),
        sums_(kRows, o.value_depth),
        scale_(p.get<f32>("scale")),
        softmax_(scores_.layout(), exponent()),
        shrink_(RegisterTile<f32>(f32(1), by_row())) {
    queries_.skip(wg);
    if (shared.turns) turn_ = shared.turns->of(wg);
  }

  // The scores of the last block, and `product` under their softmax.
  void begin(const AttentionWork& w, const std::function<void()>& product = nullptr) {
    const Stage query = queries_.wait();
    if (query_) {
      *query_ = query;
    } else {
      query_.emplace(query);
      leaving_.emplace(query);
    }
    queries_.skip(t_.consumers - 1);
    const Stage key = keys_.wait();
    if (turn_) turn_->wait();
    multiply_keys(key);
    if (product) product();
    if (turn_) turn_->pass();
    wgmma_wait(product ? 1 : 0);
    keys_.release(key);
    const bool hides = !t_.whole;
    store(scores_, softmax_.begin(scores_of(w, KeyBlocks(t_, w).end - 1, hides), hides || score_.function));
    shrink_ = RegisterTile<f32>(f32(1), by_row());
  }

  // The other blocks, and O.
  void finish(const AttentionWork& w, const std::function<void(const std::function<void()>&)>& begin_next) {
    const KeyBlocks blocks(t_, w);
    store(sums_, RegisterTile<f32>(f32(0), sums_.layout()));
    const u32 ahead = blocks.end - 1;  // of those that follow
    const auto steps = [&](u32 end, u32 begin, bool hides) {
      for_(0, end - begin, [&](u32 i) { step(w, end - 1 - i, end - i == ahead, hides); });
    };
    if (o_.causal) steps(ahead, blocks.end_unmasked, true);
    steps(blocks.end_unmasked, blocks.first_unmasked, false);
    if (o_.window) steps(blocks.first_unmasked, blocks.first, true);

    wgmma_wait(0);
    const RegisterTile<T> weights = astype<T>(load<f32>(scores_));
    const Partial<f32, Reduction::add> total = softmax_.total();
    const RegisterTile<f32> most = softmax_.most();
    const Stage own = *query_;
    free_place(blocks.count() == 1);  // which no step has done
    begin_next([&] { multiply_values(weights, blocks.count() == 1); });
    const u32 row = w.row + wg_ * kRows;
    const auto wait = [&] {
      wgmma_wait(0);
      values_.release_last(pred(false));
    };
    // Under a condition, since ptxas would else wait for the sums ahead of the softmax of begin_next.
    if_(
        row < w.queries,
        [&] {
          wait();
          store_rows(w, row, own, complete(total), most);
        },
        wait);
    *leaving_ = own;
    leaves_ = pred(true);
  }

  // Behind the last queries.
  void end() { free_place(pred(true)); }

 private:
  // Hands back the place through which the O before leaves, when products have hidden how long that takes.
  // Without a branch, beside which ptxas would wait for the products (C7512).
  void free_place(pred now) {
    cp_async_bulk_wait_group_read(0);
    bar_warp_sync(0xffffffff);  // the lane that stored is not always the one that hands it back
    queries_.release(*leaving_, now & leaves_.value());
  }

  // In a uniform register, where the loop over tiles would keep it elsewhere.
  u32 stage_of(const Stage& stage) const { return t_.ahead ? warp_uniform(stage.index()) : stage.index(); }

  RegisterLayout layout() const { return scores_.layout(); }
  RegisterLayout by_row() const { return layout().reduced_rows(); }

  // What makes powers of two of what the softmax gets.
  f32 exponent() const {
    if (o_.softcap) return p_.template get<f32>("softcap") * kLog2E;
    return score_.function ? f32(kLog2E) : scale_ * kLog2E;
  }

  // The scores of block j; -inf for keys that a query does not see, where it `hides` some.
  RegisterTile<f32> scores_of(const AttentionWork& w, u32 j, bool hides) const {
    RegisterTile<f32> all = load<f32>(scores_);
    const s32 first = s32(j * t_.bn), end = s32(w.keys) - first;
    const RegisterTile<s32> row = astype<s32>(row_index(by_row())) + s32(w.row + wg_ * kRows),
                            column = astype<s32>(col_index(layout()));
    if (score_.function) all = score_.function(all * scale_, {w.batch, w.head, row, column + first}, p_);
    if (o_.softcap) {
      const f32 cap = p_.template get<f32>("softcap");
      all = tanh(all * (score_.function ? f32(1) / cap : scale_ / cap), Approx::yes);
    }
    if (!hides) return all;
    const RegisterTile<s32> last =
        w.visible ? min(row + (*w.visible - first), end) : RegisterTile<s32>(end, by_row());
    all = select(column < last, all, -INFINITY);
    if (w.hidden) all = select(column < row + (*w.hidden - first), -INFINITY, all);
    return all;
  }

  void multiply_keys(const Stage& key) {
    scores_.zero();
    const TileView Q = shared_.Q[stage_of(*query_)], K = shared_.K[stage_of(key)];
    wgmma_group([&] { mma(scores_, Q, K); });
  }
  // The sums take the weights of a block by its values.
  void multiply_values(const RegisterTile<T>& weights, pred first) {
    store(sums_, load<f32>(sums_) * shrink_.value());
    const Stage value = values_.wait();
    values_.release_previous(value, first);
    const TileView V = shared_.V[stage_of(value)];
    wgmma_group([&] { mma(sums_, weights, V.transposed()); });
  }

  // The scores of block j, and the weights of the block before by its values, which run on under the softmax
  // of these scores, to the next step.
  void step(const AttentionWork& w, u32 j, pred first, bool hides) {
    wgmma_wait(0);
    const RegisterTile<T> weights = astype<T>(load<f32>(scores_));
    const Stage key = keys_.wait();
    if (turn_) turn_->wait();
    multiply_keys(key);
    multiply_values(weights, first);
    if (turn_) turn_->pass();
    free_place(first);
    wgmma_wait(1);
    keys_.release(key);
    const auto [next, shrink] = softmax_.add(scores_of(w, j, hides), hides || score_.function);
    store(scores_, next);
    shrink_ = shrink;
  }

  // O leaves through the place of the queries.
  void store_rows(const AttentionWork& w, u32 row, const Stage& own, const RegisterTile<f32>& total,
                  const RegisterTile<f32>& most) {
    const RegisterTile<f32> one(f32(1), total.layout());
    const RegisterTile<f32> inverse = select(total == f32(0), f32(0), divide(one, total, Approx::yes));
    const TileView out = shared_.Q[own].cols(0, o_.value_depth);
    store(out, astype<T>(load<f32>(sums_) * inverse));
    const u32 end = w.first_query + w.queries;
    if (o_.packed) {  // row by row, since a box would reach into the next sequence
      sync_warpgroup();
      const GlobalTensor O =
          GlobalTensor(p_.template get<gptr<T>>("O"), {sizes_.heads, end, o_.value_depth},
                       {p_.template get<u64>("head_stride"), p_.template get<u64>("row_stride"), 1})
              .multiples_of(8);
      store(O(w.head, _, _).tile(w.first_query + row, 0), load<T>(out));
      sync_warpgroup();
    } else {
      fence_proxy_async<Space::shared>();
      sync_warpgroup();
      elect([&] {
        tma_store(p_.template get<TensorMap>("O"), out, 0, row, w.head, w.batch);
        cp_async_bulk_commit_group();
      });
    }
    if (!o_.lse) return;
    // Of a head the queries of all sequences.
    const u32 queries = o_.packed ? u32((*sizes_.query_offsets)[sizes_.batches]) : sizes_.queries;
    const GlobalTensor lse(p_.template get<gptr<f32>>("lse"), {sizes_.heads * sizes_.batches, end},
                           {queries, 1});
    const u32 head = o_.packed ? w.head : w.head_of_all(sizes_);
    store(lse(head, _).as_col().tile(w.first_query + row, 0), softmax_.log_sum(most, total));
  }

  const AttentionOperation& o_;
  const AttentionTile& t_;
  const AttentionScore& score_;
  const Shared& shared_;
  const AttentionSizes& sizes_;
  const Parameters& p_;
  u32 wg_;
  Consumer queries_, keys_, values_;
  std::optional<WarpgroupTurn> turn_;
  Accumulator scores_, sums_;  // behind its softmax, the first has the weights
  f32 scale_;
  Softmax softmax_;
  Var<RegisterTile<f32>> shrink_;  // of the sums, for the weights that are next
  std::optional<Var<Stage>> query_, leaving_;
  Var<pred> leaves_{pred(false)};  // whether an O is on its way out
};

}  // namespace

Kernel attention(const AttentionOperation& o, const AttentionTile& t, const AttentionScore& score, int sms,
                 Where where) {
  check(o, t, where);
  Kernel k("attention");
  const Parameters p = declare(k, o, score, where);
  k.grid(AttentionSchedule::grid(t, sms));
  k.configure("tile", text(t));
  if (t.overlaps) k.overlaps();
  const AttentionSizes sizes(o, p);
  const Shared shared(k, o, t);
  const RoleRegisters registers = role_registers(t);

  k.warpgroups(1, registers.producer, [&](u32) {
    elect([&] {
      griddepcontrol_wait();
      const AttentionSchedule schedule(t, sizes);
      AttentionProducer producer(t, shared, sizes, p);
      Var<u32> rounds(0);
      schedule.each([&](u32 round) {
        const AttentionWork w = schedule.work(round);
        const auto load = [&] {
          producer.begin(w);
          producer.finish(w);
        };
        if (o.packed)
          if_(w.row < w.queries, load);
        else
          load();
        rounds = round + 1;
      });
      if (t.ahead) producer.begin(schedule.work(rounds));
      griddepcontrol_launch_dependents();  // behind its loads, which the next launch's would slow down
    });
  });

  const auto consume = [&]<class T>(std::type_identity<T>, u32 wg) {
    griddepcontrol_wait();
    const AttentionSchedule schedule(t, sizes);
    AttentionConsumer<T> consumer(o, t, score, shared, sizes, p, wg);
    if (t.ahead) consumer.begin(schedule.work(0));
    schedule.each([&](u32 round) {
      const AttentionWork w = schedule.work(round);
      const auto run = [&] {
        if (!t.ahead) consumer.begin(w);
        consumer.finish(w, [&](const std::function<void()>& product) {
          if (t.ahead)
            consumer.begin(schedule.work(round + 1), product);
          else
            product();
        });
      };
      if (o.packed)
        if_(w.row < w.queries, run);
      else
        run();
    });
    consumer.end();
  };
  k.warpgroups(t.consumers, registers.consumer, [&](u32 wg) {
    if (o.type == DType::f16)
      consume(std::type_identity<f16>(), wg);
    else
      consume(std::type_identity<bf16>(), wg);
  });
  return k;
}

}  // namespace ptxbuilder::kernels

#include "kernels/attention_gradient/kernel.h"

#include "kernels/attention/roles.h"
#include "kernels/attention_gradient/fragments.h"
#include "kernels/attention_gradient/packed.h"
#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/bulk.h"
#include "ptxbuilder/tile/parameters.h"
#include "ptxbuilder/tile/pipeline.h"
#include "ptxbuilder/tile/semaphore.h"

namespace ptxbuilder::kernels {
namespace {

constexpr float kLog2E = 1.4426950408889634f;
// A consumer computes weights and slopes of so many queries at a time: all of them at once would take more
// registers than there are.
int part_columns(bool bends) { return bends ? 16 : 32; }
// It has the same registers as the transposed tile: what was a row is a column.
RegisterTile<f32> turned(const RegisterTile<f32>& x) {
  const RegisterLayout& layout = x.layout();
  const TileExtent extent = {layout.cols(), layout.rows()};
  const Layout turn = make_layout({layout.cols(), layout.rows()}, {layout.rows(), 1});
  return RegisterTile<f32>::of(
      RegisterLayout(extent, composition(turn, layout.thread_value()), "transposed " + layout.describe()),
      [&](int i) { return x.value(i); });
}
// It says whether scores are more than scale Q K^T.
bool bends_scores(const AttentionGradientOperation& o, const AttentionScore& score) {
  return o.softcap || score.function;
}
constexpr int kKeys = AttentionGradientTile::kConsumerKeys;

Parameters declare(Kernel& k, const AttentionGradientOperation& o, const AttentionScore& score, Where where) {
  using enum Parameter::Kind;
  Parameters p;
  p.add("Q", tensor_map, o.type, "queries: columns, rows, heads, batches");
  p.add("K", tensor_map, o.type, "keys");
  p.add("V", tensor_map, o.type, "values, a row for each key");
  p.add("dO", tensor_map, o.type, "the gradient of softmax(scale Q K^T) V, a row for each query");
  if (!o.packed) {
    p.add("dK", tensor_map, o.type, "the gradient of K");
    p.add("dV", tensor_map, o.type, "the gradient of V");
  }
  p.add("powers", pointer, DType::f32,
        "of each head and query the logarithm to base 2 of the sum of exp(scale Q K^T)");
  p.add("sums", pointer, DType::f32, "of each head and query sum(dO * O)");
  p.add("dq", pointer, DType::f32, "sums of dQ / scale, block by block of queries");
  if (!o.packed) p.add("queries", scalar, DType::u32, "rows of a head of Q");
  p.add("keys", scalar, DType::u32,
        o.packed ? "rows of a head of the longest sequence of K" : "rows of a head of K");
  p.add("group", scalar, DType::u32, "heads of Q that share one of K and V");
  p.add("scale", scalar, DType::f32, "a factor of the scores, above 0");
  const std::string beside = o.packed ? " + keys - queries, of its sequence" : "";
  if (o.causal) p.add("visible", scalar, DType::s32, "query i sees the keys below i + visible" + beside);
  if (o.window) p.add("hidden", scalar, DType::s32, "query i sees the keys from i + hidden" + beside + " on");
#define PTXBUILDER_ATTENTION_STEP(name, rule, meaning) \
  if (o.name) p.add(#name, scalar, DType::f32, meaning);
#include "kernels/attention/attention.def"
  if (o.deterministic)
    p.add(
        "turns", pointer, DType::u32,
        "of the first of each 64 queries of a block, how many blocks of keys have added to its sums: zeros");
  if (o.packed) {
    add_sequences(p);
    p.add("key_offsets", pointer, DType::u32, "where each sequence begins in K, and where the last ends");
    PackedHeads::add(p, o, "dK", "the gradient of K");
    PackedHeads::add(p, o, "dV", "the gradient of V");
  }
  score.declare(p);
  p.declare(k, where);
  return p;
}

// This is what the roles share.
struct Roles {
  Roles(Kernel& k, const AttentionGradientOperation& o, const AttentionGradientTile& t, bool bends)
      : K(k.shared(o.type, {t.bn(), o.depth}, swizzle(t, o.depth), 1, "K")),
        V(k.shared(o.type, {t.bn(), o.value_depth}, swizzle(t, o.value_depth), 1, "V")),
        Q(k.shared(o.type, {t.bm, o.depth}, swizzle(t, o.depth), t.stages, "Q")),
        dO(k.shared(o.type, {t.bm, o.value_depth}, swizzle(t, o.value_depth), t.gradient_stages, "dO")),
        dS(k.shared(o.type, {t.bn(), t.bm}, swizzle(t, t.bm), 2, "dS")),
        dQ(k.shared<f32>({GradientFragments(o).piece().rows(), GradientFragments::kStep}, SwizzleNone,
                         t.kConsumers, "dQ")),
        powers(k.shared<f32>({1, t.bm, part_columns(bends)}, SwizzleNone, t.stages, "powers")),
        sums(k.shared<f32>({1, t.bm, part_columns(bends)}, SwizzleNone, t.gradient_stages, "sums")),
        arrived(k, {2}, {"keys and values"}),
        queries(k, t.stages, {Q, powers}, t.kConsumers),
        gradients(k, t.gradient_stages, {dO, sums}, t.kConsumers),
        exchanged(k.named_barrier(t.kConsumers * 128)) {
    if (t.shares_keys) P = k.shared(o.type, {t.bn(), t.bm}, swizzle(t, t.bm), 2, "P");
    if (o.deterministic) {
      summed.emplace(k, std::vector<int>{t.kConsumers}, std::vector<std::string>{"sums of dQ"});
      added.emplace(k, std::vector<int>{1}, std::vector<std::string>{"sums of dQ added"});
    }
  }

  // Panels of a tile whose columns consumers share are whole in the half of each.
  static Swizzle swizzle(const AttentionGradientTile& t, int columns) {
    return widest_swizzle(t.shares_keys ? columns / t.kConsumers : columns);
  }

  SharedTile K, V, Q, dO, dS, dQ, powers, sums;
  std::optional<SharedTile> P;  // where consumers share it
  Barriers arrived;
  Pipeline queries, gradients;
  NamedBarrier exchanged;  // where consumers meet, when dS is complete
  // A warp of its own adds to dQ's sums in turns. These barriers say when what it adds is there, and when its
  // place is free again.
  std::optional<Barriers> summed, added;
};

// A block of keys, and the blocks of queries that see some of it: the first of them do not see all, nor do
// the last where there is a window.
struct Work {
  Work(const AttentionGradientOperation& o, const AttentionGradientTile& t, const Parameters& p)
      // The last block comes first where blocks take turns: it is the first to reach a block of queries that
      // a causal mask lets it see, and no CTA waits for one that begins later.
      : key_block(o.deterministic ? nctaid_x() - 1 - ctaid_x() : ctaid_x()),
        first_key(key_block * t.bn()),
        head(ctaid_y()),
        batch(ctaid_z()),
        group(p.get<u32>("group")),
        queries(o.packed ? u32(0) : p.get<u32>("queries")),
        keys(p.get<u32>("keys")),
        first(0),
        first_whole(0),
        end_whole(0),
        end(0),
        staggered(o.depth != 128 && !o.causal && !o.window && !o.deterministic) {
    if (o.packed) {
      sequence.emplace(t, p, batch);
      queries = sequence->queries;
      key_row = p.get<gptr<u32>>("key_offsets")[batch];
      keys = u32(p.get<gptr<u32>>("key_offsets")[batch + 1]) - key_row;
    }
    end = ceil_div(queries, t.bm);
    const auto of_mask = [&](const char* bound) {
      const s32 x = p.get<s32>(bound);
      return o.packed ? x + (s32(keys) - s32(queries)) : x;
    };
    if (o.causal) {
      visible = of_mask("visible");
      // The first query that sees the key in front of `behind`.
      const auto block_of = [&](s32 behind) { return min(u32(max(behind - *visible, 0)), queries); };
      first = min(block_of(s32(first_key) + 1) / t.bm, end);
      first_whole = min(ceil_div(block_of(s32(first_key) + t.bn()), t.bm), end);
    }
    u32 whole_end = end;
    if (o.window) {
      hidden = of_mask("hidden");
      // The first query that does not see the key in front of `behind`.
      const auto end_of = [&](s32 behind) { return u32(max(behind - *hidden, 0)); };
      whole_end = end_of(s32(first_key) + 1) / t.bm;
      end = min(ceil_div(end_of(s32(first_key) + t.bn()), t.bm), end);
      first = min(first, end), first_whole = min(first_whole, end);
    }
    first_whole = select(first_key + t.bn() > keys, end, max(first_whole, first));
    end_whole = o.window ? max(min(whole_end, end), first_whole) : end;
  }

  // It says whether the sequence has keys here.
  pred exists() const { return first_key < keys; }
  u32 head_of_all(u32 of_group) const {
    return (sequence ? head : batch * nctaid_y() + head) * group + of_group;
  }
  // A head's blocks of queries begin here in what the kernels share.
  u32 first_block(const AttentionGradientTile& t, u32 of_group) const {
    if (sequence) return head_of_all(of_group) * sequence->blocks + sequence->first_block;
    return head_of_all(of_group) * ceil_div(queries, t.bm);
  }
  // The tensors have the sequence's rows here.
  u32 batch_of_map() const { return sequence ? u32(0) : batch; }
  u32 row_of_query(u32 query) const { return sequence ? sequence->row + query : query; }
  u32 row_of_key(u32 key) const { return sequence ? key_row + key : key; }

  // The block of queries that comes i-th. CTAs that add to the same sums of dQ at a time add one behind the
  // other, so that each begins with another block, where no mask makes it.
  u32 nth_block(const AttentionGradientTile& t, u32 i) const {
    if (!staggered) return i;
    const u32 at = i + first_key / t.bm % end;
    return select(at < end, at, at - end);
  }

  // So many of the blocks of keys behind this one have the block of queries among theirs.
  u32 turn(const AttentionGradientTile& t, u32 block) const {
    u32 key_blocks = sequence ? ceil_div(keys, t.bn()) : nctaid_x();
    if (visible) {
      const u32 behind = (block + 1) * t.bm;  // as far as `first` looks, which stops at the last query
      key_blocks = select(behind > queries, key_blocks,
                          min(ceil_div(u32(max(s32(behind) - 1 + *visible, 0)), t.bn()), key_blocks));
    }
    return key_blocks - 1 - key_block;
  }

  u32 key_block, first_key, head, batch, group, queries, keys;
  u32 first, first_whole, end_whole, end;  // blocks of queries
  bool staggered;
  std::optional<s32> visible, hidden;
  std::optional<PackedQueries> sequence;
  u32 key_row = 0;
};

void produce(const AttentionGradientTile& t, const Roles& r, const Work& w, const Parameters& p) {
  const auto map = [&](const char* name) { return p.get<TensorMap>(name); };
  auto queries = r.queries.producer();
  auto gradients = r.gradients.producer();
  tma_load(r.K[0].expecting(r.arrived[0]), map("K"), 0, w.row_of_key(w.first_key), w.head, w.batch_of_map());
  tma_load(r.V[0].expecting(r.arrived[0]), map("V"), 0, w.row_of_key(w.first_key), w.head, w.batch_of_map());
  for_(0, w.group, [&](u32 of_group) {
    const u32 head = w.head * w.group + of_group, row = w.first_block(t, of_group) * t.bm;
    for_(w.first, w.end, [&](u32 nth) {
      const u32 i = w.nth_block(t, nth);
      auto s = queries.acquire();
      tma_load(r.Q[s], map("Q"), 0, w.row_of_query(i * t.bm), head, w.batch_of_map());
      bulk_load(r.powers[s], p.get<gptr<f32>>("powers"), row + i * t.bm);
      auto g = gradients.acquire();
      tma_load(r.dO[g], map("dO"), 0, w.row_of_query(i * t.bm), head, w.batch_of_map());
      bulk_load(r.sums[g], p.get<gptr<f32>>("sums"), row + i * t.bm);
    });
  });
}

// It adds a piece of a consumer's part to dQ's sums.
void add_piece(const AttentionGradientOperation& o, const AttentionGradientTile& t, const Roles& r,
               const Parameters& p, u32 block, u32 part, int piece) {
  const GradientFragments sums(o);
  const u32 at = block * t.kConsumers + part;
  bulk_reduce(CopyReduction::add, p.get<gptr<f32>>("dq") + u64(at) * u64(sums.elements()),
              u32(piece * sums.piece().elements()), r.dQ[part]);
}

// It adds to dQ's sums what consumers have left for them, block by block of queries, in the order of blocks
// of keys.
void add_in_turns(const AttentionGradientOperation& o, const AttentionGradientTile& t, const Roles& r,
                  const Work& w, const Parameters& p) {
  Phases summed(*r.summed);
  for_(0, w.group, [&](u32 of_group) {
    for_(w.first, w.end, [&](u32 i) {
      const u32 block = w.first_block(t, of_group) + i;
      const Semaphore turns(p.get<gptr<u32>>("turns") + u64(block * (t.bm / t.kPart)));
      turns.wait(w.turn(t, i));
      fence_proxy_async<Space::global>();  // the sums are the async proxy's
      for (int piece = 0; piece < GradientFragments(o).pieces(); ++piece) {
        summed.wait(0);
        for (int part = 0; part < t.kConsumers; ++part) add_piece(o, t, r, p, block, u32(part), piece);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group_read(0);
        mbarrier_arrive((*r.added)[0]);
      }
      cp_async_bulk_wait_group(0);
      turns.signal();
    });
  });
}

template <class T>
class GradientConsumer {
 public:
  GradientConsumer(const AttentionGradientOperation& o, const AttentionGradientTile& t,
                   const AttentionScore& score, const Roles& r, const Work& w, const Parameters& p, u32 wg)
      : o_(o),
        t_(t),
        score_(score),
        bends_(bends_scores(o, score)),
        r_(r),
        w_(w),
        p_(p),
        sums_(o),
        wg_(wg),
        own_key_(t.shares_keys ? u32(0) : wg * kKeys),
        queries_of_own_(t.shares_keys ? t.bm / t.kConsumers : t.bm),
        queries_(r.queries.consumer()),
        gradients_(r.gradients.consumer()),
        scores_(kKeys, queries_of_own_),
        products_(kKeys, queries_of_own_),
        dK_(kKeys, half_if_shared(o.depth)),
        dV_(kKeys, half_if_shared(o.value_depth)),
        dQ_(sums_.kRows, sums_.columns),
        scale_(p.get<f32>("scale")),
        stage_(0) {
    if (o.deterministic) added_.emplace(*r.added, FirstWait::passes);
    if (o.softcap) {
      const f32 inverse = instruction<"rcp.approx.f32">(p.get<f32>("softcap"));
      of_cap_ = score.function ? inverse : scale_ * inverse;
    }
  }

  void run() {
    store(dK_, RegisterTile<f32>(f32(0), dK_.layout()));
    store(dV_, RegisterTile<f32>(f32(0), dV_.layout()));
    dK_.accumulate(), dV_.accumulate();
    barrier_wait(r_.arrived[0], 0);
    for_(0, w_.group, [&](u32 of_group) {
      const auto steps = [&](u32 from, u32 to, bool hides) {
        for_(from, to, [&](u32 i) { step(of_group, w_.nth_block(t_, i), hides); });
      };
      steps(w_.first, w_.first_whole, true);
      steps(w_.first_whole, w_.end_whole, false);
      if (o_.window) steps(w_.end_whole, w_.end, true);
    });
    finish();
  }

 private:
  // Calls `work` with parts of the tiles of S^T and dP^T, one behind the other.
  template <class Work>
  void each_part(Work&& work) const {
    const int columns = part_columns(bends_);
    for (int column = 0; column < queries_of_own_; column += columns)
      work(TilePart{0, column, kKeys, columns});
  }

  // The author's functions see a part so: with a row for each query, and scaled.
  class AuthorsScores {
   public:
    AuthorsScores(const GradientConsumer& c, const TilePart& part, u32 of_group, u32 block)
        : c_(c), scores_(turned(load<f32>(c.scores_, part) * c.scale_)), at_(place(part, of_group, block)) {}
    RegisterTile<f32> given() const { return turned(c_.score_.function(scores_, at_, c_.p_)); }
    RegisterTile<f32> gradient(const RegisterTile<f32>& slope) const {
      return turned(c_.score_.gradient(turned(slope), scores_, at_, c_.p_));
    }

   private:
    ScorePlace place(const TilePart& part, u32 of_group, u32 block) const {
      u32 query = block * c_.t_.bm + part.col;
      if (c_.t_.shares_keys) query = query + c_.wg_ * c_.queries_of_own_;
      const u32 key = c_.w_.first_key + c_.own_key_;
      const RegisterLayout& layout = scores_.layout();
      return {c_.w_.batch,
              c_.w_.head * c_.w_.group + of_group,
              query,
              key,
              astype<s32>(row_index(layout.reduced_rows()) + query),
              astype<s32>(col_index(layout) + key)};
    }

    const GradientConsumer& c_;
    RegisterTile<f32> scores_;
    ScorePlace at_;
  };

  // It loads what a row of `numbers` has for the queries of a part.
  RegisterTile<f32> of_queries(const TilePart& part, const TileView& numbers) const {
    const TileView own = t_.shares_keys ? numbers.cols(wg_ * queries_of_own_ + part.col, part.cols)
                                        : numbers.cols(part.col, part.cols);
    return load<f32>(own, wgmma_layout(kKeys, part.cols).reduced_cols());
  }
  // Weights of a part of the scores, to which `shift` is added as powers of two; 0 where a query does not see
  // a key.
  RegisterTile<f32> weights(const TilePart& part, const RegisterTile<f32>& scores,
                            const RegisterTile<f32>& shift, u32 block, bool hides) const {
    const RegisterLayout& layout = scores.layout();
    RegisterTile<f32> p = exp2(fma(scores, exponent(), broadcast(shift, layout)), Approx::yes);
    if (!hides) return p;
    const RegisterTile<s32> key = astype<s32>(row_index(layout) + (w_.first_key + own_key_));
    RegisterTile<pred> sees = key < s32(w_.keys);
    if (w_.visible || w_.hidden) {
      // The limits have what a thread adds to its rows and columns: the rest is constants, which take no
      // registers.
      const RegisterTile<s32> ahead =
          RegisterTile<s32>::of(layout, [&](int i) { return s32(layout.row(0, i) - layout.col(0, i)); });
      u32 query = block * t_.bm + part.col;
      if (t_.shares_keys) query = query + wg_ * queries_of_own_;
      const s32 from = s32(query) + astype<s32>(col_index(layout)).value(0) - key.value(0);
      if (w_.visible) sees = sees & (ahead < from + *w_.visible);
      if (w_.hidden) sees = sees & (ahead >= from + *w_.hidden);
    }
    return select(sees, p, f32(0));
  }
  // This makes powers of two of the scores.
  f32 exponent() const {
    if (o_.softcap) return p_.get<f32>("softcap") * kLog2E;
    return score_.function ? f32(kLog2E) : scale_ * kLog2E;
  }
  // The weights of a part are multiplied by this for dS^T.
  RegisterTile<f32> rises(const TilePart& part, const RegisterTile<f32>& sums) const {
    return load<f32>(products_, part) - broadcast(sums, wgmma_layout(kKeys, part.cols));
  }

  // P^T in place of S^T.
  void weigh(u32 block, const TileView& powers, bool hides) {
    each_part([&](const TilePart& part) {
      const RegisterTile<f32> shift = -of_queries(part, powers);
      store(scores_, weights(part, load<f32>(scores_, part), shift, block, hides), part);
    });
  }
  // dS^T in place of dP^T.
  void take_slopes(const TileView& sums) {
    each_part([&](const TilePart& part) {
      const RegisterTile<f32> sum = of_queries(part, sums);
      store(products_, load<f32>(scores_, part) * rises(part, sum), part);
    });
  }
  // P^T and dS^T, as what they are multiplied by takes them.
  struct Factors {
    RegisterTile<T> p, ds;
  };
  Factors factors(u32 block, const Stage& q, const Stage& g, bool hides) {
    wgmma_wait(1);
    weigh(block, r_.powers[q.index()], hides);
    wgmma_wait(0);
    take_slopes(r_.sums[g.index()]);
    const RegisterTile<T> p = astype<T>(load<f32>(scores_));
    return {p, astype<T>(load<f32>(products_))};
  }
  // These are the same where scores are the author's, or s becomes softcap tanh(s / softcap): part by part
  // when both products are there, since derivatives take what scores were, and registers have no room for
  // that of all.
  Factors bent_factors(u32 of_group, u32 block, const Stage& q, const Stage& g, bool hides) {
    wgmma_wait(0);
    const TileView powers = r_.powers[q.index()], sums = r_.sums[g.index()];
    std::vector<u32> p_words, ds_words;
    const auto add = [](std::vector<u32>& words, const RegisterTile<f32>& x) {
      std::ranges::copy(astype<T>(x).registers(), std::back_inserter(words));
    };
    each_part([&](const TilePart& part) {
      std::optional<AuthorsScores> authors;
      if (score_.function) authors.emplace(*this, part, of_group, block);
      RegisterTile<f32> x = authors ? authors->given() : load<f32>(scores_, part);
      if (o_.softcap) x = tanh(x * *of_cap_, Approx::yes);
      const RegisterTile<f32> p = weights(part, x, -of_queries(part, powers), block, hides);
      RegisterTile<f32> slope = p * rises(part, of_queries(part, sums));
      add(p_words, p);
      if (o_.softcap) slope = slope * (f32(1) - x * x);
      add(ds_words, authors ? authors->gradient(slope) : slope);
    });
    const RegisterLayout layout = scores_.layout();
    return {RegisterTile<T>::of_registers(layout, p_words), RegisterTile<T>::of_registers(layout, ds_words)};
  }

  void step(u32 of_group, u32 block, bool hides) {
    const Stage q = queries_.wait();
    scores_.zero();
    wgmma_group([&] { mma(scores_, own_keys(r_.K), own_queries(r_.Q, q)); });
    const Stage g = gradients_.wait();
    products_.zero();
    wgmma_group([&] { mma(products_, own_keys(r_.V), own_queries(r_.dO, g)); });
    const Factors factor = bends_ ? bent_factors(of_group, block, q, g, hides) : factors(block, q, g, hides);
    if (t_.shares_keys) return multiply_shared(of_group, block, q, g, factor);
    std::optional<TileView> exchange;
    const auto give_slopes = [&] {
      exchange = r_.dS[stage_.value()];
      store(exchange->rows(own_key_, kKeys), factor.ds);
    };
    // This stands ahead of the product, under which ptxas would else keep slopes that are not narrow yet, and
    // spill.
    if (bends_) give_slopes();
    wgmma_group([&] { mma(dV_, factor.p, r_.dO[g.index()].transposed()); });
    if (!bends_) give_slopes();
    fence_proxy_async<Space::shared>();
    r_.exchanged.sync();
    dQ_.zero();
    wgmma_group([&] { multiply_queries(*exchange); });
    wgmma_group([&] { mma(dK_, factor.ds, r_.Q[q.index()].transposed()); });
    wgmma_wait(1);
    gradients_.release(g);
    add_queries(of_group, block);
    wgmma_wait(0);
    queries_.release(q);
    stage_ = 1 - stage_.value();
  }

  // It multiplies P and dS, which both have left, by this consumer's half of the columns.
  void multiply_shared(u32 of_group, u32 block, const Stage& q, const Stage& g, const Factors& factor) {
    const TileView P = (*r_.P)[stage_.value()], dS = r_.dS[stage_.value()];
    store(P.cols(wg_ * queries_of_own_, queries_of_own_), factor.p);
    store(dS.cols(wg_ * queries_of_own_, queries_of_own_), factor.ds);
    fence_proxy_async<Space::shared>();
    r_.exchanged.sync();
    wgmma_group([&] { mma(dV_, P, half(r_.dO[g.index()]).transposed()); });
    dQ_.zero();
    wgmma_group([&] { mma(dQ_, dS.transposed(), half(r_.K[0]).transposed()); });
    wgmma_group([&] { mma(dK_, dS, half(r_.Q[q.index()]).transposed()); });
    wgmma_wait(2);
    gradients_.release(g);
    wgmma_wait(1);
    add_queries(of_group, block);
    wgmma_wait(0);
    queries_.release(q);
    stage_ = 1 - stage_.value();
  }

  // This consumer has these parts of tiles: of keys and queries for S^T and dP^T, and of columns.
  TileView own_keys(const SharedTile& keys) const {
    const TileView all = keys[0];
    return t_.shares_keys ? all : all.rows(own_key_, kKeys);
  }
  TileView own_queries(const SharedTile& queries, const Stage& stage) const {
    const TileView all = queries[stage.index()];
    return t_.shares_keys ? all.rows(wg_ * queries_of_own_, queries_of_own_) : all;
  }
  int half_if_shared(int columns) const { return t_.shares_keys ? columns / t_.kConsumers : columns; }
  TileView half(const TileView& all) const {
    const int columns = half_if_shared(all.whole().cols());
    return all.cols(wg_ * columns, columns);
  }

  // This consumer's part of dS K.
  void multiply_queries(const TileView& ds) {
    const TileView K = r_.K[0];
    if (sums_.are_columns)
      mma(dQ_, ds.transposed(), K.cols(wg_ * t_.kPart, t_.kPart).transposed());
    else
      mma(dQ_, ds.cols(wg_ * t_.kPart, t_.kPart).transposed(), K.transposed());
  }

  // This is what the block of keys adds to dQ's sums, in the order of the registers.
  void add_queries(u32 of_group, u32 block) {
    for (int piece = 0; piece < sums_.pieces(); ++piece) {
      if (added_) {
        added_->wait(0);
      } else {
        cp_async_bulk_wait_group_read(0);
        sync_warpgroup();
      }
      store(r_.dQ[wg_], sums_.to_memory(load<f32>(dQ_), piece));
      fence_proxy_async<Space::shared>();
      sync_warpgroup();
      elect([&] {
        if (added_) return mbarrier_arrive((*r_.summed)[0]);
        add_piece(o_, t_, r_, p_, w_.first_block(t_, of_group) + block, wg_, piece);
        cp_async_bulk_commit_group();
      });
    }
  }

  // dK and dV leave through the places of K and V, which nobody reads any more when all consumers have come.
  void finish() {
    r_.exchanged.sync();
    const TileView key = result(r_.K), value = result(r_.V);
    const u32 first_key = w_.first_key + own_key_;
    store(key, astype<T>(load<f32>(dK_) * scale_));
    store(value, astype<T>(load<f32>(dV_)));
    if (o_.packed) {  // row by row, since a box would reach into the next sequence
      sync_warpgroup();
      const PackedHeads to = {w_.head, w_.row_of_key(first_key), w_.key_row + w_.keys};
      to.store(p_, "dK", load<T>(key), first_column(dK_)),
          to.store(p_, "dV", load<T>(value), first_column(dV_));
      return;
    }
    fence_proxy_async<Space::shared>();
    sync_warpgroup();
    elect([&] {
      tma_store(p_.get<TensorMap>("dK"), key, first_column(dK_), first_key, w_.head, w_.batch);
      tma_store(p_.get<TensorMap>("dV"), value, first_column(dV_), first_key, w_.head, w_.batch);
      cp_async_bulk_commit_group();
    });
    cp_async_bulk_wait_group(0);
  }

  // This consumer's keys, or columns, of a result leave here.
  TileView result(const SharedTile& tile) const { return t_.shares_keys ? half(tile[0]) : own_keys(tile); }
  u32 first_column(const Accumulator& result) const { return t_.shares_keys ? wg_ * result.n() : u32(0); }

  const AttentionGradientOperation& o_;
  const AttentionGradientTile& t_;
  const AttentionScore& score_;
  bool bends_;
  const Roles& r_;
  const Work& w_;
  const Parameters& p_;
  GradientFragments sums_;
  u32 wg_, own_key_;    // its number, and its first key in the block
  int queries_of_own_;  // of a block, of whose scores it makes weights
  Consumer queries_, gradients_;
  Accumulator scores_, products_, dK_, dV_, dQ_;  // S^T, dP^T
  f32 scale_;
  std::optional<f32> of_cap_;    // the scale over the softcap
  Var<u32> stage_;               // of dS
  std::optional<Phases> added_;  // if the sums of dQ are taken in turns
};

}  // namespace

Kernel attention_gradient(const AttentionGradientOperation& o, const AttentionGradientTile& t,
                          const AttentionScore& score, Where where) {
  check(o, t, where);
  if (score.function && !score.gradient)
    throw Error(
        where,
        "attention_gradient: a score of the author's without a gradient; give AttentionScore::gradient, "
        "as AttentionScore::gradient_passes where the function adds to scores or hides keys");
  Kernel k("attention_gradient");
  const Parameters p = declare(k, o, score, where);
  k.grid("ceil_div(keys, " + std::to_string(t.bn()) + ")", "extent(K, 2)",
         o.packed ? "batches" : "extent(K, 3)");
  k.configure("tile", text(t));
  if (t.overlaps) k.overlaps();
  const Roles r(k, o, t, bends_scores(o, score));
  if (o.packed) griddepcontrol_wait();  // since offsets are read
  const Work w(o, t, p);
  const auto where_it_exists = [&](const std::function<void()>& work) {
    o.packed ? if_(w.exists(), work) : work();
  };
  k.warpgroups(1, 24, [&](u32) {
    elect([&] {
      griddepcontrol_wait();
      where_it_exists([&] { produce(t, r, w, p); });
      griddepcontrol_launch_dependents();
    });
    if (o.deterministic)
      if_((warp_index() == 1) & (laneid() == 0), [&] {
        griddepcontrol_wait();
        where_it_exists([&] { add_in_turns(o, t, r, w, p); });
      });
  });
  k.warpgroups(t.kConsumers, 240, [&](u32 wg) {
    griddepcontrol_wait();
    where_it_exists([&] {
      if (o.type == DType::f16)
        GradientConsumer<f16>(o, t, score, r, w, p, wg).run();
      else
        GradientConsumer<bf16>(o, t, score, r, w, p, wg).run();
    });
  });
  return k;
}

}  // namespace ptxbuilder::kernels

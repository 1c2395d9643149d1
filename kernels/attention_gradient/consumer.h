// Implements a consumer of attention's backward pass, which computes the weights and slopes for its keys or
// queries, and multiplies them.
#pragma once

#include "kernels/attention/dropout.h"
#include "kernels/attention/kernel.h"
#include "kernels/attention_gradient/producer.h"
#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/registers/memory.h"

namespace ptxbuilder::kernels {

// Returns the transposed tile. It has the same registers, but a layout in which rows are columns.
inline RegisterTile<f32> turned(const RegisterTile<f32>& x) {
  const RegisterLayout& layout = x.layout();
  const TileExtent extent = {layout.cols(), layout.rows()};
  const Layout turn = make_layout({layout.cols(), layout.rows()}, {layout.rows(), 1});
  return RegisterTile<f32>::of(
      RegisterLayout(extent, composition(turn, layout.thread_value()), "transposed " + layout.describe()),
      [&](int i) { return x.value(i); });
}

template <class T>
class GradientConsumer {
 public:
  GradientConsumer(const AttentionGradientOperation& o, const AttentionGradientTile& t,
                   const AttentionScore& score, const GradientRoles& r, const GradientWork& w,
                   const Parameters& p, u32 wg)
      : o_(o),
        t_(t),
        score_(score),
        bends_(bends_scores(o, score)),
        r_(r),
        w_(w),
        p_(p),
        sums_(o, t),
        wg_(wg),
        own_key_(t.shares_keys ? u32(0) : wg * kKeys),
        queries_of_own_(t.shares_keys ? t.bm / t.kConsumers : t.bm),
        queries_(r.queries.consumer()),
        gradients_(r.gradients.consumer()),
        scores_(kKeys, queries_of_own_),
        products_(kKeys, queries_of_own_),
        dK_(kKeys, half_if_shared(o.depth)),
        dV_(kKeys, half_if_shared(o.value_depth)),
        dQ_(sums_.layout().rows(), sums_.layout().cols()),
        scale_(p.get<f32>("scale")),
        stage_(0),
        last_block_(0),
        has_last_(pred(false)) {
    if (r.slopes) given_slopes_.emplace(r.slopes->producer()), slopes_.emplace(r.slopes->consumer());
    if (r.taken) taken_.emplace(*r.taken, FirstWait::passes);
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
    begin_slopes();
    for_(0, w_.group, [&](u32 of_group) {
      dropout_.reset();
      if (o_.dropout) dropout_.emplace(p_, w_.batch, w_.head_of_queries(of_group));
      const auto steps = [&](u32 from, u32 to, bool hides) {
        for_(from, to, [&](u32 i) { step(of_group, w_.nth_block(t_, i), hides); });
      };
      steps(w_.first, w_.first_whole, true);
      steps(w_.first_whole, w_.end_whole, false);
      if (o_.window) steps(w_.end_whole, w_.end, true);
    });
    end_slopes();
    finish();
  }

 private:
  static constexpr int kKeys = AttentionGradientTile::kConsumerKeys;
  static constexpr float kLog2E = 1.4426950408889634f;

  // Calls `work` for each part of the tiles of S^T and dP^T, one after the other.
  template <class Work>
  void each_part(Work&& work) const {
    const int columns = part_columns(t_, bends_);
    for (int column = 0; column < queries_of_own_; column += columns)
      work(TilePart{0, column, kKeys, columns});
  }

  // Returns the first query of a part of block `block`, counted in the sequence.
  u32 first_query(const TilePart& part, u32 block) const {
    const u32 query = block * t_.bm + part.col;
    return t_.shares_keys ? query + wg_ * queries_of_own_ : query;
  }
  u32 first_key() const { return w_.first_key + own_key_; }

  // Calls the user's functions for a part. The functions receive scaled scores, with a row for each query.
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
      const u32 query = c_.first_query(part, block), key = c_.first_key();
      const RegisterLayout& layout = scores_.layout();
      return {c_.w_.batch,
              c_.w_.head_of_queries(of_group),
              query,
              key,
              astype<s32>(row_index(layout.reduced_rows()) + query),
              astype<s32>(col_index(layout) + key)};
    }

    const GradientConsumer& c_;
    RegisterTile<f32> scores_;
    ScorePlace at_;
  };

  TileView powers(const Stage& q) const { return r_.numbers[q.index()].cols(0, t_.bm); }
  TileView sums(const Stage& q) const { return r_.numbers[q.index()].cols(t_.bm, t_.bm); }
  // Loads the numbers for the queries of a part.
  RegisterTile<f32> of_queries(const TilePart& part, const TileView& numbers) const {
    const TileView own = t_.shares_keys ? numbers.cols(wg_ * queries_of_own_ + part.col, part.cols)
                                        : numbers.cols(part.col, part.cols);
    return load<f32>(own, wgmma_layout(kKeys, part.cols).reduced_cols());
  }
  // Returns the weights for a part of the scores. `shift` is added to the exponents of two. A weight is 0 if
  // its query does not see its key.
  RegisterTile<f32> weights(const TilePart& part, const RegisterTile<f32>& scores,
                            const RegisterTile<f32>& shift, u32 block, bool hides) const {
    const RegisterLayout& layout = scores.layout();
    RegisterTile<f32> p = exp2(fma(scores, exponent(), broadcast(shift, layout)), Approx::yes);
    if (!hides) return p;
    const RegisterTile<s32> key = astype<s32>(row_index(layout) + first_key());
    RegisterTile<pred> sees = key < s32(w_.keys);
    if (w_.visible || w_.window_start) {
      // The row and column offsets of the thread are folded into the limits. The remaining offsets are
      // constants and need no registers.
      const RegisterTile<s32> ahead =
          RegisterTile<s32>::of(layout, [&](int i) { return s32(layout.row(0, i) - layout.col(0, i)); });
      const s32 from = s32(first_query(part, block)) + astype<s32>(col_index(layout)).value(0) - key.value(0);
      if (w_.visible) sees = sees & (ahead < from + *w_.visible);
      if (w_.window_start) sees = sees & (ahead >= from + *w_.window_start);
    }
    return select(sees, p, f32(0));
  }
  // Returns the factor that turns the scores passed to weights() into exponents of two.
  f32 exponent() const {
    if (o_.softcap) return p_.get<f32>("softcap") * kLog2E;
    return score_.function ? f32(kLog2E) : scale_ * kLog2E;
  }
  // Returns the factors by which the weights of a part are multiplied to obtain dS^T. For dropped weights,
  // the products dP^T are replaced with 0.
  RegisterTile<f32> rises(const TilePart& part, const RegisterTile<f32>& sums,
                          const std::optional<KeptWeights>& kept = {}) const {
    RegisterTile<f32> x = load<f32>(products_, part);
    if (kept) x = kept->keep(x * dropout_->factor(), part);
    return x - broadcast(sums, x.layout());
  }

  // Returns a function that returns the numbers for the queries of a part. All numbers are loaded here,
  // before the wait for products, unless they would occupy too many registers.
  std::function<RegisterTile<f32>(const TilePart&)> numbers(const TileView& of) const {
    if (queries_of_own_ > 80) return [=, this](const TilePart& part) { return of_queries(part, of); };
    std::vector<RegisterTile<f32>> all;
    each_part([&](const TilePart& part) { all.push_back(of_queries(part, of)); });
    return [all](const TilePart& part) { return all[static_cast<size_t>(part.col / part.cols)]; };
  }
  // P^T and dS^T, in the type and the layout in which they are multiplied.
  struct Factors {
    RegisterTile<T> p, ds;
  };
  // Computes P^T and dS^T in the registers of S^T and dP^T.
  Factors factors(u32 block, const Stage& q, bool hides) {
    const auto power = numbers(powers(q));
    wgmma_wait(1);
    each_part([&](const TilePart& part) {
      store(scores_, weights(part, load<f32>(scores_, part), -power(part), block, hides), part);
    });
    const auto sum = numbers(sums(q));
    wgmma_wait(0);
    each_part([&](const TilePart& part) {
      store(products_, load<f32>(scores_, part) * rises(part, sum(part)), part);
    });
    const RegisterTile<T> p = astype<T>(load<f32>(scores_));
    return {p, astype<T>(load<f32>(products_))};
  }
  // Computes P^T and dS^T if there is a user's function for scores, a softcap or dropout. Derivatives need
  // the original scores, and registers cannot hold all of them in addition, so the computation proceeds part
  // by part after both products are complete.
  Factors bent_factors(u32 of_group, u32 block, const Stage& q, bool hides) {
    std::optional<KeptWeights> kept;  // the kept weights are determined during the products
    if (dropout_) {
      const TilePart all = {0, 0, kKeys, queries_of_own_};
      kept = dropout_->kept(scores_.layout(), first_query(all, block), first_key(), true);
    }
    wgmma_wait(0);
    const TileView powers = this->powers(q), sums = this->sums(q);
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
      RegisterTile<f32> slope = p * rises(part, of_queries(part, sums), kept);
      add(p_words, kept ? kept->keep(p, part) : p);
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
    const Factors factor = bends_ ? bent_factors(of_group, block, q, hides) : factors(block, q, hides);
    const u32 block_of_all = w_.first_block(t_, of_group) + block;
    if (t_.shares_keys)
      multiply_shared(block_of_all, q, g, factor);
    else
      multiply(block_of_all, q, g, factor);
  }

  // Adds the products of P and dS to dV and dK, and multiplies the dS of both consumers for the previous
  // block to obtain the addends of dQ. The previous dS were stored long ago, so neither consumer waits for
  // the other, and one multiplies while the other computes weights.
  void multiply(u32 block, const Stage& q, const Stage& g, const Factors& factor) {
    // Rounds and stores dS before the product if unrounded slopes would occupy registers that the product
    // needs.
    const bool gives_first = bends_ || t_.bm == 80;
    if (gives_first) give_slopes(factor.ds);
    wgmma_group([&] { mma(dV_, factor.p, r_.dO[g.index()].transposed()); });
    if (!gives_first) give_slopes(factor.ds);
    const Stage last = slopes_->wait();
    multiply_queries(last);
    wgmma_group([&] { mma(dK_, factor.ds, r_.Q[q.index()].transposed()); });
    wgmma_wait(1);
    gradients_.release(g);
    slopes_->release(last);
    if_(has_last_, [&] { add_queries(last_block_); });
    wgmma_wait(0);
    release_queries(q);
    last_block_ = block, has_last_ = pred(true);
  }
  void give_slopes(const RegisterTile<T>& ds) {
    const Stage s = given_slopes_->acquire();
    store(r_.dS[s].cols(own_key_, kKeys).transposed(), ds);
    given_slopes_->commit(s);
  }
  // Stores zeros as the dS of a block before the first. The product for dQ thus needs no condition, which
  // ptxas would not allow while other products run.
  void begin_slopes() {
    if (given_slopes_) give_slopes(RegisterTile<T>(T(f32(0)), scores_.layout()));
  }
  void end_slopes() {
    if (slopes_)
      if_(has_last_, [&] {
        const Stage last = slopes_->wait();
        multiply_queries(last);
        wgmma_wait(0);
        slopes_->release(last);
        add_queries(last_block_);
      });
  }

  // Stores this consumer's P and dS, and multiplies the P and dS of both consumers by this consumer's half of
  // the columns.
  void multiply_shared(u32 block, const Stage& q, const Stage& g, const Factors& factor) {
    const TileView P = (*r_.P)[stage_.value()], dS = r_.dS[stage_.value()];
    const u32 own = wg_ * queries_of_own_;
    store(P.rows(own, queries_of_own_).transposed(), factor.p);
    store(dS.rows(own, queries_of_own_).transposed(), factor.ds);
    fence_proxy_async<Space::shared>();
    r_.exchanged.sync();
    wgmma_group([&] { mma(dV_, P.transposed(), half(r_.dO[g.index()]).transposed()); });
    dQ_.zero();
    wgmma_group([&] { mma(dQ_, dS, half(r_.K[0]).transposed()); });
    wgmma_group([&] { mma(dK_, dS.transposed(), half(r_.Q[q.index()]).transposed()); });
    wgmma_wait(2);
    gradients_.release(g);
    wgmma_wait(1);
    add_queries(block);
    wgmma_wait(0);
    release_queries(q);
    stage_ = 1 - stage_.value();
  }

  // Releases a stage of Q after all lanes of the warp have read their numbers from it.
  void release_queries(const Stage& q) {
    bar_warp_sync(0xffffffff);
    queries_.release(q);
  }

  // These functions return this consumer's parts. own_keys() and own_queries() return those of S^T and dP^T,
  // and half() those of columns.
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

  // Computes this consumer's part of the addends of dQ, which is dS K or, if the sums are transposed, K^T
  // dS^T.
  void multiply_queries(const Stage& slopes) {
    const TileView dS = r_.dS[slopes.index()], K = r_.K[0];
    const u32 own = wg_ * t_.kPart;
    dQ_.zero();
    wgmma_group([&] {
      if (sums_.are_transposed)
        mma(dQ_, K.cols(own, t_.kPart).transposed(), dS);
      else if (sums_.are_columns)
        mma(dQ_, dS, K.cols(own, t_.kPart).transposed());
      else
        mma(dQ_, dS.rows(own, t_.kPart), K.transposed());
    });
  }

  // Adds the products of this block of keys to the sums of dQ, or passes them to the warp that adds.
  void add_queries(u32 block) {
    if (!r_.dQ) return add_registers(block);
    for (int piece = 0; piece < sums_.pieces(); ++piece) {
      taken_->wait(wg_);
      store((*r_.dQ)[wg_], sums_.to_memory(load<f32>(dQ_), piece));
      fence_proxy_async<Space::shared>();
      bar_warp_sync(0xffffffff);
      mbarrier_arrive.when(laneid() == 0)((*r_.left)[wg_]);
    }
  }
  void add_registers(u32 block) {
    const RegisterTile<f32> x = load<f32>(dQ_);
    const gptr<f32> to = p_.get<gptr<f32>>("dq") + u64(block * t_.kConsumers + wg_) * u64(sums_.elements()) +
                         u64(tid_x() % 128 * 4);
    for (int i = 0; i < x.count(); i += 4)
      instruction<"red.relaxed.gpu.global.add.v4.f32">(
          to + u64(i / 4 * sums_.kStep),
          std::array<f32, 4>{x.value(i), x.value(i + 1), x.value(i + 2), x.value(i + 3)});
  }

  // Stores dK and dV through the shared memory of K and V, which is free once both consumers have arrived.
  void finish() {
    if (r_.divided) return add_up();
    r_.exchanged.sync();
    const TileView key = result(r_.K), value = result(r_.V);
    store(key, astype<T>(load<f32>(dK_) * scale_));
    store(value, astype<T>(grown(load<f32>(dV_))));
    if (o_.packed) {  // stored row by row, since a box could extend into the next sequence
      sync_warpgroup();
      const PackedHeads to = {w_.head, w_.row_of_key(w_.first_key + own_key_), w_.key_row + w_.keys};
      to.store(p_, "dK", load<T>(key), first_column(dK_)),
          to.store(p_, "dV", load<T>(value), first_column(dV_));
      return;
    }
    store_results(key, first_column(dK_), value, first_column(dV_));
  }
  // Adds up dK and dV over the CTAs that divide a group, and stores the results. The sums are exchanged
  // through the shared memory of K and V and that of Q and dO.
  void add_up() {
    const DividedGroup& divided = *r_.divided;
    const RegisterTile<f32> dK = divided.dK.add(dK_, r_.K[0].address()),
                            dV = divided.dV.add(dV_, r_.Q[0].address());
    const TileView key = divided.out[0].rows(own_key_, kKeys), value = divided.out[1].rows(own_key_, kKeys);
    store(key, astype<T>(dK * scale_)), store(value, astype<T>(grown(dV)));
    store_results(key, divided.dK.first_column(), value, divided.dV.first_column());
  }
  // Returns dV times the factor of kept weights, which is applied here once instead of to each weight.
  RegisterTile<f32> grown(const RegisterTile<f32>& dV) const {
    return o_.dropout ? dV * Dropout::factor(p_) : dV;
  }
  void store_results(const TileView& key, u32 key_column, const TileView& value, u32 value_column) {
    fence_proxy_async<Space::shared>();
    sync_warpgroup();
    const u32 first_key = w_.first_key + own_key_;
    elect([&] {
      tma_store(p_.get<TensorMap>("dK"), key, key_column, first_key, w_.head, w_.batch);
      tma_store(p_.get<TensorMap>("dV"), value, value_column, first_key, w_.head, w_.batch);
      cp_async_bulk_commit_group();
    });
    cp_async_bulk_wait_group(0);
  }

  // Returns the part of a tile through which this consumer stores its rows, or its columns, of a result.
  TileView result(const SharedTile& tile) const { return t_.shares_keys ? half(tile[0]) : own_keys(tile); }
  u32 first_column(const Accumulator& result) const { return t_.shares_keys ? wg_ * result.n() : u32(0); }

  const AttentionGradientOperation& o_;
  const AttentionGradientTile& t_;
  const AttentionScore& score_;
  bool bends_;
  const GradientRoles& r_;
  const GradientWork& w_;
  const Parameters& p_;
  GradientFragments sums_;
  u32 wg_, own_key_;    // number of this consumer; its first key in the block
  int queries_of_own_;  // queries of a block for which this consumer computes weights
  Consumer queries_, gradients_;
  Accumulator scores_, products_, dK_, dV_, dQ_;  // scores_ holds S^T, and products_ holds dP^T
  f32 scale_;
  std::optional<f32> of_cap_;       // factor of the scores divided by the softcap
  std::optional<Dropout> dropout_;  // dropout of the current query head
  Var<u32> stage_;                  // stage of P and dS, if consumers share keys
  // Used if consumers do not share keys. given_slopes_ stores this consumer's dS, and slopes_ reads the dS of
  // both consumers. The latter belong to the previous block (`last_block_`), if there was one.
  std::optional<Producer> given_slopes_;
  std::optional<Consumer> slopes_;
  Var<u32> last_block_;
  Var<pred> has_last_;
  std::optional<Phases> taken_;  // signals that stored addends of dQ have been read
};

}  // namespace ptxbuilder::kernels

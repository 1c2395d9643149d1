// Implements a consumer of attention, which is a warpgroup that processes 64 queries. For each block of keys,
// it computes the scores and their softmax, and adds up the weighted values.
#pragma once

#include "kernels/attention/block.h"
#include "kernels/attention/dropout.h"
#include "kernels/attention/log_sum.h"
#include "kernels/attention/parts.h"
#include "kernels/attention/roles.h"
#include "kernels/attention/softmax.h"
#include "kernels/attention/transposer.h"
#include "kernels/attention/work.h"
#include "ptxbuilder/ir/global_tensor.h"
#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/region_chain.h"

namespace ptxbuilder::kernels {

// `T` is the type of O, and `W` is the type of weights and values.
template <class T, class W>
class AttentionConsumer {
 public:
  AttentionConsumer(const AttentionOperation& o, const AttentionTile& t, const AttentionScore& score,
                    const AttentionRoles& roles, const AttentionSizes& sizes, const Parameters& p, u32 wg)
      : o_(o),
        t_(t),
        score_(score),
        roles_(roles),
        sizes_(sizes),
        p_(p),
        wg_(wg),
        loaded_(roles.loaded),
        place_(t.query_places > 1 ? wg + t.consumers : wg),
        keys_(roles.keys.consumer(t.persistent ? Peeks::yes : Peeks::no)),
        values_(roles.values.consumer()),
        scores_(kConsumerRows, t.bn),
        sums_(kConsumerRows, o.value_depth),
        scale_(p.get<f32>("scale")),
        softmax_(scores_.layout(), exponents(), t.lazy, o.e4m3_products),
        shrink_(RegisterTile<f32>(f32(1), by_row())),
        leaving_(values_.none()) {
    if (roles.turns) turn_ = roles.turns->of(wg);
    if (t.split) parts_.emplace(o.value_depth, sizes, p.get<gptr<f32>>("part_sums"));
    if (o.head_scales()) head_scale_.emplace(f32(1)), value_scale_.emplace(f32(1));
    // An instruction cannot use more registers than a thread has when the kernel starts. With four
    // warpgroups, this limit is 128.
    if (o.e4m3_products && o.value_depth > 128) sums_.set_wgmma_columns(o.value_depth / 2);
    if (o.promotes) promoted_.emplace(kConsumerRows, o.value_depth), keys_in_sums_.emplace(u32(0));
  }

  // Computes the scores of the first block to be processed, and their softmax. If given, `product` issues the
  // last product of the previous queries, which then runs during the softmax.
  void begin(const AttentionWork& w, const std::function<void()>& product = nullptr) {
    if (t_.query_places > 1)
      place_ = select(place_ < t_.consumers, place_ + t_.consumers, place_ - t_.consumers);
    if (o_.head_scales()) {
      const u32 i = min(w.head / sizes_.group, p_.template get<u32>("scales") - 1);
      const auto scale = [&](const char* name) { return f32(p_.template get<gptr<f32>>(name)[i]); };
      *head_scale_ =
          least_scale(scale_ * (o_.e4m3_products ? scale("q_scale") * scale("k_scale") : scale("k_scale")));
      *value_scale_ = scale("v_scale");
    }
    region("wait for queries", [&] { loaded_.wait(place_); });
    const Stage key = region("products", [&] {
      const Stage next = next_keys();
      multiply_keys(next);
      if (product) product();
      if (turn_ && !t_.late_turns) turn_->pass();
      return next;
    });
    std::optional<KeptWeights> kept;
    if (o_.dropout)
      kept = kept_weights(dropout_of(w), w, KeyBlocks(t_, w).at(0));  // computed during the products
    region("scores", [&] { wgmma_wait(product ? 1 : 0); });
    keys_.release(key);
    const KeyBlocks blocks(t_, w);
    free_queries(blocks.count() == 1);
    const bool hides = !t_.whole_blocks;
    region("softmax", [&] {
      const RegisterTile<f32> scores = scores_of(w, blocks.at(0), hides);
      softmax_.begin(scores, sinks_of(w, head_scales()));
      keep_weights(scores, hides, kept);
    });
    shrink_ = RegisterTile<f32>(f32(1), by_row());
  }

  // Processes the other blocks, and stores O. `begin_next` must call begin() for the next queries, if there
  // are any, and pass it the function that it receives; otherwise it must call this function itself.
  void finish(const AttentionWork& w, const std::function<void(const std::function<void()>&)>& begin_next) {
    const KeyBlocks blocks(t_, w);
    if (t_.stays()) keys_.unify(), values_.unify();
    if (t_.query_places > 1) place_ = warp_uniform(place_);
    clear(sums_);
    if (promoted_) clear(*promoted_), *keys_in_sums_ = u32(0);
    if (o_.lengths) clear_behind(w, blocks);
    const std::optional<Dropout> dropout = dropout_of(w);
    const auto steps = [&](u32 from, u32 to, bool hides) {
      RegionChain chain;
      for_(from, to,
           [&](u32 i) { step(w, blocks.at(i), i == 1, i == blocks.count() - 1, hides, dropout, chain); });
    };
    const auto [from, to] = blocks.unmasked();
    if (o_.hides_last_keys()) steps(1, from, true);
    steps(from, to, false);
    if (o_.window || blocks.ascending) steps(to, blocks.count(), true);

    region("sums", [] { wgmma_wait(0); });
    const RegisterTile<W> weights = region("products", [&] {
      if (t_.lazy) shrink_sums();
      return rounded_weights();
    });
    const Partial<f32, Reduction::add> total = softmax_.total();
    const RegisterTile<f32> most = softmax_.most();
    const HeadScales scales = head_scales();
    free_place(blocks.count() == 1);  // if there was only one block, no step has freed the place
    begin_next([&] { multiply_values(weights, blocks.count() == 1); });
    const auto wait = [&] {
      region("sums", [] { wgmma_wait(0); });
      values_.release_last(pred(false));
      take_place();
    };
    // The condition keeps ptxas from waiting for the sums before the softmax of begin_next.
    if_(
        row_of(w) < w.queries,
        [&] {
          wait();
          region("store", [&] {
            const RegisterTile<f32> all = complete(total);
            const auto store_all = [&] {
              store_rows(w, o_.sinks ? with_sinks(all, most, *sinks_of(w, scales), scales) : all, most,
                         dropout, scales);
            };
            if (!parts_) return store_all();
            if_(w.part->count == 1, store_all, [&] { store_parts(w, all, most, scales); });
          });
        },
        wait);
    if (t_.split) {  // wait until O has been copied out of the queries' memory, and then free this memory
      cp_async_bulk_wait_group_read(0);
      bar_warp_sync(0xffffffff);
      free_place_of_queries(pred(true));
    }
  }

  // Must be called after the last queries.
  void end() {
    free_place(pred(true));
    if (!t_.stays() || roles_.O) cp_async_bulk_wait_group_read(0);
  }

 private:
  static constexpr float kLog2E = 1.4426950408889634f;

  // Returns the first row of this warpgroup.
  u32 row_of(const AttentionWork& w) const { return w.row + wg_ * kConsumerRows; }

  // Frees the memory of the queries. Must be called after the last product of the current queries.
  void free_queries(pred now) {
    if (t_.persistent) free_place_of_queries(now);
  }
  void free_place_of_queries(pred now) {
    mbarrier_arrive.when((laneid() == 0) & now)(roles_.multiplied[place_]);
  }

  // Releases the memory through which the previous O was stored. This function is called once products run,
  // so that they hide the time of the store. The code must be free of branches, since ptxas would wait for
  // the products at a branch (C7512).
  void free_place(pred now) {
    if (!t_.lends(o_)) return;
    cp_async_bulk_wait_group_read(0);
    bar_warp_sync(0xffffffff);  // the lane that has stored may not be the lane that returns the memory
    if (t_.places() == 1)
      values_.release(leaving_, now);
    else
      values_.give_back(leaving_, now);
  }

  // Selects the memory through which O is stored. This is memory that belongs to O, the memory of the queries
  // or, if the next queries already occupy the latter, a stage of values that the producer lends.
  void take_place() {
    if (roles_.O && t_.persistent) {  // wait until the store of the previous O has finished reading
      cp_async_bulk_wait_group_read(0);
      sync_warpgroup();
    }
    if (!t_.lends(o_)) return;
    const u32 before = t_.places() == 1 ? u32(0) : wg_;
    values_.skip(before);
    const Stage stage = values_.wait();
    leaving_ = stage;
    values_.skip(t_.places() - 1 - before);
  }
  TileView place() const {
    if (roles_.O) return (*roles_.O)[wg_];
    if (!t_.persistent) return roles_.Q[wg_].cols(0, o_.value_depth);
    return roles_.V[leaving_.value()].rows(t_.places() == 1 ? wg_ * kConsumerRows : u32(0), kConsumerRows);
  }

  RegisterLayout layout() const { return scores_.layout(); }
  RegisterLayout by_row() const { return layout().reduced_rows(); }

  // Returns the factor that multiplies the current head's products of Q and K.
  f32 scale() const { return head_scale_ ? head_scale_->value() : scale_; }
  // Returns a factor that is safe for the softmax. The softmax multiplies -inf by this factor, and assumes
  // that the largest product has the largest score. Therefore 0 is replaced with a tiny positive number. A
  // negative factor is replaced with NaN, so that all rows become NaN.
  static f32 least_scale(f32 scale) {
    constexpr float kLeast = 0x1p-100F;
    return select(scale < f32(0), f32(NAN), select(scale < f32(kLeast), f32(kLeast), scale));
  }
  // Returns the factor that turns the input of the softmax into exponents of two.
  f32 exponent() const {
    if (o_.softcap) return p_.template get<f32>("softcap") * kLog2E;
    return score_.function ? f32(kLog2E) : scale() * kLog2E;
  }
  // Returns a function that returns exponent(). If heads have scales, the returned function computes the
  // value anew at each call.
  std::function<f32()> exponents() const {
    if (o_.head_scales()) return [this] { return exponent(); };
    return [e = exponent()] { return e; };
  }

  // A copy of a head's factors, since begin() replaces the members with the factors of the next head.
  struct HeadScales {
    f32 exponent;
    std::optional<f32> values;
  };
  HeadScales head_scales() const {
    return {softmax_.scale(), value_scale_ ? std::optional(value_scale_->value()) : std::nullopt};
  }

  // Returns the scores of block j. If `hides`, the scores of keys that a query does not see are -inf.
  RegisterTile<f32> scores_of(const AttentionWork& w, u32 j, bool hides) const {
    RegisterTile<f32> all = load<f32>(scores_);
    const s32 block = s32(j * t_.bn);
    const RegisterTile<s32> row = astype<s32>((row_index(by_row()) + row_of(w)) / u32(o_.heads_in_rows)),
                            column = astype<s32>(col_index(layout()));
    if (score_.function) {
      const u32 batch = min(w.batch, sizes_.batches - 1);  // the work of idle CTAs is beyond the last batch
      all = score_.function(all * scale(), {batch, w.head, row_of(w), u32(block), row, column + block}, p_);
    }
    if (o_.softcap) {  // tanh.approx is accurate to 11 bits
      const f32 cap = p_.template get<f32>("softcap");
      all = tanh(all * (score_.function ? f32(1) / cap : scale() / cap), Approx::yes);
    }
    if (!hides) return all;
    return hide_keys(all, w, block, row, column);
  }

  // Returns the sinks of a consumer's rows, divided by the scale of the scores that the softmax receives.
  std::optional<RegisterTile<f32>> sinks_of(const AttentionWork& w, const HeadScales& scales) const {
    if (!o_.sinks) return std::nullopt;
    return sinks_of(w, row_index(by_row()), scales);
  }
  RegisterTile<f32> sinks_of(const AttentionWork& w, const RegisterTile<u32>& row,
                             const HeadScales& scales) const {
    const u32 in_rows = o_.heads_in_rows;
    const f32 scale = f32(kLog2E) / scales.exponent;
    return RegisterTile<f32>::of(row.layout(), [&](int i) {
      return f32(p_.template get<gptr<f32>>("sinks")[w.head * in_rows + row.value(i) % in_rows]) * scale;
    });
  }
  RegisterTile<f32> with_sinks(const RegisterTile<f32>& total, const RegisterTile<f32>& most,
                               const RegisterTile<f32>& sinks, const HeadScales& scales) const {
    return total + softmax_.of_sinks(most, sinks, scales.exponent);
  }
  std::optional<Dropout> dropout_of(const AttentionWork& w) const {
    return o_.dropout ? std::optional<Dropout>({p_, w.batch, w.head}) : std::nullopt;
  }

  std::optional<KeptWeights> kept_weights(const std::optional<Dropout>& dropout, const AttentionWork& w,
                                          u32 j) const {
    if (!dropout) return std::nullopt;
    return dropout->kept(layout(), row_of(w), j * t_.bn, false);
  }

  // Replaces the scores with weights. Dropped weights are 0.
  void keep_weights(const RegisterTile<f32>& scores, bool hides, const std::optional<KeptWeights>& kept) {
    if (turn_ && t_.late_turns) turn_->pass_after(softmax_.most().value(0) > f32(0));
    const RegisterTile<f32> weights = softmax_.weights(scores, hides || score_.function);
    store(scores_, kept ? kept->keep(weights) : weights);
  }

  // Waits for the next keys, and for this warpgroup's turn to multiply. The waits for keys and values are not
  // profiler regions, because the data has usually arrived, and two more branches per step would cost more
  // than the waits.
  Stage next_keys() {
    const Stage key = keys_.wait();
    if (turn_) wait_region("turn", [&] { turn_->wait(); });
    return key;
  }
  void multiply_keys(const Stage& key) {
    scores_.zero();
    const TileView Q = roles_.Q[place_], K = roles_.K[key.index()];
    wgmma_group([&] { mma(scores_, Q, K); });
  }
  // Rescales the sums. Must be called while no product runs.
  void shrink_sums() {
    rescale(sums_, shrink_.value());
    if (promoted_) rescale(*promoted_, shrink_.value());
  }
  void multiply_sums(const RegisterTile<f32>& by) {
    store(sums_, load<f32>(sums_) * by);
    if (promoted_) store(*promoted_, load<f32>(*promoted_) * by);
  }
  static void clear(Accumulator& sums) { store(sums, RegisterTile<f32>(f32(0), sums.layout())); }
  // If the sums cover enough keys, adds them to f32 sums and resets them to zero, because tensor cores add up
  // e4m3 products with only about 14 bits. Must be called while no product runs.
  void promote_sums() {
    if (!promoted_) return;
    if_(keys_in_sums_->value() >= p_.template get<u32>("promote"), [&] {
      store(*promoted_, all_sums());
      clear(sums_);
      *keys_in_sums_ = u32(0);
    });
  }
  RegisterTile<f32> all_sums() const {
    const RegisterTile<f32> sums = load<f32>(sums_);
    return promoted_ ? sums + load<f32>(*promoted_) : sums;
  }
  // Returns the weights in the type and the layout that the product with the values requires.
  RegisterTile<W> rounded_weights() const {
    const RegisterTile<f32> weights = load<f32>(scores_);
    return astype<W>(o_.e4m3_products ? in_transposed_order(weights) : weights);
  }
  // Multiplies a block's weights by its values, and adds the products to the sums.
  void multiply_values(const RegisterTile<W>& weights, pred first) {
    if (!t_.lazy) multiply_sums(shrink_.value());
    const Stage value = values_.wait();
    values_.release_previous(value, first);
    if (promoted_) *keys_in_sums_ += t_.bn;
    const TileView V = roles_.V[value.index()];
    wgmma_group([&] { mma(sums_, weights, o_.e4m3_products ? V : V.transposed()); });
  }

  // Computes the scores of block j and their softmax, and multiplies the weights of the previous block by its
  // values. The latter product runs during the softmax, and the next step waits for it.
  void step(const AttentionWork& w, u32 j, pred first, pred last, bool hides,
            const std::optional<Dropout>& dropout, RegionChain& chain) {
    const Stage key = chain.region("products", [&] {
      wgmma_wait(0);  // waits for the sums
      if (t_.lazy) shrink_sums();
      promote_sums();
      const RegisterTile<W> weights = rounded_weights();
      const Stage next = next_keys();
      multiply_keys(next);
      const bool early =
          t_.lends(o_) && t_.places() == t_.value_stages();  // the next values need this memory
      if (early) free_place(first);
      multiply_values(weights, first);
      if (turn_ && !t_.late_turns) turn_->pass();
      if (!early) free_place(first);
      return next;
    });
    const auto kept = kept_weights(dropout, w, j);
    region("scores", [] { wgmma_wait(1); });
    keys_.release(key);
    free_queries(last);
    chain.region("softmax", [&] {
      const RegisterTile<f32> scores = scores_of(w, j, hides);
      shrink_ = softmax_.add(scores, hides || score_.function);
      keep_weights(scores, hides, kept);
    });
    if (t_.persistent)
      keys_.peek();  // other tiles have fewer stages, so that keys have rarely arrived by now
  }

  void store_rows(const AttentionWork& w, const RegisterTile<f32>& total, const RegisterTile<f32>& most,
                  const std::optional<Dropout>& dropout, const HeadScales& scales) {
    // The logarithms are stored before O, since ptxas would otherwise spill a register.
    if (o_.lse) store_log_sum(o_, sizes_, p_, w, row_of(w), softmax_.log_sum(most, total, scales.exponent));
    f32 factor = scales.values.value_or(f32(1));
    if (dropout) factor = factor * dropout->factor();
    const RegisterTile<f32> one(factor, total.layout());
    const RegisterTile<f32> inverse = select(total == f32(0), f32(0), divide(one, total, Approx::yes));
    const TileView out = place();
    store(out, astype<T>(all_sums() * inverse));
    send(w, out);
  }
  // Stores O from shared memory, which holds all rows of the warpgroup.
  void send(const AttentionWork& w, const TileView& out) {
    if (o_.packed) {
      sync_warpgroup();
      store_rows_of_sequence<T>(o_, p_, out, row_of(w), w);
      if (t_.stays())
        fence_proxy_async<Space::shared>();  // TMA will load values or queries into this memory next
      return sync_warpgroup();
    }
    fence_proxy_async<Space::shared>();
    sync_warpgroup();
    elect([&] {
      const TensorMap O = p_.template get<TensorMap>("O");
      store_rows_of_heads(o_, O, out, 0, row_of(w), w);
      cp_async_bulk_commit_group();
    });
  }

  // Stores the sums for this CTA's part of the keys. The CTA with the last part completes O.
  void store_parts(const AttentionWork& w, const RegisterTile<f32>& total, const RegisterTile<f32>& most,
                   const HeadScales& scales) {
    parts_->give(w, most, total, sums_);
    if_(w.part->number == w.part->count - 1, [&] {
      const TileView out = place();
      parts_->complete(w, scales.exponent, [&](u32 first, const AttentionParts::Sums& sums) {
        const RegisterTile<u32> row = row_index(sums.total.layout()) + first;
        const RegisterTile<f32> all =
            o_.sinks ? with_sinks(sums.total, sums.most, sinks_of(w, row, scales), scales) : sums.total;
        if (o_.lse)
          store_log_sum_of_heads(o_, sizes_, p_, w, w.row + first,
                                 softmax_.log_sum(sums.most, all, scales.exponent),
                                 [&](u32 of_some) { return parts_->is_first_of(of_some); });
        const RegisterTile<f32> one(scales.values.value_or(f32(1)), all.layout());
        const RegisterTile<f32> inverse = select(all == f32(0), f32(0), divide(one, all, Approx::yes));
        store(out.rows(first, parts_->rows_at_once()), astype<T>(sums.values * inverse));
      });
      send(w, out);
    });
  }

  // Clears the values after the last key, in the block that is processed first. They may hold anything, and a
  // weight of 0 times NaN is NaN.
  void clear_behind(const AttentionWork& w, const KeyBlocks& blocks) {
    const u32 first = blocks.at(0) * t_.bn, keys = max(w.keys, first) - first;
    if_(keys < t_.bn, [&] {
      clear_from<T>(roles_.V[values_.front().index()], keys);
      fence_proxy_async<Space::shared>();
      sync_warpgroup();
    });
  }

  const AttentionOperation& o_;
  const AttentionTile& t_;
  const AttentionScore& score_;
  const AttentionRoles& roles_;
  const AttentionSizes& sizes_;
  const Parameters& p_;
  u32 wg_;
  Phases loaded_;
  Var<u32> place_;  // the stage of Q that holds this warpgroup's queries
  Consumer keys_, values_;
  std::optional<WarpgroupTurn> turn_;
  Accumulator scores_, sums_;             // after the softmax, scores_ holds the weights
  std::optional<Accumulator> promoted_;   // f32 sums over all keys except the most recent ones
  std::optional<Var<u32>> keys_in_sums_;  // number of keys since the last promotion
  f32 scale_;
  // set if heads have scales: the factors of the current head's scores and values
  std::optional<Var<f32>> head_scale_, value_scale_;
  Softmax softmax_;
  std::optional<AttentionParts> parts_;
  Var<RegisterTile<f32>> shrink_;  // factor that must multiply the sums before the next weights are used
  Var<Stage> leaving_;             // the lent stage through which O is stored, until it is returned
};

}  // namespace ptxbuilder::kernels

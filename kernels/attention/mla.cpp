#include "kernels/attention/mla.h"

#include <cmath>

#include "kernels/attention/block.h"
#include "kernels/attention/log_sum.h"
#include "kernels/attention/parts.h"
#include "kernels/attention/producer.h"
#include "kernels/attention/schedule.h"
#include "kernels/attention/softmax.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/tile/named_barrier.h"
#include "ptxbuilder/tile/profile.h"

namespace ptxbuilder::kernels {
namespace {

constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;
constexpr float kLog2E = 1.4426950408889634f;

// A block of keys comes in pieces of columns, each with a ring of its own, so that a piece is loaded again as
// soon as it is no longer needed: the halves of the latent columns, and the rotary ones.
enum Piece : int { kHalves = kLatentConsumers, kRotary = kHalves, kPieces };
// Pieces are loaded and multiplied in the order in which they become free.
constexpr std::array kOrder = {int{kRotary}, 0, 1};

struct PieceRing {
  PieceRing(Kernel& k, const AttentionOperation& o, const AttentionTile& t, int piece)
      : first(piece == kRotary ? o.value_depth : piece * (o.value_depth / kHalves)),
        columns(piece == kRotary ? o.depth - o.value_depth : o.value_depth / kHalves),
        tile(k.shared(o.type, {t.bn, columns}, Swizzle128B, t.stages, "K")),
        ring(k, t.stages, {tile}, kLatentConsumers) {}

  int first, columns;  // of the keys
  SharedTile tile;
  Pipeline ring;
};

struct LatentRoles {
  LatentRoles(Kernel& k, const AttentionOperation& o, const AttentionTile& t)
      : Q(k.shared(o.type, {kConsumerRows, o.depth}, Swizzle128B, 1, "Q")),
        weights(k.shared(o.type, {kConsumerRows, t.bn}, Swizzle128B, 1, "weights")),
        numbers(k.shared<f32>({1 + kLatentConsumers, kConsumerRows}, Swizzle::none, 1, "numbers of rows")),
        loaded(k, {1}, {"queries"}),
        multiplied(k, {4 * kLatentConsumers}, {"queries multiplied"}),
        passed(k, std::vector<int>(kLatentConsumers, 4), {"weights"}),
        all(k.named_barrier(128 * kLatentConsumers)),
        pieces{PieceRing{k, o, t, 0}, PieceRing{k, o, t, 1}, PieceRing{k, o, t, kRotary}} {}

  SharedTile Q;        // O is stored through it
  SharedTile weights;  // of one block
  // The references of the softmax with which the weights were computed, and what each consumer has summed.
  SharedTile numbers;
  Barriers loaded, multiplied;  // the queries are loaded; they are no longer needed
  Barriers passed;              // each consumer has passed the weights of its block
  NamedBarrier all;             // of all consumers
  std::array<PieceRing, kPieces> pieces;

  sptr<f32> number(int which) const { return sptr<f32>(numbers[0].address()) + which * kConsumerRows; }
};

template <class T>
class LatentConsumer {
 public:
  LatentConsumer(const AttentionOperation& o, const AttentionTile& t, const LatentRoles& roles,
                 const AttentionSizes& sizes, const Parameters& p, int number)
      : o_(o),
        t_(t),
        roles_(roles),
        sizes_(sizes),
        p_(p),
        number_(number),
        columns_(roles.pieces[0].columns),
        loaded_(roles.loaded),
        passed_(roles.passed),
        rings_{roles.pieces[0].ring.consumer(), roles.pieces[1].ring.consumer(),
               roles.pieces[kRotary].ring.consumer()},
        scores_(kConsumerRows, t.bn),
        sums_(kConsumerRows, columns_),
        exponent_(p.get<f32>("scale") * kLog2E),
        softmax_(scores_.layout(), exponent_, t.lazy),
        parts_(number == 0 ? first_parts() : AttentionParts(columns_, sizes, first_parts().end())) {}

  // Multiplies all blocks of keys, and stores this consumer's columns of O. The first consumer has the blocks
  // 0, 2, ..., and the second one the others.
  void run(const AttentionWork& w) {
    const KeyBlocks blocks(t_, w);
    const u32 count = blocks.count();
    for (Consumer& ring : rings_) ring.unify();
    region("wait for queries", [&] { loaded_.wait(0); });
    store(sums_, RegisterTile<f32>(f32(0), sums_.layout()));
    softmax_.clear();
    if (number_ == 0) {
      take_first(w, blocks);
      for_(2, count, 2, [&](u32 i) { take_after_other(w, blocks.at(i)); });
    } else {
      for_(1, count, 2, [&](u32 i) { take_before_other(w, blocks.at(i)); });
    }
    if_((count & 1) == u32(number_), [&] {  // the last block is the other's
      rescale(sums_, wait_for_other());
      const Stage stage = multiply_other();
      wgmma_wait(0);
      give_back(stage);
    });
    finish(w);
  }

 private:
  AttentionParts first_parts() const { return {columns_, sizes_, p_.get<gptr<f32>>("part_sums")}; }
  RegisterLayout by_row() const { return scores_.layout().reduced_rows(); }
  Consumer& own() { return rings_[static_cast<size_t>(number_)]; }
  TileView values(const Stage& stage) const {
    return roles_.pieces[static_cast<size_t>(number_)].tile[stage.index()];
  }
  // Only one consumer needs a piece last, and gives it back for both.
  void give_back(const Stage& stage) { own().give_back(stage, pred(true)); }

  // Issues the products of the queries and the next block. Returns the stages of this consumer's own columns
  // of the values, and of the rotary columns.
  std::pair<Stage, Stage> multiply_keys() {
    std::optional<Stage> values, rotary;
    scores_.zero();
    for (const int piece : kOrder) {
      const PieceRing& of = roles_.pieces[static_cast<size_t>(piece)];
      Consumer& ring = rings_[static_cast<size_t>(piece)];
      const bool keeps = piece == number_ || piece == kRotary;
      const Stage stage = region("wait for keys", [&] { return keeps ? ring.wait() : ring.front(); });
      const TileView Q = roles_.Q[0].cols(of.first, of.columns), K = of.tile[stage.index()];
      wgmma_group([&] { mma(scores_, Q, K); });
      if (!keeps) ring.skip(1);
      if (piece == number_) values = stage;
      if (piece == kRotary) rotary = stage;
    }
    return {*values, *rotary};
  }

  // Waits for the weights of the other's block. Returns the factor of what was summed before.
  RegisterTile<f32> wait_for_other() {
    region("wait for weights", [&] { passed_.wait(1 - number_); });
    const sptr<f32> from = roles_.number(0);
    const RegisterTile<u32> row = row_index(by_row());
    return softmax_.follow(RegisterTile<f32>::of(by_row(), [&](int i) { return f32(from[row.value(i)]); }));
  }
  // Issues the product of these weights and the values. Returns the stage of the values.
  Stage multiply_other() {
    for (const int piece : kOrder)
      if (piece != number_) rings_[static_cast<size_t>(piece)].skip(1);
    const Stage stage = own().wait();
    const TileView weights = roles_.weights[0], V = values(stage);
    wgmma_group([&] { mma(sums_, weights, V.transposed()); });
    return stage;
  }

  // Computes the weights of the own block of keys, from its scores, and passes them to the other. All weights
  // that were passed before have been multiplied. Returns the weights and the factor of what was summed.
  std::pair<RegisterTile<T>, RegisterTile<f32>> weights(const AttentionWork& w, u32 block,
                                                        const std::function<void()>& wait) {
    const RegisterTile<s32> row = astype<s32>((row_index(by_row()) + w.row) / u32(o_.heads_in_rows)),
                            column = astype<s32>(col_index(scores_.layout()));
    const RegisterTile<f32> scores = hide_keys(load<f32>(scores_), w, s32(block * t_.bn), row, column);
    const RegisterTile<f32> shrink = softmax_.add(scores, true);
    const RegisterTile<T> weights = astype<T>(softmax_.weights(scores, true));
    wait();
    sync_warpgroup();  // before, warps may still read the other's weights and references
    store(roles_.weights[0], weights);
    store_numbers(0, softmax_.most());
    fence_proxy_async<Space::shared>();
    bar_warp_sync(0xffffffff);
    mbarrier_arrive.when(laneid() == 0)(roles_.passed[number_]);
    return {weights, shrink};
  }
  void store_numbers(int which, const RegisterTile<f32>& numbers) const {
    const sptr<f32> to = roles_.number(which);
    const RegisterTile<u32> row = row_index(by_row());
    for (int i = 0; i < row.count(); ++i)
      if_(laneid() % 4 == 0, [&] { to[row.value(i)] = numbers.value(i); });
  }

  // Adds the product of the own weights and the values.
  void add_own(const RegisterTile<T>& weights, const RegisterTile<f32>& shrink, const Stage& stage) {
    region("products", [&] {
      rescale(sums_, shrink);
      const TileView V = values(stage);
      wgmma_group([&] { mma(sums_, weights, V.transposed()); });
      wgmma_wait(0);
    });
    give_back(stage);
  }

  void take_first(const AttentionWork& w, const KeyBlocks& blocks) {
    const auto [stage, rotary] = multiply_keys();
    wgmma_wait(0);
    rings_[kRotary].give_back(rotary, pred(true));
    // No value after the last key may be NaN, in either half.
    const u32 first = blocks.at(0) * t_.bn, keys = max(w.keys, first) - first;
    if_(keys < t_.bn, [&] {
      for (int half = 0; half < kHalves; ++half)
        clear_from<T>(roles_.pieces[static_cast<size_t>(half)].tile[stage.index()], keys);
      fence_proxy_async<Space::shared>();
    });
    const auto [own, shrink] = weights(w, blocks.at(0), [] {});
    add_own(own, shrink, stage);
  }

  // The first consumer multiplies the other's weights ahead of its own scores, whose keys arrive meanwhile.
  void take_after_other(const AttentionWork& w, u32 block) {
    rescale(sums_, wait_for_other());
    const Stage other = multiply_other();
    const auto [stage, rotary] = multiply_keys();
    wgmma_wait(kPieces);
    give_back(other);
    region("scores", [] { wgmma_wait(0); });
    rings_[kRotary].give_back(rotary, pred(true));
    const auto [own, shrink] = region("softmax", [&] { return weights(w, block, [] {}); });
    add_own(own, shrink, stage);
  }

  // The second consumer multiplies the first one's weights under its own softmax.
  void take_before_other(const AttentionWork& w, u32 block) {
    for (const int piece : kOrder)
      if (piece != number_) rings_[static_cast<size_t>(piece)].skip(1);
    const Stage other = own().wait();
    const auto [stage, rotary] = multiply_keys();
    const RegisterTile<f32> shrink_before = wait_for_other();
    store(sums_, load<f32>(sums_) * shrink_before);  // no branch, at which ptxas would wait for the scores
    const TileView passed = roles_.weights[0], V = values(other);
    wgmma_group([&] { mma(sums_, passed, V.transposed()); });
    region("scores", [] { wgmma_wait(1); });
    rings_[kRotary].give_back(rotary, pred(true));
    const auto [own, shrink] = region("softmax", [&] {
      return weights(w, block, [&] {
        wgmma_wait(0);
        give_back(other);
      });
    });
    add_own(own, shrink, stage);
  }

  void finish(const AttentionWork& w) {
    store_numbers(1 + number_, complete(softmax_.total()));
    roles_.all.sync();  // after that, no one multiplies the queries
    const RegisterTile<u32> row = row_index(by_row());
    const RegisterTile<f32> total = RegisterTile<f32>::of(by_row(), [&](int i) {
      return f32(roles_.number(1)[row.value(i)]) + f32(roles_.number(2)[row.value(i)]);
    });
    const RegisterTile<f32> most = softmax_.most();
    region("store", [&] {
      if_(
          w.part->count == 1,
          [&] {
            if (o_.lse && number_ == 0)
              store_log_sum(o_, sizes_, p_, w, w.row, softmax_.log_sum(most, total));
            store(place(), astype<T>(load<f32>(sums_) * inverse_of(total)));
            send(w);
          },
          [&] { store_parts(w, most, total); });
    });
    cp_async_bulk_wait_group_read(0);
    bar_warp_sync(0xffffffff);
    mbarrier_arrive.when(laneid() == 0)(roles_.multiplied[0]);
  }
  TileView place() const { return roles_.Q[0].cols(number_ * columns_, columns_); }
  static RegisterTile<f32> inverse_of(const RegisterTile<f32>& total) {
    const RegisterTile<f32> one(f32(1), total.layout());
    return select(total == f32(0), f32(0), divide(one, total, Approx::yes));
  }
  void send(const AttentionWork& w) const {
    fence_proxy_async<Space::shared>();
    sync_warpgroup();
    elect([&] {
      store_rows_of_heads(o_, p_.get<TensorMap>("O"), place(), number_ * columns_, w.row, w);
      cp_async_bulk_commit_group();
    });
  }
  void store_parts(const AttentionWork& w, const RegisterTile<f32>& most, const RegisterTile<f32>& total) {
    parts_.give(w, most, total, sums_);
    if_(w.part->number == w.part->count - 1, [&] {
      parts_.complete(w, exponent_, [&](u32 first, const AttentionParts::Sums& sums) {
        if (o_.lse && number_ == 0)
          store_log_sum_of_heads(o_, sizes_, p_, w, w.row + first, softmax_.log_sum(sums.most, sums.total),
                                 [&](u32 row) { return parts_.is_first_of(row); });
        store(place().rows(first, parts_.rows_at_once()), astype<T>(sums.values * inverse_of(sums.total)));
      });
      send(w);
    });
  }

  const AttentionOperation& o_;
  const AttentionTile& t_;
  const LatentRoles& roles_;
  const AttentionSizes& sizes_;
  const Parameters& p_;
  int number_, columns_;
  Phases loaded_, passed_;
  std::array<Consumer, kPieces> rings_;
  Accumulator scores_, sums_;
  f32 exponent_;
  Softmax softmax_;
  AttentionParts parts_;
};

}  // namespace

void add_latent_roles(Kernel& k, const AttentionOperation& o, const AttentionTile& t,
                      const AttentionSizes& sizes, const std::optional<WorkQueue>& queue,
                      const Parameters& p) {
  const LatentRoles roles(k, o, t);
  k.warpgroups(1, kProducerRegisters, [&](u32) {
    name_role("producer");
    const auto each = [&](const std::function<void(const AttentionWork&)>& body) {
      griddepcontrol_wait();
      AttentionSchedule(t, sizes, queue, pred(true)).each([&](u32, const AttentionWork& w) { body(w); });
    };
    elect([&] {
      const BlockLoader blocks(o, t, sizes, p);
      const TensorMap K = p.get<TensorMap>("K");
      std::array<Producer, kPieces> rings = {roles.pieces[0].ring.producer(), roles.pieces[1].ring.producer(),
                                             roles.pieces[kRotary].ring.producer()};
      each([&](const AttentionWork& w) {
        const KeyBlocks all(t, w);
        for_(0, all.count(), [&](u32 i) {
          for (const int piece : kOrder) {
            const PieceRing& of = roles.pieces[static_cast<size_t>(piece)];
            const Stage to = region("wait", [&] { return rings[static_cast<size_t>(piece)].acquire(); });
            region("load", [&] { blocks.load(of.tile[to], K, of.first, w, all.at(i)); });
          }
        });
      });
      griddepcontrol_launch_dependents();  // after its loads, which the next launch's loads would slow down
    });
    if_(warp_index() == 1, [&] {
      griddepcontrol_wait();
      AttentionSchedule(t, sizes, queue, pred(false)).announce();
    });
    if_((warp_index() == 2) & (laneid() == 0), [&] {
      QueryLoader queries(o, t, roles.Q, roles.loaded, roles.multiplied, sizes, p);
      each([&](const AttentionWork& w) { queries.load(w); });
    });
  });
  const auto consume = [&]<class T>(std::type_identity<T>, int number) {
    k.warpgroups(1, kConsumerRegisters, [&](u32) {
      name_role("consumer");
      griddepcontrol_wait();
      LatentConsumer<T> consumer(o, t, roles, sizes, p, number);
      AttentionSchedule(t, sizes, queue, laneid() == 0).each([&](u32, const AttentionWork& w) {
        consumer.run(w);
      });
    });
  };
  for (int number = 0; number < kLatentConsumers; ++number) {
    if (o.type == DType::f16)
      consume(std::type_identity<f16>(), number);
    else
      consume(std::type_identity<bf16>(), number);
  }
}

}  // namespace ptxbuilder::kernels

#include "kernels/attention/mla.h"

#include <cmath>

#include "kernels/attention/block.h"
#include "kernels/attention/converter.h"
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

// The number of registers per thread in each role. With a converter, the other roles have fewer.
struct LatentRegisters {
  int producer, consumer, converter;
};
LatentRegisters registers_of(const AttentionOperation& o) {
  return o.converts() ? LatentRegisters{40, 208, 56} : LatentRegisters{40, 232, 0};
}
constexpr float kLog2E = 1.4426950408889634f;

// The columns of a block of keys are divided into three pieces, which are the two halves of the latent
// columns and the rotary columns. Each piece has its own ring, so that its memory is loaded again as soon as
// the piece is no longer needed.
enum Piece : int { kHalves = kLatentConsumers, kRotary = kHalves, kPieces };
// The order in which pieces are loaded and multiplied. It is the order in which their memory becomes free.
constexpr std::array kOrder = {int{kRotary}, 0, 1};

struct PieceTile {
  PieceTile(Kernel& k, const AttentionOperation& o, const AttentionTile& t, int piece)
      : first(piece == kRotary ? o.value_depth : piece * (o.value_depth / kHalves)),
        columns(piece == kRotary ? o.depth - o.value_depth : o.value_depth / kHalves),
        tile(k.shared(o.type, {t.bn, columns}, Swizzle128B, stages_of(t, piece), "K")) {}

  int first, columns;  // columns of the keys
  SharedTile tile;

 private:
  // Returns the number of stages. Rotary columns are loaded together with the rows of bytes, so they need
  // additional stages while these rows wait for conversion.
  static int stages_of(const AttentionTile& t, int piece) {
    return piece == kRotary ? t.stages + t.cache_stages : t.stages;
  }
};

// A ring for blocks of rows of bytes, without the rotary columns.
struct ByteRows {
  ByteRows(Kernel& k, const AttentionTile& t)
      : values(k.shared(DType::e4m3, {t.bn, LatentRow::kValues}, Swizzle128B, t.cache_stages, "K of e4m3")),
        scales(k.shared(DType::f32, {t.bn, LatentRow::kScales}, SwizzleNone, t.cache_stages, "scales of K")),
        ring(k, t.cache_stages, {values, scales}, 1) {}

  SharedTile values, scales;
  Pipeline ring;
};

struct LatentRoles {
  LatentRoles(Kernel& k, const AttentionOperation& o, const AttentionTile& t)
      : weights(k.shared(o.type, {kConsumerRows, t.bn}, widest_swizzle(t.bn), 1, "weights")),
        Q(k.shared(o.type, {kConsumerRows, o.depth}, Swizzle128B, 1, "Q")),
        pieces{PieceTile{k, o, t, 0}, PieceTile{k, o, t, 1}, PieceTile{k, o, t, kRotary}},
        numbers(k.shared<f32>({1 + kLatentConsumers, kConsumerRows}, Swizzle::none, 1, "numbers of rows")),
        loaded(k, {1}, {"queries"}),
        multiplied(k, {4 * kLatentConsumers}, {"queries multiplied"}),
        passed(k, std::vector<int>(kLatentConsumers, 4), {"weights"}),
        all(k.named_barrier(128 * kLatentConsumers)),
        rings{ring(k, 0, o.converts()), ring(k, 1, o.converts()), ring(k, kRotary, false)} {
    if (o.has_byte_rows()) bytes.emplace(k, t);
  }

  SharedTile weights;  // weights of one block
  SharedTile Q;        // queries; O is also stored through this memory
  std::array<PieceTile, kPieces> pieces;
  // Holds three numbers for each row, which are the softmax reference for which `weights` were computed, and
  // each consumer's sum of weights.
  SharedTile numbers;
  Barriers loaded, multiplied;  // the queries have been loaded; the queries are no longer needed
  Barriers passed;              // for each consumer: it has passed the weights of its block
  NamedBarrier all;             // barrier of both consumers
  std::array<Pipeline, kPieces> rings;
  std::optional<ByteRows> bytes;

  sptr<f32> numbers_of(u32 which) const { return sptr<f32>(numbers[0].address()) + which * kConsumerRows; }

 private:
  Pipeline ring(Kernel& k, size_t piece, bool by_threads) const {
    const SharedTile& tile = pieces[piece].tile;
    return kernels::ring(k, tile.stages(), tile, kLatentConsumers, by_threads);
  }
};

// Converts rows of bytes into both halves of the keys, with a warpgroup, in the order in which TMA loads the
// rows.
class LatentConverter {
 public:
  LatentConverter(const AttentionOperation& o, const LatentRoles& roles)
      : type_(o.type),
        roles_(roles),
        loaded_(roles.bytes->ring.consumer()),
        filled_{roles.rings[0].producer(), roles.rings[1].producer()} {}

  void fill() {
    const Stage from = region("wait for the cache", [&] { return loaded_.wait(); });
    for (size_t half = 0; half < kHalves; ++half) {
      const PieceTile& of = roles_.pieces[half];
      const Stage to = region("wait", [&] { return filled_[half].acquire(); });
      region("convert", [&] {
        convert_block(type_, roles_.bytes->values[from.index()].cols(of.first, of.columns), of.tile[to],
                      [&](int row, const RegisterLayout& layout) {
                        return scales_of(from.index(), row, of.first, layout);
                      });
      });
      filled_[half].commit(to);
    }
    bar_warp_sync(0xffffffff);  // all lanes must have read the stage before one lane releases it
    loaded_.release(from);
  }

 private:
  // Returns the scales for the elements of some rows and columns of a stage, beginning at `first_row` and
  // `column`. The adjacent columns that a thread holds share a scale.
  RegisterTile<f32> scales_of(u32 stage, int first_row, int column, const RegisterLayout& layout) const {
    const sptr<f32> scales(roles_.bytes->scales[stage].address());
    const RegisterTile<u32> rows = row_index(layout), columns = col_index(layout);
    std::optional<f32> scale;
    return RegisterTile<f32>::of(layout, [&](int i) {
      const bool is_new = i == 0 || layout.row(0, i) != layout.row(0, i - 1);
      if (is_new)
        scale = scales[(rows.value(i) + first_row) * LatentRow::kScales +
                       (columns.value(i) + column) / LatentRow::kScaled];
      return *scale;
    });
  }

  DType type_;
  const LatentRoles& roles_;
  Consumer loaded_;
  std::array<Producer, kHalves> filled_;
};

template <class T>
class LatentConsumer {
 public:
  LatentConsumer(const AttentionOperation& o, const AttentionTile& t, const LatentRoles& roles,
                 const AttentionSizes& sizes, const Parameters& p, u32 number)
      : o_(o),
        t_(t),
        roles_(roles),
        sizes_(sizes),
        p_(p),
        number_(number),
        columns_(roles.pieces[0].columns),
        loaded_(roles.loaded),
        passed_(roles.passed),
        rings_{roles.rings[0].consumer(), roles.rings[1].consumer(), roles.rings[kRotary].consumer()},
        scores_(kConsumerRows, t.bn),
        sums_(kConsumerRows, columns_),
        exponent_(p.get<f32>("scale") * kLog2E),
        softmax_(
            scores_.layout(), [e = exponent_] { return e; }, t.lazy),
        parts_(columns_, sizes, p.get<gptr<f32>>("part_sums"), number, kGroupOfParts) {
    // An instruction cannot use more registers than a thread has when the kernel starts. With four
    // warpgroups, this limit is 128.
    if (o.converts()) sums_.set_wgmma_columns(columns_ / 2);
  }

  // Processes all blocks of keys, and stores this consumer's columns of O. Consumer 0 computes the weights of
  // blocks 0, 2 and so on, and consumer 1 those of the other blocks.
  void run(const AttentionWork& w) {
    const KeyBlocks blocks(t_, w);
    const u32 count = blocks.count();
    for (Consumer& ring : rings_) ring.unify();
    region("wait for queries", [&] { loaded_.wait(0); });
    store(sums_, RegisterTile<f32>(f32(0), sums_.layout()));
    softmax_.clear();
    const auto take_last_of_other = [&](int number) {
      rescale(sums_, wait_for_other(number));
      const Stage stage = multiply_other(number);
      region("sums", [] { wgmma_wait(0); });
      give_back(number, stage);
    };
    if_(
        number_ == 0u,
        [&] {
          take_first(w, blocks);
          for_(2, count, 2, [&](u32 i) { take_after_other(w, blocks.at(i)); });
          if_((count & 1) == 0u, [&] { take_last_of_other(0); });
        },
        [&] {
          for_(1, count, 2, [&](u32 i) { take_before_other(w, blocks.at(i)); });
          if_((count & 1) == 1u, [&] { take_last_of_other(1); });
        });
    finish(w);
  }

 private:
  // Functions with a parameter `number` (the consumer's number) are generated once for each consumer.
  Consumer& ring(int piece) { return rings_[static_cast<size_t>(piece)]; }
  TileView keys(int piece, const Stage& stage) const {
    return roles_.pieces[static_cast<size_t>(piece)].tile[stage.index()];
  }
  // Releases a stage for both consumers. The consumer that needs the piece last calls this function.
  void give_back(int piece, const Stage& stage) { ring(piece).give_back(stage, pred(true)); }
  RegisterLayout by_row() const { return scores_.layout().reduced_rows(); }

  // Issues the products of the queries with the next block of keys. Returns the stages of the consumer's own
  // half and of the rotary columns.
  std::pair<Stage, Stage> multiply_queries(int number) {
    std::optional<Stage> half, rotary;
    scores_.zero();
    for (const int piece : kOrder) {
      const PieceTile& of = roles_.pieces[static_cast<size_t>(piece)];
      const bool keeps = piece == number || piece == kRotary;
      const Stage stage =
          region("wait for keys", [&] { return keeps ? ring(piece).wait() : ring(piece).front(); });
      const TileView Q = roles_.Q[0].cols(of.first, of.columns), K = keys(piece, stage);
      wgmma_group([&] { mma(scores_, Q, K); });
      if (!keeps) ring(piece).skip(1);
      if (piece == number) half = stage;
      if (piece == kRotary) rotary = stage;
    }
    return {*half, *rotary};
  }

  // Waits for the weights of the other consumer's block. Returns the factors for the earlier sums.
  RegisterTile<f32> wait_for_other(int number) {
    region("wait for weights", [&] { passed_.wait(1 - number); });
    return softmax_.follow(numbers(0));
  }
  // Consumes the other consumer's block. Returns the stage with this consumer's half of the values; the other
  // pieces are not needed.
  Stage skip_to_other(int number) {
    for (const int piece : kOrder)
      if (piece != number) ring(piece).skip(1);
    return ring(number).wait();
  }
  // Issues the product of the other consumer's weights with this consumer's values.
  void multiply_passed(int number, const Stage& stage) {
    const TileView weights = roles_.weights[0], V = keys(number, stage);
    wgmma_group([&] { mma(sums_, weights, V.transposed()); });
  }
  Stage multiply_other(int number) {
    const Stage stage = skip_to_other(number);
    multiply_passed(number, stage);
    return stage;
  }

  // The weights of a block, and the factors for the earlier sums.
  struct Weights {
    RegisterTile<T> of_values;
    RegisterTile<f32> shrink;
  };
  // Computes the weights of this consumer's block from its scores, and passes them to the other consumer.
  // They overwrite the other consumer's weights, so `wait` must wait until these have been multiplied.
  Weights pass_weights(const AttentionWork& w, u32 block, int number, const std::function<void()>& wait) {
    const RegisterTile<s32> row = astype<s32>((row_index(by_row()) + w.row) / u32(o_.heads_in_rows)),
                            column = astype<s32>(col_index(scores_.layout()));
    const RegisterTile<f32> scores = hide_keys(load<f32>(scores_), w, s32(block * t_.bn), row, column);
    const RegisterTile<f32> shrink = softmax_.add(scores, true);
    const RegisterTile<T> weights = astype<T>(softmax_.weights(scores, true));
    wait();
    bar_warp_sync(0xffffffff);  // a warp reads only its own rows of weights and numbers
    store(roles_.weights[0], weights);
    store_numbers(0, softmax_.most());
    fence_proxy_async<Space::shared>();
    bar_warp_sync(0xffffffff);
    mbarrier_arrive.when(laneid() == 0)(roles_.passed[number]);
    return {weights, shrink};
  }

  // These functions load and store a number for each row (LatentRoles::numbers).
  RegisterTile<f32> numbers(int which) const {
    const RegisterTile<u32> row = row_index(by_row());
    return RegisterTile<f32>::of(by_row(),
                                 [&](int i) { return f32(roles_.numbers_of(which)[row.value(i)]); });
  }
  void store_numbers(u32 which, const RegisterTile<f32>& numbers) const {
    const RegisterTile<u32> row = row_index(by_row());
    for (int i = 0; i < row.count(); ++i)
      if_(laneid() % 4 == 0, [&] { roles_.numbers_of(which)[row.value(i)] = numbers.value(i); });
  }

  // Adds the product of this consumer's weights with its values.
  void add_own(int number, const Weights& weights, const Stage& stage) {
    region("products", [&] {
      rescale(sums_, weights.shrink);
      const TileView V = keys(number, stage);
      wgmma_group([&] { mma(sums_, weights.of_values, V.transposed()); });
      wgmma_wait(0);
    });
    give_back(number, stage);
  }

  void take_first(const AttentionWork& w, const KeyBlocks& blocks) {
    const auto [half, rotary] = multiply_queries(0);
    region("scores", [] { wgmma_wait(0); });
    give_back(kRotary, rotary);
    // The values after the last key are cleared in both halves. This happens before the weights are passed,
    // because the other consumer reads its half after it has received them. The barrier below precedes each
    // thread's fence.
    const u32 first = blocks.at(0) * t_.bn, keys_here = max(w.keys, first) - first;
    if_(keys_here < t_.bn, [&] {
      for (int piece = 0; piece < kHalves; ++piece) clear_from<T>(keys(piece, half), keys_here);
      sync_warpgroup();
    });
    const Weights own = region("softmax", [&] { return pass_weights(w, blocks.at(0), 0, [] {}); });
    add_own(0, own, half);
  }

  // Processes a block in consumer 0, which multiplies the other consumer's weights before it computes its own
  // scores. The keys for these scores arrive in the meantime.
  void take_after_other(const AttentionWork& w, u32 block) {
    rescale(sums_, wait_for_other(0));
    const Stage other = multiply_other(0);
    const auto [half, rotary] = multiply_queries(0);
    region("sums", [] { wgmma_wait(kPieces); });
    give_back(0, other);
    region("scores", [] { wgmma_wait(0); });
    give_back(kRotary, rotary);
    const Weights own = region("softmax", [&] { return pass_weights(w, block, 0, [] {}); });
    add_own(0, own, half);
  }

  // Processes a block in consumer 1, which multiplies the other consumer's weights during its own softmax.
  void take_before_other(const AttentionWork& w, u32 block) {
    const Stage other = skip_to_other(1);
    const auto [half, rotary] = multiply_queries(1);
    const RegisterTile<f32> shrink = wait_for_other(1);
    store(sums_, load<f32>(sums_) * shrink);  // without a branch, at which ptxas would wait for the scores
    multiply_passed(1, other);
    region("scores", [] { wgmma_wait(1); });
    give_back(kRotary, rotary);
    const Weights own = region("softmax", [&] {
      return pass_weights(w, block, 1, [&] {
        wgmma_wait(0);
        give_back(1, other);
      });
    });
    add_own(1, own, half);
  }

  void finish(const AttentionWork& w) {
    store_numbers(number_ + 1, complete(softmax_.total()));
    roles_.all.sync();  // from here on, no product reads the queries
    const RegisterTile<f32> most = softmax_.most(), total = numbers(1) + numbers(2);
    region("store", [&] {
      if_(
          w.part->count == 1,
          [&] {
            if (o_.lse)
              if_(number_ == 0u,
                  [&] { store_log_sum(o_, sizes_, p_, w, w.row, softmax_.log_sum(most, total, exponent_)); });
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
    parts_.add_group(w, exponent_);
    if_(w.part->number == w.part->count - 1, [&] {
      parts_.complete(w, exponent_, [&](u32 first, const AttentionParts::Sums& sums) {
        if (o_.lse)
          store_log_sum_of_heads(o_, sizes_, p_, w, w.row + first,
                                 softmax_.log_sum(sums.most, sums.total, exponent_),
                                 [&](u32 row) { return parts_.is_first_of(row) & (number_ == 0u); });
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
  u32 number_;
  int columns_;  // columns of a half
  Phases loaded_, passed_;
  std::array<Consumer, kPieces> rings_;
  Accumulator scores_, sums_;
  f32 exponent_;
  Softmax softmax_;
  AttentionParts parts_;
};

// A ring that TMA fills. Each tile has a tensor map and a first column.
struct LoadedRing {
  struct Part {
    SharedTile tile;
    TensorMap from;
    int column;
  };
  Producer ring;
  std::vector<Part> parts;
};

// Returns the rings, in the order in which a block is loaded into them.
std::vector<LoadedRing> loaded_rings(const LatentRoles& roles, const Parameters& p) {
  const TensorMap K = p.get<TensorMap>("K");
  std::vector<LoadedRing> all;
  if (roles.bytes) {
    all.push_back(
        {roles.rings[kRotary].producer(), {{roles.pieces[kRotary].tile, p.get<TensorMap>("K_rotary"), 0}}});
    all.push_back({roles.bytes->ring.producer(),
                   {{roles.bytes->values, K, 0}, {roles.bytes->scales, p.get<TensorMap>("K_scales"), 0}}});
    return all;
  }
  for (const int piece : kOrder) {
    const PieceTile& of = roles.pieces[static_cast<size_t>(piece)];
    all.push_back({roles.rings[static_cast<size_t>(piece)].producer(), {{of.tile, K, of.first}}});
  }
  return all;
}

}  // namespace

void add_latent_roles(Kernel& k, const AttentionOperation& o, const AttentionTile& t,
                      const AttentionSizes& sizes, const std::optional<WorkQueue>& queue,
                      const Parameters& p) {
  const LatentRoles roles(k, o, t);
  const LatentRegisters registers = registers_of(o);
  k.warpgroups(1, registers.producer, [&](u32) {
    name_role("producer");
    const auto each = [&](const std::function<void(const AttentionWork&)>& body) {
      griddepcontrol_wait();
      AttentionSchedule(t, sizes, queue, pred(true)).each([&](u32, const AttentionWork& w) { body(w); });
    };
    elect([&] {
      const BlockLoader blocks(o, t, sizes, p);
      std::vector<LoadedRing> loaded = loaded_rings(roles, p);
      each([&](const AttentionWork& w) {
        const KeyBlocks all(t, w);
        for_(0, all.count(), [&](u32 i) {
          for (LoadedRing& one : loaded) {
            const Stage to = region("wait", [&] { return one.ring.acquire(); });
            region("load", [&] {
              for (const LoadedRing::Part& part : one.parts)
                blocks.load(part.tile[to], part.from, part.column, w, all.at(i));
            });
          }
        });
      });
      griddepcontrol_launch_dependents();  // comes after all loads, which the next launch would slow down
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
  if (o.converts())
    k.warpgroups(1, registers.converter, [&](u32) {
      name_role("converter");
      griddepcontrol_wait();
      LatentConverter converter(o, roles);
      AttentionSchedule(t, sizes, queue, laneid() == 0).each([&](u32, const AttentionWork& w) {
        for_(0, KeyBlocks(t, w).count(), [&](u32) { converter.fill(); });
      });
    });
  const auto consume = [&]<class T>(std::type_identity<T>, u32 number) {
    name_role("consumer");
    griddepcontrol_wait();
    LatentConsumer<T> consumer(o, t, roles, sizes, p, number);
    AttentionSchedule(t, sizes, queue, laneid() == 0).each([&](u32, const AttentionWork& w) {
      consumer.run(w);
    });
  };
  k.warpgroups(
      kLatentConsumers, registers.consumer,
      [&](u32 number) {
        if (o.type == DType::f16)
          consume(std::type_identity<f16>(), number);
        else
          consume(std::type_identity<bf16>(), number);
      },
      Kernel::WarpIndex::of_role);
}

}  // namespace ptxbuilder::kernels

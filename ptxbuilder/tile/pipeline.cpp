#include "ptxbuilder/tile/pipeline.h"

#include <fmt/format.h>

#include "ptxbuilder/tile/multicast.h"

namespace ptxbuilder {
namespace {

// One producer arrives at the full barriers, every warp of the consumers at the empty ones.
std::vector<int> arrivals(int stages, int consumers, int peers, Where where) {
  if (stages < 1 || consumers < 1)
    throw Error(where,
                fmt::format("pipeline: {} stages and {} consumers; at least one each", stages, consumers));
  std::vector<int> counts(static_cast<size_t>(2 * stages), 1);
  std::fill(counts.begin() + stages, counts.end(), 4 * consumers * peers);
  return counts;
}

// Those along x and along y of a CTA, itself included.
int ctas_in_line(Kernel& kernel) {
  detail::cluster_size(kernel.builder());
  auto [x, y, z] = kernel.signature().cluster;
  return static_cast<int>(x + y - 1);
}

// A load into a stage brings all its bytes, and only to CTAs that say when they have read the stage before.
void check_stage_view(const TileView& view, int peers, Where where) {
  if (view.condition())
    throw Error(where,
                "tma_load: a view of a pipeline's stage under a condition: where it does not hold, the bytes "
                "that the stage expects would never arrive; put acquire() under it too");
  const ClusterAxes axes = view.multicast_axes();
  if (const int count = detail::ctas_along(axes, where); count > 1 && peers == 1)
    throw Error(where, fmt::format("tma_load: {} CTAs share the load into a stage that the consumers of one "
                                   "alone release; make the pipeline with Producers::cluster",
                                   count));
  if (axes.has(0) && axes.has(1) && detail::ctas_along(ClusterAxis::x, where) > 1 &&
      detail::ctas_along(ClusterAxis::y, where) > 1)
    throw Error(where,
                "tma_load: CTAs along x and y share the load into a pipeline's stage, which those along x or "
                "along y release; share it along one axis");
}

}  // namespace

Pipeline::Pipeline(Kernel& kernel, int stages, std::vector<SharedTile> tiles, int consumers,
                   Producers producers, Where where)
    : stages_(stages),
      peers_(producers == Producers::cluster ? ctas_in_line(kernel) : 1),
      tiles_(std::move(tiles)),
      barriers_(kernel, arrivals(stages, consumers, peers_, where), {"full", "empty"}, where) {
  if (tiles_.empty()) throw Error(where, "pipeline: it needs at least one tile");
  for (const SharedTile& tile : tiles_)
    if (tile.stages() != stages)
      throw Error(
          where, fmt::format("pipeline: {} stages, but a {} has {}", stages, tile.describe(), tile.stages()));
}

uint32_t Pipeline::stage_bytes() const {
  uint32_t bytes = 0;
  for (const SharedTile& tile : tiles_) bytes += static_cast<uint32_t>(tile.stage_bytes());
  return bytes;
}

// The next stage of the ring; its parity turns when the ring starts anew.
void Pipeline::advance(Var<u32>& stage, Var<u32>& parity) const {
  u32 next = stage.value() + 1;
  pred wraps = next == stages_;
  stage = select(wraps, u32(0), next);
  parity = parity.value() ^ u32(wraps);
}

// A barrier never used is in phase 0, and a wait for parity 1 passes: the producer finds every stage empty at
// first.
Producer::Producer(const Pipeline& pipeline) : pipeline_(pipeline), stage_(0), parity_(1) {}

Stage Producer::acquire(Where where) {
  AtLine line(where);
  u32 index = stage_;
  barrier_wait(pipeline_.empty(index), parity_, where);
  smem full = pipeline_.full(index);
  mbarrier_arrive_expect_tx(full, pipeline_.stage_bytes(), where);
  pipeline_.advance(stage_, parity_);

  Stage stage(index, full);
  struct Site {
    std::vector<SharedTile> tiles;
    std::vector<bool> loaded;
  };
  auto site = std::make_shared<Site>(Site{pipeline_.tiles_, std::vector<bool>(pipeline_.tiles_.size())});
  stage.on_copy_ = std::make_shared<std::function<void(const TileView&, Where)>>([site,
                                                                                  peers = pipeline_.peers_](
                                                                                     const TileView& view,
                                                                                     Where at) {
    for (size_t i = 0; i < site->tiles.size(); ++i) {
      if (!(site->tiles[i] == view.tile())) continue;
      check_stage_view(view, peers, at);
      if (site->loaded[i])
        throw Error(
            at,
            "tma_load: this tile of the stage is loaded already: more bytes would arrive than it expects");
      site->loaded[i] = true;
      return;
    }
    throw Error(at, fmt::format("tma_load: the {} is none of the pipeline's", view.tile().describe()));
  });
  Builder::current(where).on_finish([site, where] {
    for (size_t i = 0; i < site->tiles.size(); ++i)
      if (!site->loaded[i])
        throw Error(
            where,
            fmt::format("acquire: the {} (number {} of the pipeline's) is never loaded into this stage, so "
                        "its consumers would wait for ever",
                        site->tiles[i].describe(), i));
  });
  return stage;
}

Consumer::Consumer(const Pipeline& pipeline, bool peeks, std::optional<u32> total)
    : pipeline_(pipeline), stage_(0), parity_(0), peer_(0) {
  if (peeks) seen_full_.emplace(pred(false));
  if (total) refills_.emplace(s32(*total) - pipeline.stages_);
  if (pipeline.peers_ == 1) return;
  if (!total) detail::TileContext::of(Builder::current()).meet_at_end = true;
  u32 lane = laneid(), x = cluster_ctaid_x(), y = cluster_ctaid_y(),
      width = Builder::current().signature().cluster[0];
  u32 other = lane - width;  // of the y of the others in the column
  u32 peer = select(lane < width, lane + y * width, x + (other + u32(other >= y)) * width);
  peer_ = select(lane < u32(pipeline.peers_), peer, u32(0));
}

Stage Consumer::wait(Where where) {
  AtLine line(where);
  u32 index = stage_;
  smem full = pipeline_.full(index);
  if (seen_full_) {
    if_(
        !seen_full_->value(), [&] { barrier_wait(full, parity_, where); }, where);
    *seen_full_ = pred(false);
  } else {
    barrier_wait(full, parity_, where);
  }
  pipeline_.advance(stage_, parity_);
  if (refills_) *refills_ = refills_->value() - 1;

  Stage stage(index, full);
  stage.refilled_ = refilled(1);
  stage.released_ = std::make_shared<bool>(false);
  Builder::current(where).on_finish([released = stage.released_, where] {
    if (!*released)
      throw Error(where, "wait: the stage is never released, so the producer would wait for ever");
  });
  return stage;
}

void Consumer::peek(Where where) {
  if (!seen_full_) throw Error(where, "peek: for a consumer made with Peeks::yes");
  AtLine line(where);
  *seen_full_ = mbarrier_test_wait_parity(pipeline_.full(stage_), parity_, where);
}

// Of every warp, since each has waited for its own part of the wgmma group: lane i arrives at CTA i.
void Consumer::arrive(u32 stage, pred unless, Where where) const {
  smem empty = pipeline_.empty(stage);
  u32 lane = laneid(where), peers = pipeline_.peers_;
  if (pipeline_.peers_ == 1)
    mbarrier_arrive.when((lane == 0) & !unless)(empty, where);
  else
    mbarrier_arrive_cluster.when((lane < peers) & !unless)(mapa(empty, peer_, where), where);
}

// Whether the stage `behind` the next one will be filled again, for all that is known.
pred Consumer::refilled(int behind) const { return refills_ ? refills_->value() > -behind : pred(true); }

u32 Consumer::previous(u32 stage) const { return select(stage == 0, u32(pipeline_.stages_), stage) - 1; }

void Consumer::release(const Stage& stage, Where where) {
  if (!stage.released_) throw Error(where, "release: a consumer's stage comes from wait()");
  AtLine line(where);
  arrive(stage.index(), !*stage.refilled_, where);
  *stage.released_ = true;
}

void Consumer::release_previous(const Stage& stage, pred first, Where where) {
  if (!stage.released_) throw Error(where, "release_previous: a consumer's stage comes from wait()");
  if (pipeline_.stages_ < 2)
    throw Error(where, "release_previous: with one stage the producer would wait for the stage that is kept");
  AtLine line(where);
  arrive(previous(stage.index()), first | !refilled(2), where);
  *stage.released_ = true;  // when release_last() follows
  if (late_) return;
  late_ = std::make_shared<bool>(false);
  Builder::current(where).on_finish([late = late_, where] {
    if (!*late)
      throw Error(where, "release_previous: no release_last() follows, so the producer would wait for ever");
  });
}

void Consumer::release_last(pred none, Where where) {
  if (!late_) throw Error(where, "release_last: it belongs to release_previous()");
  AtLine line(where);
  arrive(previous(stage_), none | !refilled(1), where);
  *late_ = true;
}

void Consumer::skip(u32 count, Where where) {
  AtLine line(where);
  if (seen_full_) *seen_full_ = pred(false);
  if (refills_) *refills_ = refills_->value() - s32(count);
  u32 position = stage_.value() + count;
  u32 turns = position / pipeline_.stages_;
  stage_ = position % pipeline_.stages_;
  parity_ = parity_.value() ^ (turns & 1);
}

Turns::Turns(Kernel& kernel, int warpgroups, Where where)
    : count_(warpgroups),
      mine_(kernel, std::vector<int>(static_cast<size_t>(std::max(warpgroups, 1)), 4), {"turn"}, where) {
  if (warpgroups < 2)
    throw Error(where, fmt::format("turns: {} warpgroups; at least two take turns", warpgroups));
}

// The first need not wait at first: a wait for the phase before a barrier's first passes.
WarpgroupTurn::WarpgroupTurn(const Turns& turns, u32 index)
    : turns_(turns), index_(index), parity_(select(index == 0, u32(1), u32(0))) {}

void WarpgroupTurn::wait(Where where) {
  AtLine line(where);
  barrier_wait(turns_.mine_[index_], parity_, where);
  parity_ = parity_.value() ^ 1;
}

void WarpgroupTurn::pass(Where where) {
  AtLine line(where);
  u32 next = select(index_ == turns_.count_ - 1, u32(0), index_ + 1);
  mbarrier_arrive.when(laneid(where) == 0)(turns_.mine_[next], where);
}

}  // namespace ptxbuilder

#include "ptxbuilder/tile/pipeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/article.h"
#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/tile/copy_view.h"
#include "ptxbuilder/tile/multicast.h"

namespace ptxbuilder {

struct detail::Ring {
  smem full(u32 stage) const { return barriers[stage]; }
  smem empty(u32 stage) const { return barriers[stage] + 8 * stages; }
  uint32_t stage_bytes() const;
  // Advances to the next stage. The parity flips when the ring starts over.
  void advance(Var<u32>& stage, Var<u32>& parity) const;
  void skip(Var<u32>& stage, Var<u32>& parity, u32 count) const;
  u32 previous(u32 stage) const { return select(stage == 0, u32(stages), stage) - 1; }
  bool by_threads() const { return filling_warpgroups > 0; }
  void wait(smem barrier, u32 parity) const {
    exchanges ? barrier_wait_cluster(barrier, parity) : barrier_wait(barrier, parity);
  }
  // Makes data that threads wrote to a full stage visible to wgmma and TMA. Threads write through the generic
  // proxy, and a fence on either side of the barrier is enough (PTX ISA, proxies). A fence on the consumer's
  // side also covers copies that arrive by themselves.
  void make_visible() const {
    if (by_threads()) fence_proxy_async<Space::shared>();
  }

  int stages;
  int consumers;           // number of consumer warpgroups in a CTA
  int filling_warpgroups;  // number of warpgroups that fill the stages; 0 if one thread fills them with TMA
  bool exchanges;          // true if threads store to the stages of other CTAs
  ClusterAxes axes;        // axes along which CTAs fill stages together
  int peers;               // number of CTAs in line along `axes`, which release stages to a producer
  std::vector<SharedTile> tiles;
  Barriers barriers;
  mutable std::vector<int> consuming =
      {};                           // role of each call to consumer(); -1 stands for a kernel without roles
  mutable bool given_back = false;  // true if one consumer releases stages for all consumers
  // Set if any code completes phases of the full barriers, and if any code waits for these phases.
  mutable bool is_filled = false, is_waited_for = false;
};

namespace {

std::string describe(const detail::Ring& ring) {
  return fmt::format("{} stages of {} B", ring.stages, ring.stage_bytes());
}

// Returns the number of arrivals for each full and empty barrier. One producer or each filling thread arrives
// at a full barrier, and every warp of the consumers arrives at an empty barrier.
std::vector<int> arrivals(int stages, int consumers, int filling_warpgroups, int peers) {
  if (stages < 1 || consumers < 1)
    throw Error(fmt::format(
        "pipeline: {} stages and {} consumers were requested, but both numbers must be at least one", stages,
        consumers));
  std::vector<int> counts(static_cast<size_t>(2 * stages), std::max(1, 128 * filling_warpgroups));
  std::fill(counts.begin() + stages, counts.end(), 4 * consumers * peers);
  return counts;
}

int warpgroups_of(int role) {
  Builder& builder = Builder::current();
  if (role < 0) return (static_cast<int>(builder.signature().threads) + 127) / 128;
  return detail::TileContext::of(builder).roles[static_cast<size_t>(role)].count;
}

constexpr ClusterAxes kAllAxes = ClusterAxis::x | ClusterAxis::y | ClusterAxis::z;

// Checks that the rows and panels that a load fetches are known on the host. The loads must together fetch
// all bytes that a stage's barrier expects, and this can be checked only for known rows and panels.
void check_known(const LoadView& view) {
  if (view.condition())
    throw Error(
        "tma_load: the view of a pipeline's stage has a condition: if it is false, the bytes that the stage "
        "expects never arrive; put acquire() under the condition too");
  const TileView& place = view.place();
  if (!place.first_row() || !place.first_col())
    throw Error(fmt::format(
        "tma_load: the host does not know where the {} x {} elements of a pipeline's {} begin, but the stage "
        "expects all of its bytes; load rows or columns that begin at a host integer",
        place.row_count(), place.tile().cols(), place.whole().describe()));
}

// Checks a shared load. The load may write only to CTAs that release the stage when they have read its
// previous contents.
void check_shared(const LoadView& view, const detail::Ring& ring) {
  const ClusterAxes axes = view.multicast_axes();
  const MulticastGroups groups = detail::multicast_groups(axes);
  const int count = groups.count();
  if (count > 1 && ring.peers == 1)
    throw Error(fmt::format(
        "tma_load: {} CTAs share the load into a stage that only the consumers of one CTA release; "
        "make the pipeline with {}",
        count, ring.by_threads() ? "the axes in ThreadProducers" : "Producers::cluster"));
  if (count > 1 && ring.by_threads() &&
      (view.condition() || view.place().row_count() != view.place().whole().rows()))
    throw Error(fmt::format(
        "tma_load: {} CTAs share a load under a condition, or of a part of a tile, into a stage that threads "
        "fill, but each CTA expects the bytes of its own loads; load the whole tile in all of them",
        count));
  for (size_t i = 0; i < 3; ++i)
    if (const int along = groups.extents[i]; axes.has(i) && !ring.axes.has(i) && along > 1)
      throw Error(
          fmt::format("tma_load: {} CTAs along {} share the load into a stage that is released along other "
                      "axes; pass that axis to the pipeline",
                      along, "xyz"[i]));
  if (count > detail::ctas_in_line(axes))
    throw Error(
        "tma_load: CTAs along several axes share the load into a pipeline's stage, but the stage is released "
        "along single axes; share it along one axis");
}

}  // namespace

// Tracks the writes that fill a stage while the kernel is built. Holds no device values.
struct detail::Filling final : StageFilling {
  explicit Filling(std::shared_ptr<const Ring> of) : ring(std::move(of)) {
    for (const SharedTile& tile : ring->tiles)
      filled.emplace_back(static_cast<size_t>(tile.panels() * tile.rows()));
  }

  void load(const LoadView& to) override;
  void write(const TileView& to, std::string_view operation, bool by_cp_async) override {
    fill(to.whole(), operation, by_cp_async);
  }
  void exchange(const TileView& to, ClusterAxis axis) override;
  // Records that threads write a tile.
  void fill(const SharedTile& tile, std::string_view operation, bool by_cp_async);
  // Throws an Error with the tile's number if one of the tiles is not filled.
  void check_filled(std::string_view operation, std::string_view way) const;
  // Throws Error if there are CTAs that release the stage together but do not share any of its loads.
  void check_axes() const;
  // Returns a tile's number among the pipeline's tiles; the stage must not be committed yet.
  size_t number(const SharedTile& tile, std::string_view operation) const;

  std::shared_ptr<const Ring> ring;
  std::vector<std::vector<bool>> filled;                           // indexed by tile, panel and row
  ClusterAxes shared;                                              // axes along which loads are shared
  bool has_copies = false, has_stores = false, committed = false;  // set by cp.async, st.shared, commit()
};

std::shared_ptr<detail::StageFilling> Stage::filling() const { return filling_; }

size_t detail::Filling::number(const SharedTile& tile, std::string_view operation) const {
  const auto found = std::find(ring->tiles.begin(), ring->tiles.end(), tile);
  if (found == ring->tiles.end())
    throw Error(fmt::format("{}: the {} does not belong to the pipeline", operation, tile.describe()));
  if (committed)
    throw Error(fmt::format("{}: the stage is already committed, so consumers may be reading it", operation));
  return static_cast<size_t>(found - ring->tiles.begin());
}

void detail::Filling::load(const LoadView& to) {
  const size_t i = number(to.place().whole(), "tma_load");
  if (to.own_barrier())
    throw Error(
        "tma_load: the view of a pipeline's stage completes on a barrier of its own, so the bytes that the "
        "stage expects would never arrive");
  if (!ring->by_threads()) check_known(to);
  check_shared(to, *ring);
  if (ring->by_threads()) {
    filled[i].assign(filled[i].size(), true);
  } else {
    const TileView& place = to.place();
    const int panel_cols = place.whole().panel_cols(), first_panel = *place.first_col() / panel_cols;
    for (int panel = first_panel; panel * panel_cols < *place.first_col() + place.tile().cols(); ++panel) {
      const auto begin = filled[i].begin() + panel * place.whole().rows() + *place.first_row(),
                 end = begin + place.row_count();
      if (std::find(begin, end, true) != end)
        throw Error(
            "tma_load: this tile of the stage is already loaded, so more bytes would arrive than the stage "
            "expects");
      std::fill(begin, end, true);
    }
  }
  shared = shared | to.multicast_axes();
  if (!ring->by_threads()) return;  // acquire() has already made the barrier expect all bytes
  // The copying thread has not committed yet, so the phase cannot complete before the barrier expects the
  // bytes.
  const auto bytes = static_cast<uint32_t>(to.place().bytes());
  if (to.condition())
    mbarrier_expect_tx.when (*to.condition())(*to.barrier(), bytes);
  else
    mbarrier_expect_tx(*to.barrier(), bytes);
}

void detail::Filling::fill(const SharedTile& tile, std::string_view operation, bool by_cp_async) {
  const size_t i = number(tile, operation);
  if (!ring->by_threads())
    throw Error(
        fmt::format("{}: one thread fills the stage by TMA; to fill it by threads, make the pipeline with "
                    "ThreadProducers, and commit() the stage",
                    operation));
  filled[i].assign(filled[i].size(), true);
  (by_cp_async ? has_copies : has_stores) = true;
}

void detail::Filling::exchange(const TileView& to, ClusterAxis axis) {
  const size_t i = number(to.whole(), "store_async");
  const int ctas = ctas_in_line(axis);
  const char* const wrong = !ring->by_threads() ? "one thread fills by TMA"
                            : !ring->exchanges  ? "CTAs do not exchange"
                            : ctas > 1 && !ring->axes.has(static_cast<size_t>(axis))
                                ? "CTAs release along other axes"
                                : nullptr;
  if (wrong)
    throw Error(
        fmt::format("store_async: the destination is a stage that {}; make the pipeline with "
                    "ThreadProducers{{.axes = ClusterAxis::{}, .exchanges = true}}, so that a CTA stores "
                    "only when the other one has released the stage",
                    wrong, "xyz"[static_cast<size_t>(axis)]));
  // A third CTA could release a stage again before the first CTA has seen the release by the second CTA.
  if (ctas > 2)
    throw Error(
        fmt::format("store_async: {} CTAs along {} exchange the stages of a pipeline, but at most two can: "
                    "with more, a CTA might be a phase ahead of another; pass a barrier of your own",
                    ctas, "xyz"[static_cast<size_t>(axis)]));
  filled[i].assign(filled[i].size(), true);
  shared = shared | axis;
  // This thread has not committed yet, so the phase cannot complete before the barrier expects the bytes.
  mbarrier_expect_tx.when((tid_x() & 127) == 0)(*to.stage_barrier(), static_cast<uint32_t>(to.bytes()));
}

void detail::Filling::check_filled(std::string_view operation, std::string_view way) const {
  for (size_t i = 0; i < ring->tiles.size(); ++i)
    if (const auto missing = std::find(filled[i].begin(), filled[i].end(), false);
        missing != filled[i].end()) {
      const auto at = missing - filled[i].begin();
      const int rows = ring->tiles[i].rows();
      throw Error(fmt::format(
          "{}: the {} (number {} of the pipeline) is never {} this stage{}{}, so its consumers would {}",
          operation, ring->tiles[i].describe(), i, way, at == 0 ? "" : fmt::format(" from row {}", at % rows),
          at < rows ? "" : fmt::format(" of panel {}", at / rows),
          ring->by_threads() ? "read old data" : "wait for ever"));
    }
}

void detail::Filling::check_axes() const {
  for (size_t i = 0; i < 3; ++i)
    if (const int along = detail::multicast_groups(ring->axes).extents[i];
        ring->axes.has(i) && !shared.has(i) && along > 1)
      throw Error(fmt::format(
          "acquire: {} CTAs along {} release this stage but share none of its loads, so one might be a phase "
          "ahead of another; pass the axes along which loads are shared to the pipeline",
          along, "xyz"[i]));
}

Pipeline::Pipeline(Kernel& kernel, int stages, std::vector<SharedTile> tiles, int consumers,
                   Producers producers, Where where)
    : Pipeline(kernel, stages, std::move(tiles), consumers,
               producers == Producers::cluster ? kAllAxes : ClusterAxes(), where) {}

Pipeline::Pipeline(Kernel& kernel, int stages, std::vector<SharedTile> tiles, int consumers, ClusterAxes axes,
                   Where where) {
  AtLine line(where);
  make(kernel, stages, std::move(tiles), consumers, {0, axes});
}

Pipeline::Pipeline(Kernel& kernel, int stages, std::vector<SharedTile> tiles, int consumers,
                   ThreadProducers producers, Where where) {
  AtLine line(where);
  if (producers.warpgroups < 1)
    throw Error(fmt::format("pipeline: {} warpgroups fill its stages, but there must be at least one",
                            producers.warpgroups));
  make(kernel, stages, std::move(tiles), consumers, producers);
}

void Pipeline::make(Kernel& kernel, int stages, std::vector<SharedTile> tiles, int consumers,
                    const ThreadProducers& producers) {
  const auto [filling_warpgroups, axes, exchanges] = producers;
  kernel.builder().check_current();
  if (!axes.empty()) detail::cluster_size(kernel.builder());  // makes later size changes errors
  const int peers = detail::ctas_in_line(axes);
  Barriers barriers(kernel, arrivals(stages, consumers, filling_warpgroups, peers), {"full", "empty"});
  if (tiles.empty()) throw Error("pipeline: no tiles were given, but there must be at least one");
  for (const SharedTile& tile : tiles)
    if (tile.stages() != stages)
      throw Error(fmt::format("pipeline: it has {} stages, but {} has {}", stages,
                              with_article(tile.describe()), tile.stages()));
  ring_ = std::make_shared<detail::Ring>(detail::Ring{stages, consumers, filling_warpgroups, exchanges, axes,
                                                      peers, std::move(tiles), barriers});
  kernel.builder().on_finish([ring = ring_, where = Where::here()] {
    AtLine line(where);
    if (ring->is_filled && !ring->is_waited_for)
      throw Error(
          "pipeline: its stages are filled, but no consumer ever waits for them: they would be read too "
          "early, or not at all");
    if (ring->is_waited_for && !ring->is_filled)
      throw Error(
          "pipeline: consumers wait for its stages, but no producer ever acquires or lends them, so they "
          "would wait for ever");
    int warpgroups = 0;
    for (int role : ring->consuming) warpgroups += warpgroups_of(role);
    if (ring->consuming.empty() || ring->given_back || warpgroups >= ring->consumers) return;
    throw Error(
        fmt::format("pipeline: `consumers` is {}, so the warps of that many warpgroups must release every "
                    "stage, but consumer() is called by {} warpgroup{}: the producer would wait for ever; "
                    "set `consumers` to the number of warpgroups that call it",
                    ring->consumers, warpgroups, warpgroups == 1 ? "" : "s"));
  });
}

int Pipeline::stages() const { return ring_->stages; }
uint32_t Pipeline::stage_bytes() const { return ring_->stage_bytes(); }

uint32_t detail::Ring::stage_bytes() const {
  uint32_t bytes = 0;
  for (const SharedTile& tile : tiles) bytes += static_cast<uint32_t>(tile.stage_bytes());
  return bytes;
}

void detail::Ring::advance(Var<u32>& stage, Var<u32>& parity) const {
  u32 next = stage.value() + 1;
  pred wraps = next == stages;
  stage = select(wraps, u32(0), next);
  parity = parity.value() ^ u32(wraps);
}

void detail::Ring::skip(Var<u32>& stage, Var<u32>& parity, u32 count) const {
  u32 position = stage.value() + count;
  u32 turns = position / stages;
  stage = position % stages;
  parity = parity.value() ^ (turns & 1);
}

// A new barrier is in phase 0, so a wait for parity 1 passes: initially, the producer finds every stage
// empty.
Producer::Producer(std::shared_ptr<const detail::Ring> ring)
    : ring_(std::move(ring)), stage_(0), parity_(1) {}

void Producer::check_who_fills(std::string_view operation) const {
  detail::TileContext& context = detail::TileContext::of(Builder::current());
  if (ring_->by_threads())
    detail::check_whole_warpgroups(operation);
  else
    detail::check_one_thread(operation, context.role < 0
                                            ? static_cast<int>(Builder::current().signature().threads)
                                            : hopper::cta_threads);
}

Stage Producer::acquire(Where where) {
  AtLine line(where);
  check_who_fills("acquire");
  ring_->is_filled = true;
  u32 index = stage_;
  ring_->wait(ring_->empty(index), parity_);
  smem full = ring_->full(index);
  if (!ring_->by_threads()) mbarrier_arrive_expect_tx(full, ring_->stage_bytes());
  ring_->advance(stage_, parity_);

  Stage stage(index, full, ring_);
  stage.filling_ = std::make_shared<detail::Filling>(ring_);
  Builder::current().on_finish([filling = stage.filling_, where] {
    AtLine line(where);
    if (filling->ring->by_threads() && !filling->committed)
      throw Error("acquire: the stage is never committed, so its consumers would wait for ever");
    filling->check_filled("acquire", "loaded into");
    filling->check_axes();
  });
  return stage;
}

// Returns the state of a stage that threads of this producer have acquired.
detail::Filling& Producer::filling(const Stage& stage, std::string_view operation) const {
  if (!stage.filling_)
    throw Error(
        fmt::format("{}: this is not a producer's stage; pass one that acquire() returned", operation));
  if (stage.ring_ != ring_)
    throw Error(fmt::format("{}: this is a stage of another pipeline, with {}, but the producer's has {}",
                            operation, describe(*stage.ring_), describe(*ring_)));
  if (!ring_->by_threads())
    throw Error(
        fmt::format("{}: one thread fills the stage with TMA, whose copies commit themselves; only "
                    "ThreadProducers commit",
                    operation));
  return *stage.filling_;
}

void Producer::commit(const Stage& stage, Where where) {
  AtLine line(where);
  detail::Filling& filling = this->filling(stage, "commit");
  if (filling.committed)
    throw Error("commit: this stage is already committed; each thread must commit it once");
  filling.check_filled("commit", "filled in");
  filling.committed = true;
  const smem full = stage.full_barrier();
  if (filling.has_copies && !filling.has_stores) {
    cp_async_mbarrier_arrive_noinc(full);
    return;
  }
  // This instruction arrives when the thread's copies are complete. Its arrival is not one of those that the
  // barrier expects; the expected arrival below also makes stores visible.
  if (filling.has_copies) ptx("cp.async.mbarrier.arrive.shared::cta.b64 [{bar:smem}];", {{"bar", full}});
  if (filling.has_copies) return mbarrier_arrive(full);
  // A barrier in shared memory processes arrivals one by one, so one lane arrives on behalf of the warp. The
  // warp's barrier orders the stores of all lanes before this arrival.
  bar_warp_sync(0xffffffff);
  mbarrier_arrive_count.when(laneid() == 0)(full, u32(32));
}

void Producer::fills(const Stage& stage, const SharedTile& tile, Where where) {
  AtLine line(where);
  filling(stage, "fills").fill(tile, "fills", false);
}

void Producer::lend(Where where) {
  AtLine line(where);
  ring_->is_filled = true;
  u32 index = stage_;
  barrier_wait(ring_->empty(index), parity_);
  mbarrier_arrive(ring_->full(index));
  ring_->advance(stage_, parity_);
}

Consumer::Consumer(std::shared_ptr<const detail::Ring> ring, bool peeks, std::optional<u32> total)
    : ring_(std::move(ring)), stage_(0), parity_(0), peer_(0) {
  ring_->consuming.push_back(detail::TileContext::of(Builder::current()).role);
  if (peeks) seen_full_.emplace(pred(false));
  if (total) refills_.emplace(s32(*total) - ring_->stages);
  if (ring_->peers == 1) return;
  if (!total) detail::TileContext::of(Builder::current()).meet_at_end = true;
  u32 lane = laneid(), peers = ring_->peers;
  peer_ = select(lane < peers, detail::rank_in_line(ring_->axes, lane), u32(0));
}

Stage Consumer::wait(Where where) {
  AtLine line(where);
  detail::check_whole_warpgroups("wait");
  ring_->is_waited_for = true;
  u32 index = stage_;
  smem full = ring_->full(index);
  if (seen_full_) {
    if_(!seen_full_->value(), [&] { ring_->wait(full, parity_); });
    *seen_full_ = pred(false);
  } else {
    ring_->wait(full, parity_);
  }
  ring_->make_visible();
  ring_->advance(stage_, parity_);
  if (refills_) *refills_ = refills_->value() - 1;

  Stage stage(index, full, ring_);
  stage.refilled_ = refilled(1);
  stage.released_ = std::make_shared<bool>(false);
  Builder::current().on_finish([released = stage.released_, where] {
    AtLine line(where);
    if (!*released) throw Error("wait: the stage is never released, so the producer would wait for ever");
  });
  return stage;
}

Stage Consumer::none() const {
  Stage stage(u32(0), ring_->full(0), ring_);
  stage.refilled_ = pred(false);
  stage.released_ = std::make_shared<bool>(true);
  return stage;
}

Stage Consumer::front(Where where) const {
  AtLine line(where);
  detail::check_whole_warpgroups("front");
  ring_->wait(ring_->full(stage_), parity_);
  ring_->make_visible();
  return {stage_, ring_->full(stage_), ring_};
}
void Consumer::peek(Where where) {
  AtLine line(where);
  if (!seen_full_) throw Error("peek: the consumer must be made with Peeks::yes");
  if (ring_->exchanges)
    throw Error("peek: CTAs exchange these stages, so wait() must acquire them from the other CTA");
  *seen_full_ = mbarrier_test_wait_parity(ring_->full(stage_), parity_);
}

// Every warp must arrive because each warp has waited only for its own part of the wgmma group. Lane i
// arrives at the i-th CTA in line.
void Consumer::arrive(u32 stage, pred unless, int consumers) const {
  detail::check_whole_warpgroups("release");
  smem empty = ring_->empty(stage);
  u32 lane = laneid(), peers = ring_->peers;
  if (consumers > 1)
    mbarrier_arrive_count.when((lane == 0) & !unless)(empty, u32(consumers));
  else if (ring_->peers == 1)
    mbarrier_arrive.when((lane == 0) & !unless)(empty);
  else if (ring_->exchanges)
    mbarrier_arrive_release_cluster.when((lane < peers) & !unless)(mapa(empty, peer_));
  else
    mbarrier_arrive_cluster.when((lane < peers) & !unless)(mapa(empty, peer_));
}

// Returns whether the stage that is `behind` stages before the next stage will be filled again; returns true
// if the total number of stages is not known.
pred Consumer::refilled(int behind) const { return refills_ ? refills_->value() > -behind : pred(true); }

u32 Consumer::previous(u32 stage) const { return ring_->previous(stage); }

void Consumer::check(const Stage& stage, std::string_view operation) const {
  if (!stage.released_)
    throw Error(fmt::format("{}: this is not a consumer's stage; pass one that wait() returned", operation));
  if (stage.ring_ == ring_) return;
  throw Error(
      fmt::format("{}: this is a stage of another pipeline, with {}, but the consumer's has {}; its own "
                  "consumer must hand it back",
                  operation, describe(*stage.ring_), describe(*ring_)));
}

void Consumer::release(const Stage& stage, Where where) { release(stage, pred(true), where); }

void Consumer::release(const Stage& stage, pred when, Where where) {
  AtLine line(where);
  check(stage, "release");
  arrive(stage.index(), !(when & *stage.refilled_));
  *stage.released_ = true;
}

void Consumer::give_back(const Stage& stage, pred when, Where where) {
  AtLine line(where);
  check(stage, "give_back");
  if (ring_->peers > 1)
    throw Error("give_back: CTAs of a cluster fill this stage together, so each consumer must release it");
  arrive(stage.index(), !(when & *stage.refilled_), ring_->consumers);
  ring_->given_back = true;
  *stage.released_ = true;
}

void Consumer::release_previous(const Stage& stage, pred first, Where where) {
  AtLine line(where);
  check(stage, "release_previous");
  if (ring_->stages < 2)
    throw Error("release_previous: with one stage, the producer would wait for the stage that is kept");
  arrive(previous(stage.index()), first | !refilled(2));
  *stage.released_ = true;  // release_last() must follow
  if (late_) return;
  late_ = std::make_shared<bool>(false);
  Builder::current().on_finish([late = late_, where] {
    AtLine line(where);
    if (!*late)
      throw Error("release_previous: no release_last() follows, so the producer would wait for ever");
  });
}

void Consumer::release_last(pred none, Where where) {
  AtLine line(where);
  if (!late_) throw Error("release_last: release_previous() must be called before it");
  arrive(previous(stage_), none | !refilled(1));
  *late_ = true;
}

void Consumer::skip(u32 count, Where where) {
  AtLine line(where);
  if (seen_full_) *seen_full_ = pred(false);
  if (refills_) *refills_ = refills_->value() - s32(count);
  ring_->skip(stage_, parity_, count);
}

void Consumer::unify(Where where) {
  AtLine line(where);
  stage_ = warp_uniform(stage_);
  parity_ = warp_uniform(parity_);
}

Var<Stage>::Var(const Stage& initial, Where where)
    : stage_(initial), index_(initial.index_), refilled_(initial.refilled_.value_or(pred(true))) {
  if (!initial.released_)
    throw Error(where, "Var<Stage>: a producer's stage was given, but only a consumer's can be kept");
}

Var<Stage>& Var<Stage>::operator=(const Argument& argument) {
  const Stage& stage = argument.stage;
  if (stage.ring_ != stage_.ring_ || !stage.released_)
    throw Error(
        argument.where,
        fmt::format(
            "Var<Stage>: it holds stages of one pipeline's consumer, with {}, but was assigned one {}",
            describe(*stage_.ring_),
            stage.released_ ? "of another's, with " + describe(*stage.ring_) : "of a producer's"));
  AtLine line(argument.where);
  index_ = stage.index_;
  refilled_ = *stage.refilled_;
  *stage.released_ = true;  // the variable's own flag must be set too
  return *this;
}

Stage Var<Stage>::value() const {
  Stage stage = stage_;
  stage.index_ = index_;
  stage.refilled_ = refilled_.value();
  return stage;
}

Turns::Turns(Kernel& kernel, int warpgroups, Where where)
    : turns_(kernel, std::vector<int>(static_cast<size_t>(std::max(warpgroups, 1)), 4), {"turn"}, where) {
  if (warpgroups < 2)
    throw Error(where,
                fmt::format("turns: there are {} warpgroups, but there must be at least two", warpgroups));
}

// The first wait of warpgroup 0 passes because it waits for the phase before its barrier's first phase.
WarpgroupTurn::WarpgroupTurn(const Barriers& turns, u32 index)
    : turns_(turns), index_(index), parity_(select(index == 0, u32(1), u32(0))) {}

void WarpgroupTurn::wait(Where where) {
  AtLine line(where);
  barrier_wait(turns_[index_], parity_);
  parity_ = parity_.value() ^ 1;
}

void WarpgroupTurn::pass_after(pred known, Where where) {
  AtLine line(where);
  u32 next = select(index_ == turns_.size() - 1, u32(0), index_ + 1);
  mbarrier_arrive.when((laneid() == 0) & known)(turns_[next]);
  mbarrier_arrive.when((laneid() == 0) & !known)(turns_[next]);
}

void WarpgroupTurn::pass(Where where) {
  AtLine line(where);
  u32 next = select(index_ == turns_.size() - 1, u32(0), index_ + 1);
  mbarrier_arrive.when(laneid() == 0)(turns_[next]);
}

}  // namespace ptxbuilder

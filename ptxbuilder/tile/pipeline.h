// Pipeline: a ring of shared-memory stages between one producer that fills them by TMA and warpgroups that
// consume them.
#pragma once

#include "ptxbuilder/tile/barrier.h"

namespace ptxbuilder {

namespace detail {
// What a pipeline and its two ends share: whoever lives longest keeps it.
struct Ring;
}  // namespace detail

// A stage that a ring handed out: which one, and the barrier that its copies complete on.
class Stage {
 public:
  u32 index() const { return index_; }
  smem full_barrier() const { return full_; }
  const std::shared_ptr<std::function<void(const LoadView&)>>& on_load() const { return on_load_; }

 private:
  friend class Producer;
  friend class Consumer;
  Stage(u32 index, smem full, std::shared_ptr<const detail::Ring> ring)
      : index_(index), full_(full), ring_(std::move(ring)) {}

  u32 index_;
  smem full_;
  std::shared_ptr<const detail::Ring> ring_;  // that it is of
  std::optional<pred> refilled_;  // of a consumer's: whether the producer waits for it to come back
  std::shared_ptr<std::function<void(const LoadView&)>> on_load_;
  std::shared_ptr<bool> released_;
};

class Pipeline;

// The producer's end, for one thread.
class Producer {
 public:
  // Waits until the next stage is empty and announces its bytes. Every tile of the pipeline is then to be
  // loaded into it, once: `tma_load(sA[stage], ...)`; the kernel's finish throws Error when one is missing.
  Stage acquire(Where where = Where::here());

 private:
  friend class Pipeline;
  explicit Producer(std::shared_ptr<const detail::Ring> ring);
  std::shared_ptr<const detail::Ring> ring_;
  Var<u32> stage_, parity_;
};

// The consumers' end, for all threads of each consuming warpgroup.
class Consumer {
 public:
  // Waits until the next stage is full.
  Stage wait(Where where = Where::here());
  // Looks whether it is, without waiting: the wait() that comes next need not look again. For before a
  // wgmma_wait, during which the look is for nothing. Of consumer(Peeks::yes).
  void peek(Where where = Where::here());
  // Hands the stage back. What reads it must be done: wgmma_wait first. Throws Error when it is another
  // pipeline's. A stage that is never released is an Error when the kernel is finished, since the producer
  // would wait for ever.
  void release(const Stage& stage, Where where = Where::here());
  // The same one stage late, so that the products of `stage` run while those before them end: after
  // wgmma_wait(1) hands back the stage before it, unless `first` says that this consumer has none. The last
  // goes back by release_last(), unless there was `none` at all.
  void release_previous(const Stage& stage, pred first, Where where = Where::here());
  void release_last(pred none, Where where = Where::here());
  // Skips stages that other consumers take: `count` of them, without waiting.
  void skip(u32 count, Where where = Where::here());

 private:
  friend class Pipeline;
  Consumer(std::shared_ptr<const detail::Ring> ring, bool peeks, std::optional<u32> total);
  void check(const Stage& stage, std::string_view operation) const;
  void arrive(u32 stage, pred unless) const;
  u32 previous(u32 stage) const;
  pred refilled(int behind) const;
  std::shared_ptr<const detail::Ring> ring_;
  Var<u32> stage_, parity_;
  std::optional<Var<pred>> seen_full_;  // the next stage, by peek()
  std::optional<Var<s32>> refills_;     // of stages from the next one on, where `total` is known
  u32 peer_;                            // the CTA that this lane releases to
  std::shared_ptr<bool> late_;          // whether release_last() was called
};

// Whether a consumer calls peek().
enum class Peeks : uint8_t { no, yes };

// Who fills the stages of a CTA: its own producer, or those of the CTAs of its cluster that are in line with
// it too, by multicast.
enum class Producers : uint8_t { own, cluster };

class Pipeline {
 public:
  // `tiles` have `stages` stages each; `consumers` warpgroups read every stage. Makes two barriers a stage:
  // full, which completes when the CTA's producer has arrived and all bytes have, and empty, at which every
  // warp of the consumers arrives: those of the CTA, or, of a cluster's, of all CTAs in line with it, since a
  // producer may only write into a peer's stage when the peer has released it.
  Pipeline(Kernel& kernel, int stages, std::vector<SharedTile> tiles, int consumers,
           Producers producers = Producers::own, Where where = Where::here());
  // CTAs fill stages together along `axes` alone; Producers::cluster is all of the cluster's. A load of every
  // stage has to be shared along each of them: else a CTA might release a stage for the second time before
  // another has for the first, and the producer takes the one for the other. Error when the kernel is
  // finished.
  Pipeline(Kernel& kernel, int stages, std::vector<SharedTile> tiles, int consumers, ClusterAxes axes,
           Where where = Where::here());
  Pipeline(const Pipeline&) = delete;

  Producer producer() const { return Producer(ring_); }
  // `total`, the same in all CTAs of a cluster: the stages that the producer fills in all, whoever consumes
  // them. With it, the last ones, for which no producer waits any more, are not handed back, so that with
  // Producers::cluster a CTA may end while others still run; without it, CTAs meet before they end.
  Consumer consumer(Peeks peeks = Peeks::no, std::optional<u32> total = std::nullopt) const {
    return {ring_, peeks == Peeks::yes, total};
  }

  int stages() const;
  uint32_t stage_bytes() const;

 private:
  std::shared_ptr<const detail::Ring> ring_;
};

// A warpgroup's place among those that go one after the other.
class WarpgroupTurn {
 public:
  // For all threads of the warpgroup, alternately: waits until the one before has passed, and passes on.
  void wait(Where where = Where::here());
  void pass(Where where = Where::here());

 private:
  friend class Turns;
  WarpgroupTurn(const Barriers& turns, u32 index);
  Barriers turns_;
  u32 index_;
  Var<u32> parity_;
};

// Lets the warpgroups of a role go one after the other, from 0 on and round again. Consumers that take tiles
// in turn need it: one that waited for stages long before they are filled could take an older phase of a
// barrier for its own.
class Turns {
 public:
  Turns(Kernel& kernel, int warpgroups, Where where = Where::here());

  WarpgroupTurn of(u32 warpgroup) const { return {turns_, warpgroup}; }

 private:
  Barriers turns_;  // a warpgroup's completes when the one before passes
};

}  // namespace ptxbuilder

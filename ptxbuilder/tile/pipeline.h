// Defines Pipeline, a ring of stages in shared memory. Either one thread fills the stages with TMA copies, or
// all threads of some warpgroups fill them. Other warpgroups consume the stages.
#pragma once

#include "ptxbuilder/tile/barrier.h"

namespace ptxbuilder {

namespace detail {
// The state that a pipeline shares with its producer and its consumer. The state exists for as long as any of
// these three objects exists.
struct Ring;
struct Filling;  // tracks the writes that fill one acquired stage
}  // namespace detail

// A stage of a ring, given by its index and by the barrier that counts the bytes copied into the stage.
class Stage {
 public:
  u32 index() const { return index_; }
  smem full_barrier() const { return full_; }
  std::shared_ptr<detail::StageFilling> filling() const;

 private:
  friend class Producer;
  friend class Consumer;
  friend class Var<Stage>;
  Stage(u32 index, smem full, std::shared_ptr<const detail::Ring> ring)
      : index_(index), full_(full), ring_(std::move(ring)) {}

  u32 index_;
  smem full_;
  std::shared_ptr<const detail::Ring> ring_;  // ring to which the stage belongs
  std::optional<pred> refilled_;  // set for a consumer's stage; true if the producer waits for its release
  std::shared_ptr<detail::Filling> filling_;  // set for a producer's stage
  std::shared_ptr<bool> released_;
};

// Holds a consumer's stage that a loop carries from iteration to iteration. The loop assigns the next stage
// to the variable, and releases the variable's current value.
template <>
class Var<Stage> {
 public:
  // A stage and the caller's source line, because an operator cannot take the line as a parameter.
  struct Argument {
    Argument(const Stage& of, Where at = Where::here()) : stage(of), where(at) {}  // NOLINT
    const Stage& stage;
    Where where;
  };

  // Throws Error for a producer's stage.
  explicit Var(const Stage& initial, Where where = Where::here());
  Var(const Var&) = delete;
  Var(Var&&) = default;

  // Throws Error for a stage of another pipeline's consumer or of a producer.
  Var& operator=(const Argument& stage);
  operator Stage() const { return value(); }  // NOLINT: reads as its value
  Stage value() const;

 private:
  Stage stage_;  // initial stage; its release counts for all stages that the variable holds
  Var<u32> index_;
  Var<pred> refilled_;
};

class Pipeline;

// The producer's side of a pipeline. One thread calls its functions or, with ThreadProducers, all threads of
// the filling warpgroups.
class Producer {
 public:
  // Waits until the next stage is empty, and makes the stage's barrier expect the bytes of all tiles. The
  // caller must then load every tile of the pipeline into the stage once. A load fills an entire tile, as in
  // `tma_load(sA[stage], ...)`, or a part whose rows are known on the host; the parts together must fill the
  // tile. If a load is missing, Kernel::finish() throws Error.
  //
  // If ThreadProducers fill the stage, the barrier does not expect bytes yet. load_async() and store() then
  // fill entire tiles or parts of tiles. Copies that one thread makes, for example in elect(), can also fill
  // tiles, and make the barrier expect their own bytes. Afterwards, all threads commit() the stage. If the
  // kernel contains no such commit(), Kernel::finish() throws Error.
  Stage acquire(Where where = Where::here());
  // Hands a stage that ThreadProducers fill to the consumers, as soon as all copies that this thread has
  // issued into the stage have arrived. The call does not wait for these copies (PTX ISA,
  // cp.async.mbarrier.arrive). Throws Error if a tile of the pipeline is not filled, or if the stage is
  // already committed or belongs to another pipeline. Also throws Error in a pipeline that only TMA fills,
  // since TMA copies commit themselves.
  void commit(const Stage& stage, Where where = Where::here());
  // Declares that the threads themselves write to this stage of the tile before they commit, for example
  // through `tile[stage].address()`. The pipeline must have ThreadProducers.
  void fills(const Stage& stage, const SharedTile& tile, Where where = Where::here());
  // Waits until the next stage is empty, and hands the empty stage to the consumers, so that they can write
  // to the stage. Either every consumer writes its part, or one consumer uses all of the stage and calls
  // give_back(). The consumers wait for this stage as for a full one.
  void lend(Where where = Where::here());

 private:
  friend class Pipeline;
  explicit Producer(std::shared_ptr<const detail::Ring> ring);
  detail::Filling& filling(const Stage& stage, std::string_view operation) const;
  void check_who_fills(std::string_view operation) const;
  std::shared_ptr<const detail::Ring> ring_;
  Var<u32> stage_, parity_;
};

// The consumers' side of a pipeline. All threads of each consuming warpgroup call its functions.
class Consumer {
 public:
  // Waits until the next stage is full. Data that threads have written is then visible to wgmma and TMA too.
  Stage wait(Where where = Where::here());
  // Waits until the next stage is full, as wait() does, but without consuming it: the next wait() returns the
  // same stage. This is useful for threads that write to a stage before they multiply it.
  Stage front(Where where = Where::here()) const;
  // Tests whether the next stage is full, without waiting. If the stage is full, the next wait() does not
  // test again. Call this before a wgmma_wait, so that the wait hides the cost of the test. The consumer must
  // be created with consumer(Peeks::yes).
  void peek(Where where = Where::here());
  // Returns a placeholder whose release has no effect, for use as the initial value of a Var<Stage>.
  Stage none() const;
  // Hands the stage back to the producer. All reads of the stage must be complete, so call wgmma_wait first.
  // Throws Error for a stage of another pipeline. If a stage is never released, Kernel::finish() throws
  // Error, because the producer would wait forever.
  void release(const Stage& stage, Where where = Where::here());
  // Hands the stage back if `when` is true; otherwise the caller must hand it back later.
  void release(const Stage& stage, pred when, Where where = Where::here());
  // Releases a stage on behalf of all consumers of the CTA, if the stage was lent to this consumer only; the
  // other consumers skip it. Throws Error if CTAs of a cluster fill stages together.
  void give_back(const Stage& stage, pred when, Where where = Where::here());
  // Release stages with a delay of one, so that the products of `stage` run while earlier products finish.
  // Call release_previous() after wgmma_wait(1): it hands back the stage before `stage` unless `first` is
  // true. Pass true if this consumer had no earlier stage. After the loop, release_last() hands back the last
  // stage unless `none` is true. Pass true if there was no stage at all.
  void release_previous(const Stage& stage, pred first, Where where = Where::here());
  void release_last(pred none, Where where = Where::here());
  // Skips `count` stages that other consumers use, without waiting for them.
  void skip(u32 count, Where where = Where::here());
  // Moves the consumer's position in the ring to uniform registers (see warp_uniform()). Call this before a
  // loop that waits for wgmma operands if an enclosing loop would otherwise keep the position in vector
  // registers.
  void unify(Where where = Where::here());

 private:
  friend class Pipeline;
  Consumer(std::shared_ptr<const detail::Ring> ring, bool peeks, std::optional<u32> total);
  void check(const Stage& stage, std::string_view operation) const;
  void arrive(u32 stage, pred unless, int consumers = 1) const;
  u32 previous(u32 stage) const;
  pred refilled(int behind) const;
  std::shared_ptr<const detail::Ring> ring_;
  Var<u32> stage_, parity_;
  std::optional<Var<pred>> seen_full_;  // set if the consumer peeks; true if peek() found the next stage full
  // The number of stages, from the next stage on, that will still be refilled. Set if `total` is known.
  std::optional<Var<s32>> refills_;
  u32 peer_;                    // rank of the CTA in which this lane releases stages
  std::shared_ptr<bool> late_;  // true if release_last() was called
};

// Determines whether a consumer can call peek().
enum class Peeks : uint8_t { no, yes };

// Determines which producers fill the stages of a CTA. With `own`, only the CTA's producer fills them. With
// `cluster`, the producers of all CTAs in line with this CTA in the cluster also fill them, by multicast.
// CTAs are in line if their positions differ along only one axis.
enum class Producers : uint8_t { own, cluster };

// Makes all threads of `warpgroups` warpgroups fill the stages. Each of these threads acquires and commits
// every stage:
//   Pipeline pipe(k, stages, {sA, sB}, consumers, ThreadProducers{1});
//   k.warpgroups(1, 40, [&](u32) {
//     auto ring = pipe.producer();
//     for_(0, steps, [&](u32 kt) {
//       auto s = ring.acquire();
//       load_async(copy, sA[s], a.tile(row, kt * BK), tid_x() & 127);
//       elect([&] { tma_load(sB[s], B, kt * BK, col); });  // tiles may come by TMA too
//       ring.commit(s);
//     });
//   });
//
// CTAs may share TMA loads along `axes`; each CTA then fills the remaining tiles of its own stages. With
// `exchanges`, two CTAs may also fill a tile of each other's stage with store_async() (registers/memory.h).
// The waits and releases of all stages then order the accesses by threads of both CTAs.
struct ThreadProducers {
  int warpgroups = 1;
  ClusterAxes axes = {};
  bool exchanges = false;
};

class Pipeline {
 public:
  // Makes a pipeline in which one thread fills the stages. Each tile of `tiles` must have `stages` stages,
  // and `consumers` warpgroups read every stage. Each stage gets two barriers, full and empty. The full
  // barrier completes when the CTA's producer and all bytes have arrived. Every consuming warp of the CTA
  // arrives at the empty barrier. With Producers::cluster, the consuming warps of all CTAs in line with this
  // CTA also arrive at the empty barrier, because a producer may write to a peer's stage only after the peer
  // has released the stage. If fewer than `consumers` warpgroups call consumer(), Kernel::finish() throws
  // Error, unless one of them calls give_back() for all.
  Pipeline(Kernel& kernel, int stages, std::vector<SharedTile> tiles, int consumers,
           Producers producers = Producers::own, Where where = Where::here());
  // Makes a pipeline in which the threads of some warpgroups fill the stages. The full barrier completes when
  // each of these threads has committed, and all copies that they have issued have arrived.
  Pipeline(Kernel& kernel, int stages, std::vector<SharedTile> tiles, int consumers,
           ThreadProducers producers, Where where = Where::here());
  // Makes a pipeline in which CTAs fill stages together along `axes` only; Producers::cluster means all axes
  // of the cluster. Every stage needs a load that is shared along each of these axes. Without such a load, a
  // CTA could release a stage twice before another CTA has released it once, and the producer would mistake
  // the second release for the other CTA's release. If such a load is missing, Kernel::finish() throws Error.
  Pipeline(Kernel& kernel, int stages, std::vector<SharedTile> tiles, int consumers, ClusterAxes axes,
           Where where = Where::here());
  Pipeline(const Pipeline&) = delete;

  Producer producer() const { return Producer(ring_); }
  // Returns the consumers' side. `total` is the number of stages that the producer fills altogether, for all
  // consumers; the number must be the same in all CTAs of a cluster. If `total` is given, consumers do not
  // hand back the last stages, because these are not filled again. With Producers::cluster, a CTA may then
  // exit while others still run. Otherwise, the CTAs wait for each other before they exit.
  Consumer consumer(Peeks peeks = Peeks::no, std::optional<u32> total = std::nullopt) const {
    return {ring_, peeks == Peeks::yes, total};
  }

  int stages() const;
  uint32_t stage_bytes() const;

 private:
  void make(Kernel& kernel, int stages, std::vector<SharedTile> tiles, int consumers,
            const ThreadProducers& producers);
  std::shared_ptr<const detail::Ring> ring_;
};

// The handle that a warpgroup uses to wait for its turn, and to pass the turn to the next warpgroup.
class WarpgroupTurn {
 public:
  // All threads of the warpgroup call wait() and pass() alternately, beginning with wait(). wait() returns
  // when the previous warpgroup has passed the turn.
  void wait(Where where = Where::here());
  void pass(Where where = Where::here());
  // Passes the turn only after `known` has been computed, whatever its value is. Use this if the turn must
  // not be passed earlier: pass() does not depend on a value, so ptxas may move its code to an earlier point.
  void pass_after(pred known, Where where = Where::here());

 private:
  friend class Turns;
  WarpgroupTurn(const Barriers& turns, u32 index);
  Barriers turns_;
  u32 index_;
  Var<u32> parity_;
};

// Lets the warpgroups of a role take turns cyclically, beginning with warpgroup 0. Consumers that process
// tiles alternately must take turns. Otherwise, a consumer that waits for a stage long before the stage is
// filled could mistake an earlier phase of the barrier for the right phase.
class Turns {
 public:
  Turns(Kernel& kernel, int warpgroups, Where where = Where::here());

  // Returns the handle of a warpgroup. The warpgroup must call this function in its role.
  WarpgroupTurn of(u32 warpgroup) const { return {turns_, warpgroup}; }

 private:
  Barriers turns_;  // one barrier for each warpgroup, completed by the pass() of the previous warpgroup
};

}  // namespace ptxbuilder

// Defines Pipeline, a ring of stages in shared memory. One thread fills the stages by TMA, or all threads of
// some warpgroups fill them; other warpgroups consume them.
#pragma once

#include "ptxbuilder/tile/barrier.h"

namespace ptxbuilder {

namespace detail {
// The state that a pipeline and its two sides share. It exists as long as any of the three.
struct Ring;
struct Filling;  // tracks what fills one acquired stage
}  // namespace detail

// A stage of a ring: its index, and the barrier that counts its copies' bytes.
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
  std::optional<pred> refilled_;  // for a consumer's stage: whether the producer waits for its release
  std::shared_ptr<detail::Filling> filling_;  // for a producer's stage
  std::shared_ptr<bool> released_;
};

// A consumer's stage that a loop carries: the loop assigns the next stage to the variable, and releases its
// current value.
template <>
class Var<Stage> {
 public:
  // A stage with the caller's line, since an operator has no parameter for the line.
  struct Argument {
    Argument(const Stage& of, Where at = Where::here()) : stage(of), where(at) {}  // NOLINT
    const Stage& stage;
    Where where;
  };

  // Throws Error for a producer's stage.
  explicit Var(const Stage& initial, Where where = Where::here());
  Var(const Var&) = delete;
  Var(Var&&) = default;

  // Throws Error for a stage that comes from another pipeline's consumer or from a producer.
  Var& operator=(const Argument& stage);
  operator Stage() const { return value(); }  // NOLINT: reads as its value
  Stage value() const;

 private:
  Stage stage_;  // the initial stage; a release of it counts for all stages of the variable
  Var<u32> index_;
  Var<pred> refilled_;
};

class Pipeline;

// The producer's side, for one thread or, with ThreadProducers, for all threads of the filling warpgroups.
class Producer {
 public:
  // Waits until the next stage is empty, and makes its barrier expect the bytes. The caller must then load
  // every tile of the pipeline into the stage once: with `tma_load(sA[stage], ...)`, or in parts whose rows
  // the host knows and which together fill the tile. Finishing the kernel throws Error if a load is missing.
  //
  // If ThreadProducers fill it, the barrier does not expect bytes yet. load_async() and store() fill tiles,
  // whole or in parts; so do copies made by one thread, for example in elect(), which make the barrier expect
  // their own bytes. Then all threads commit() the stage; finishing the kernel throws Error if they never do.
  Stage acquire(Where where = Where::here());
  // Hands a stage that ThreadProducers fill to the consumers as soon as all copies that this thread has
  // issued into it have arrived; this call does not wait for them (PTX ISA, cp.async.mbarrier.arrive). Throws
  // Error if a tile of the pipeline is not filled, if the stage is already committed or belongs to another
  // pipeline, or if only TMA fills it, since such copies commit themselves.
  void commit(const Stage& stage, Where where = Where::here());
  // Declares that the threads write to the tile's stage themselves before they commit, for example through
  // `tile[stage].address()`. Only for stages that ThreadProducers fill.
  void fills(const Stage& stage, const SharedTile& tile, Where where = Where::here());
  // Hands the next stage to the consumers, once it is empty, without filling it, so that they can write to
  // it. Either every consumer writes its part, or one consumer uses the whole stage and calls give_back().
  // They wait for this stage as for a full one.
  void lend(Where where = Where::here());

 private:
  friend class Pipeline;
  explicit Producer(std::shared_ptr<const detail::Ring> ring);
  detail::Filling& filling(const Stage& stage, std::string_view operation) const;
  void check_who_fills(std::string_view operation) const;
  std::shared_ptr<const detail::Ring> ring_;
  Var<u32> stage_, parity_;
};

// The consumers' side, for all threads of each consuming warpgroup.
class Consumer {
 public:
  // Waits until the next stage is full. Data written by threads is then visible to wgmma and TMA too.
  Stage wait(Where where = Where::here());
  // Waits until the next stage is full, without consuming it: the next wait() returns the same stage. Threads
  // that write to the stage before they multiply it use this.
  Stage front(Where where = Where::here()) const;
  // Tests whether the next stage is full, without waiting; if it is, the next wait() does not test again.
  // Call this before a wgmma_wait, which hides the cost of the test. Needs consumer(Peeks::yes).
  void peek(Where where = Where::here());
  // Returns a placeholder whose release has no effect, for use as the initial value of a Var<Stage>.
  Stage none() const;
  // Hands the stage back to the producer. All reads of the stage must be complete, so call wgmma_wait first.
  // Throws Error for a stage of another pipeline. Finishing the kernel throws Error if a stage is never
  // released, since the producer would wait forever.
  void release(const Stage& stage, Where where = Where::here());
  // Does the same if `when` is true; otherwise the stage must be handed back later.
  void release(const Stage& stage, pred when, Where where = Where::here());
  // Releases a stage that was lent to this consumer only, on behalf of all consumers of the CTA; the others
  // skip it. Does not work with CTAs that fill stages together.
  void give_back(const Stage& stage, pred when, Where where = Where::here());
  // Releases stages with a delay of one, so that the products of `stage` run while earlier products finish.
  // After wgmma_wait(1), it hands back the stage before `stage`, unless `first` states that this consumer had
  // no earlier stage. release_last() hands back the last stage, unless `none` states that there was no stage
  // at all.
  void release_previous(const Stage& stage, pred first, Where where = Where::here());
  void release_last(pred none, Where where = Where::here());
  // Skips `count` stages that other consumers use, without waiting for them.
  void skip(u32 count, Where where = Where::here());
  // Puts the consumer's position in the ring into uniform registers (see warp_uniform()). Call it before a
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
  std::optional<Var<pred>> seen_full_;  // whether peek() found the next stage full
  std::optional<Var<s32>>
      refills_;  // number of stages, counted from the next one, that will be refilled; needs `total`
  u32 peer_;     // CTA in which this lane releases stages
  std::shared_ptr<bool> late_;  // whether release_last() was called
};

// Determines whether a consumer calls peek().
enum class Peeks : uint8_t { no, yes };

// Determines who fills the stages of a CTA: only its own producer or, by multicast, also the producers of the
// CTAs of its cluster that are in line with it.
enum class Producers : uint8_t { own, cluster };

// States that all threads of `warpgroups` warpgroups fill the stages, and each thread acquires and commits
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
// CTAs may share such loads of TMA along `axes`, and then each fills the other tiles of its own stages. With
// `exchanges`, two CTAs may also fill a tile of each other's stage with store_async() (registers/memory.h),
// and the waits and releases of all stages order the accesses of threads of both CTAs.
struct ThreadProducers {
  int warpgroups = 1;
  ClusterAxes axes = {};
  bool exchanges = false;
};

class Pipeline {
 public:
  // Each tile of `tiles` must have `stages` stages, and `consumers` warpgroups read every stage. Each stage
  // gets two barriers, full and empty. The full barrier completes when the CTA's producer and all bytes have
  // arrived. Every consuming warp of the CTA arrives at the empty barrier. With Producers::cluster, so do
  // those of all CTAs in line with it, since a producer may write into a peer's stage only after the peer has
  // released it. If fewer warpgroups call consumer(), finishing the kernel throws Error, unless one of them
  // calls give_back() for all.
  Pipeline(Kernel& kernel, int stages, std::vector<SharedTile> tiles, int consumers,
           Producers producers = Producers::own, Where where = Where::here());
  // Threads fill these stages. The full barrier completes when each thread has committed,
  // and all copies that the threads have issued have arrived.
  Pipeline(Kernel& kernel, int stages, std::vector<SharedTile> tiles, int consumers,
           ThreadProducers producers, Where where = Where::here());
  // CTAs fill stages together along `axes` only; Producers::cluster means all axes of the
  // cluster. Every stage needs a load that is shared along each of these axes. Without one, a CTA could
  // release a stage for the second time before another has released it once, and the producer would mistake
  // the second release for the missing one. A missing load is an Error when the kernel is finished.
  Pipeline(Kernel& kernel, int stages, std::vector<SharedTile> tiles, int consumers, ClusterAxes axes,
           Where where = Where::here());
  Pipeline(const Pipeline&) = delete;

  Producer producer() const { return Producer(ring_); }
  // `total` is the number of stages that the producer fills altogether, for all consumers; it must be the
  // same in all CTAs of a cluster. With `total`, the last stages, which are not filled again, are not handed
  // back, so with Producers::cluster a CTA may exit while others still run. Without `total`, the CTAs wait
  // for each other before they exit.
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

// The handle of one of the warpgroups that take turns.
class WarpgroupTurn {
 public:
  // All threads of the warpgroup call these functions alternately: first wait(), which returns when the
  // previous warpgroup has passed, and then pass().
  void wait(Where where = Where::here());
  void pass(Where where = Where::here());
  // Passes the turn only once `known` has been computed; its value does not matter. Otherwise ptxas could
  // move this code to an earlier point.
  void pass_after(pred known, Where where = Where::here());

 private:
  friend class Turns;
  WarpgroupTurn(const Barriers& turns, u32 index);
  Barriers turns_;
  u32 index_;
  Var<u32> parity_;
};

// Lets the warpgroups of a role take turns, from warpgroup 0 to the last and then from 0 again. Consumers
// that take tiles in turn need this: a consumer that waits for stages long before they are filled could
// mistake an earlier phase of a barrier for its own.
class Turns {
 public:
  Turns(Kernel& kernel, int warpgroups, Where where = Where::here());

  // Returns the turns of a warpgroup, which must call this in its role.
  WarpgroupTurn of(u32 warpgroup) const { return {turns_, warpgroup}; }

 private:
  Barriers turns_;  // one for each warpgroup, completed by the pass() of the previous warpgroup
};

}  // namespace ptxbuilder

// Defines loops over the steps of a grid. A CTA's steps are determined either by a rule that all roles
// evaluate, or by a counter from which the CTA takes numbers.
#pragma once

#include "ptxbuilder/tile/barrier.h"
#include "ptxbuilder/tile/grid.h"

namespace ptxbuilder {

// A group of `size` members that share the steps of a loop. `index` is the number of the member that executes
// the code.
struct Collective {
  u32 index = 0, size = 1;
};
// Returns the collective of the members along the named axes of the grid, cluster or role. The last axis
// varies fastest.
Collective collective(std::initializer_list<std::string_view> axes, Where where = Where::here());

// Describes one step to the body of nd_loop().
struct LoopStep {
  GridIndex index;
  u32 number;  // number of this step among this member's steps, counted from 0
};

// The options of nd_loop().
struct LoopOptions {
  // The number of steps of a tile along each axis, which must divide the length of the axis. The grid is
  // traversed tile by tile, and the steps of a tile are consecutive. If `tiling` is empty, the grid is
  // traversed row by row.
  std::vector<int> tiling = {};
};

// Runs `body` for the steps of a grid that belong to this member of the collective: steps index, index +
// size, and so on, in row-major order. The sizes of axes may be device values. For example, if four members
// share a grid of 2 x 3 steps, the first member gets (0,0) and (1,1), and the last gets (1,0).
//
//   k.grid({{"cta", "multiprocessors"}});
//   nd_loop({{"m", rows}, {"n", cols}}, collective({"cta"}), [&](const LoopStep& s) { ... s.index["m"] ...
//   });
//
// Throws an Error that names the axis if an axis has no steps or the tiling does not divide it. If the length
// of the axis is a device value, the kernel traps instead.
void nd_loop(const GridShape& grid, const Collective& who, const LoopOptions& options,
             const std::function<void(const LoopStep&)>& body, Where where = Where::here());
inline void nd_loop(const GridShape& grid, const Collective& who,
                    const std::function<void(const LoopStep&)>& body, Where where = Where::here()) {
  nd_loop(grid, who, {}, body, where);
}
// Runs `body` like the overloads above, and also passes a value from step to step; returns the last value.
template <class T>
T nd_loop(const GridShape& grid, const Collective& who, const LoopOptions& options, const T& init,
          const std::type_identity_t<std::function<T(const LoopStep&, const T&)>>& body,
          Where where = Where::here()) {
  AtLine line(where);
  Var<T> carry(init);
  nd_loop(grid, who, options, [&](const LoopStep& step) { carry = body(step, carry.value()); });
  return carry;
}

// A counter in global memory from which CTAs take the numbers of their work items. The counter must be zero
// before the first launch, and is zero again after each launch. Every CTA takes one number too many, and the
// last CTA to do so resets the counter. Overlapping launches need separate counters, as do different loops of
// a kernel. The grid must run along x. In each CTA, one thread calls take() until it returns `all` or more,
// and does not call it again. `all` must be at most 2^31 minus the number of CTAs. If the counter did not
// begin at 0, the launch traps at the source line of take() or of the loop; with --checks, the kernel also
// reports the number taken.
class WorkCounter {
 public:
  explicit WorkCounter(gptr<u32> counter) : counter_(counter) {}
  // Returns the next number, or a number of at least `all` if no work is left.
  u32 take(u32 all, Where where = Where::here()) const;

 private:
  gptr<u32> counter_;
};

// Passes words from one thread of a CTA to other threads, in rounds. The thread can announce a round's words
// several rounds before the readers need them.
class Announcements {
 public:
  // Makes `places` places of `words` words each, which the rounds use cyclically. A place is free again after
  // calls to done() have made `readers` arrivals.
  Announcements(Kernel& kernel, int places, int words, int readers, const std::string& name = "work",
                Where where = Where::here());

  // Waits until the place for this round is free. The announcing thread calls begin(), writes the words to
  // the place, and then calls publish().
  sptr<u32> begin(u32 round, Where where = Where::here()) const;
  void publish(u32 round, Where where = Where::here()) const;
  // Waits until the words of the round have been published. Each reader calls this function, and may read the
  // words until it calls done().
  sptr<u32> read(u32 round, Where where = Where::here()) const;
  // Arrives to free the place of a round. Each thread whose `stands` is true makes one of the `readers`
  // arrivals.
  void done(u32 round, pred stands, Where where = Where::here()) const;

 private:
  sptr<u32> place(u32 round) const;
  int places_, words_;
  SharedTile tile_;
  Barriers announced_, read_;
};

// Steps that CTAs take from an atomic counter when they need them, like dynamic_scheduling_loop in Pallas,
// but on sm_90. Among the roles that call each(), the role emitted first takes the numbers, in one thread,
// and announces them to the other roles. These other roles have `reading_warpgroups` warpgroups, in which all
// threads call each().
//
// In the following example, two computing warpgroups use the steps as SpecializedOptions::tiles:
//
//   DynamicSteps tiles(k, counter, rows * cols, 2);
//   options.tiles = tiles.order([&](u32 i) { return GridIndex({"row", "col"}, {i / cols, i % cols}); });
class DynamicSteps {
 public:
  // Throws Error for a kernel with clusters, because a cluster's CTAs would not take the same steps.
  // Kernel::finish() throws Error unless exactly `reading_warpgroups` warpgroups read the steps.
  DynamicSteps(Kernel& kernel, gptr<u32> counter, u32 steps, int reading_warpgroups,
               Where where = Where::here());

  // Runs `body` for each step of this CTA. Each role may call this function once.
  void each(const std::function<void(u32 step)>& body, Where where = Where::here()) const;
  // Returns these steps as the tile order of a pipeline that loads with TMA. `index` maps a step to its tile.
  std::function<void(const std::function<void(const GridIndex&)>&)> order(std::function<GridIndex(u32)> index,
                                                                          Where where = Where::here()) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Runs `body` for steps that the CTA takes from a counter. All threads of the CTA must make this call outside
// roles, branches and loops. The threads are synchronized between two steps.
void dynamic_scheduling_loop(Kernel& kernel, gptr<u32> counter, const GridShape& grid,
                             const std::function<void(const LoopStep&)>& body, Where where = Where::here());

// Runs `body` for steps that the CTA takes with cluster launch control, on sm_100 and later, without a
// counter. A launch has one CTA for each step, and a running CTA takes over the work of CTAs that have not
// started (PTX ISA, clusterlaunchcontrol). The index of a step is the index in the grid of the CTA that the
// step replaces. Its axes have the names that were passed to Kernel::grid(), or "z", "y", "x". The code
// follows the manual and is accepted by ptxas, but it has not been tested on a device.
void dynamic_scheduling_loop(Kernel& kernel, const std::function<void(const LoopStep&)>& body,
                             Where where = Where::here());

}  // namespace ptxbuilder

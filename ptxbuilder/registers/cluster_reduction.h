// Reduces scalars or tiles across the CTAs of a cluster, through distributed shared memory. Each thread holds
// one value, or its elements of a tile.
//
//   k.cluster(4);
//   ClusterReduction across(k);                                              // outside of roles
//   f32 most = across.reduce(Reduction::max, reduce_all(Reduction::max, x)); // in all threads of the cluster
#pragma once

#include "ptxbuilder/registers/tile.h"
#include "ptxbuilder/tile/barrier.h"

namespace ptxbuilder {

// Reduces values across the CTAs in line along one axis of the cluster. Each thread's value is combined with
// the values of the threads that have the same number in the other CTAs, and each of these threads gets the
// result. Values are combined in the order of the CTAs, so all threads get the same bits, and results are
// reproducible. CTAs do not have to synchronize before or after a call, and another call may follow
// immediately. If there is only one CTA in line, each thread's value is its result, and no code is emitted.
class ClusterReduction {
 public:
  // Call Kernel::cluster() before this constructor, and sync_cluster() or the first role after it. The
  // default axis is the only axis along which the cluster has several CTAs. If there are several such axes
  // and no axis is given, the constructor throws Error.
  explicit ClusterReduction(Kernel& kernel, std::optional<ClusterAxis> axis = std::nullopt,
                            Where where = Where::here());

  // Reduce one value from each thread. All threads of one role or, without roles, of the CTA must make each
  // call, and all CTAs in line must make the same number of calls. These functions throw Error if another
  // role has already made a call, because each role needs its own ClusterReduction. They use 8 bytes of
  // shared memory for each thread.
  f32 reduce(Reduction operation, f32 x, Where where = Where::here());
  s32 reduce(Reduction operation, s32 x, Where where = Where::here());
  u32 reduce(Reduction operation, u32 x, Where where = Where::here());
  // Reduces each element of the tile. f16 and bf16 are reduced in f32. Uses 8 bytes of shared memory for each
  // 32-bit value of each thread.
  template <TileLike X>
  requires NumberElement<ElementOf<X>> RegisterTile<ElementOf<X>> reduce(Reduction operation, const X& x,
                                                                         Where where = Where::here()) {
    AtLine line(where);
    return RegisterTile<ElementOf<X>>(reduced(operation, detail::values_of(x)));
  }

 private:
  // A role uses two buffers alternately. Between two writes of a thread to the same buffer, there is a call
  // that uses the other buffer. In this call, the thread waits until all threads have arrived, and a thread
  // arrives only after it has read the first buffer.
  struct Buffers {
    int role, threads;
    uint32_t offset;
    int bytes;  // size of one buffer
  };

  detail::TileValues reduced(Reduction operation, const detail::TileValues& x);
  std::vector<u32> exchange(const std::vector<u32>& mine, const std::function<u32(u32, u32)>& combine);
  const Buffers& buffers(int values);

  Kernel& kernel_;
  ClusterAxes axis_;
  std::optional<ClusterBarriers> written_;  // empty if there is only one CTA in line
  std::optional<Phases> phases_;
  std::optional<Buffers> buffers_;
};

}  // namespace ptxbuilder

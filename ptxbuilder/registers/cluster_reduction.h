// Reduces a scalar or a tile that each thread holds across the CTAs of a cluster, through distributed shared
// memory.
//
//   k.cluster(4);
//   ClusterReduction across(k);                                              // outside of roles
//   f32 most = across.reduce(Reduction::max, reduce_all(Reduction::max, x)); // in all threads of the cluster
#pragma once

#include "ptxbuilder/registers/tile.h"
#include "ptxbuilder/tile/barrier.h"

namespace ptxbuilder {

// Reduces each thread's value together with the values of the threads with the same number in the CTAs in
// line with its own along one axis of the cluster; each of these threads gets the result. Values are combined
// in the order of the CTAs, so all threads get the same bits, and results are reproducible. CTAs do not have
// to synchronize before or after a call, and another call may follow immediately. If there is only one CTA in
// line, it gets its own values back, and no code is emitted.
class ClusterReduction {
 public:
  // Call Kernel::cluster() first, and sync_cluster() or the first role afterwards. The default axis is the
  // only one along which the cluster has several CTAs; throws Error if there are several such axes.
  explicit ClusterReduction(Kernel& kernel, std::optional<ClusterAxis> axis = std::nullopt,
                            Where where = Where::here());

  // All threads of one role or, without roles, of the CTA make each call, and all CTAs in line make the same
  // number of calls. Throws Error if another role has already made a call: each role needs its own
  // ClusterReduction. A call uses 8 bytes of shared memory for each value of each thread.
  f32 reduce(Reduction operation, f32 x, Where where = Where::here());
  s32 reduce(Reduction operation, s32 x, Where where = Where::here());
  u32 reduce(Reduction operation, u32 x, Where where = Where::here());
  // Reduces each element of the tile; f16 and bf16 are reduced in f32.
  template <TileLike X>
  requires NumberElement<ElementOf<X>> RegisterTile<ElementOf<X>> reduce(Reduction operation, const X& x,
                                                                         Where where = Where::here()) {
    AtLine line(where);
    return RegisterTile<ElementOf<X>>(reduced(operation, detail::values_of(x)));
  }

 private:
  // A role uses two buffers in turn. When a thread writes a buffer for the second time, it has waited for the
  // call in between, for which all threads arrived only after they had read the buffer.
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

// The way out of gemm(): what becomes of the sums of a tile, from one CTA or several, until they are stored.
#pragma once

#include "kernels/gemm/parameters.h"
#include "kernels/gemm/scheduler.h"
#include "kernels/gemm/staged_operand.h"
#include "ptxbuilder/product/cluster_sum.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/product/stream_sum.h"

namespace ptxbuilder::kernels {

// How CTAs that divide the k of a tile add up their sums; with none of both, each tile is one CTA's.
struct SharedSums {
  std::optional<ClusterSum> cluster;  // split k
  std::optional<StreamSum> stream;    // stream-K

  SharedSums(Kernel& kernel, const GemmTile& tile, const GemmParameters& parameters);
};

class GemmEpilogue {
 public:
  // Of a warpgroup of the consumers, to be made in its role. `x` is in the ring, whose stages are all read
  // when a cluster adds up there.
  GemmEpilogue(const GemmOperation& operation, const GemmTile& tile, const GemmParameters& parameters,
               const SharedSums& shared, const StagedOperand& x, const TileScheduler& scheduler);

  // Takes the sums of `work`, whose rows begin at `row` of the tile.
  void store(Accumulator& sums, const Work& work, u32 row);
  // What a tile's sums wait in, to be stored under the next tile's products; null where they do not.
  DeferredStore* deferred() { return deferred_ ? &*deferred_ : nullptr; }
  // Stores what waits.
  void finish();

 private:
  void store_sums(const StoreSource& sums, const Work& work, u32 row);

  DType type_;
  TensorMap output_;
  const SharedSums& shared_;
  const StagedOperand& x_;
  const TileScheduler& scheduler_;
  StoreOptions options_;
  Epilogue epilogue_;
  std::optional<DeferredStore> deferred_;
};

}  // namespace ptxbuilder::kernels

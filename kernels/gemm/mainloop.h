// Implements the main loop of a gemm() consumer, which multiplies the stages that the producer fills, and
// adds up the products of a tile.
#pragma once

#include "kernels/gemm/block_scales.h"
#include "kernels/gemm/packed_operand.h"
#include "kernels/gemm/scheduler.h"
#include "kernels/gemm/sparse_metadata.h"
#include "kernels/gemm/staged_operand.h"
#include "ptxbuilder/product/accumulator.h"
#include "ptxbuilder/product/store.h"
#include "ptxbuilder/tile/profile.h"

namespace ptxbuilder::kernels {

class Mainloop {
 public:
  // A consumer warpgroup constructs this object in its role; it multiplies its rows of `x` by all of `y`.
  // `scales` are present if the operation has block scales, `weights` if `x` is packed, and `metadata` if `x`
  // is sparse.
  Mainloop(const GemmOperation& operation, const GemmTile& tile, const StagedOperand& x,
           const StagedOperand& y, const Pipeline& pipe, const TileScheduler& scheduler,
           const std::optional<BlockScales>& scales, const std::optional<PackedOperand>& weights,
           const std::optional<SparseMetadata>& metadata);

  // Makes ping-pong warpgroups multiply alternately. This warpgroup has number `index`.
  void take_turns(const Turns& turns, u32 index);

  // Computes the sums of `work` for this warpgroup's rows of the tile, which begin at `row`. Returns a
  // reference to the sums, which remain valid until the next run. If `under` is not null, it stores the
  // previous tile while the first products run.
  Accumulator& run(const Work& work, u32 row, DeferredStore* under);

 private:
  void multiply_all(const Work& work, u32 row, DeferredStore* under);
  void multiply(const Stage& stage, u32 row);
  void multiply_packed(const Stage& stage, u32 row);
  void add_scaled(const RegisterTile<f32>& scales);
  void step(u32 row, const std::function<void()>& meanwhile);
  void late_step(u32 row, u32 kt, u32 first);
  void scaled_step(const Work& work, u32 row, u32 kt);

  const GemmTile& tile_;
  const StagedOperand &x_, &y_;
  const std::optional<BlockScales>& scales_;
  const std::optional<PackedOperand>& weights_;
  const std::optional<SparseMetadata>& metadata_;
  u32 depth_;  // stages per tile
  bool promotes_;
  bool may_be_empty_;  // true: a piece of work may have no stages
  bool late_;
  Accumulator acc_;
  Consumer ring_;
  RegisterTile<f32> zeros_;
  std::optional<Accumulator> total_;  // f32 sums, if the operation promotes; they collect the tensor core's
                                      // sums over 128 values of k or over a group
  std::optional<WarpgroupTurn> turn_;
};

}  // namespace ptxbuilder::kernels

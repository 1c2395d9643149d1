// Packed weights as the operand of gemm() with wgmma's rows: how a stage of them is loaded, and how a
// warpgroup turns them into a 16-bit operand in registers.
#pragma once

#include <optional>

#include "kernels/gemm/parameters.h"
#include "kernels/gemm/work.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/tile/bulk.h"
#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder::kernels {

// A part of a stage has so much of k, with one scale.
constexpr int part_depth(const PackedForm& form) { return form.group == 32 ? 32 : 64; }

class PackedOperand {
 public:
  PackedOperand(Kernel& kernel, const GemmOperation& operation, const TilePlan& tile,
                const GemmParameters& parameters);

  const SharedTile& tile() const { return tile_; }

  // Loads stage `kt` of the tile that begins at wgmma's row `first`, of the work's group if there are groups.
  void load(const Stage& stage, u32 kt, u32 first, const Work& work) const;

  // A stage is multiplied part by part along k. Several parts may belong to a group.
  int parts() const { return kPackedDepth / depth(); }
  int depth() const { return part_depth(form_); }
  int parts_of_group() const { return form_.group == 0 ? parts() : form_.group / depth(); }

  // Adds the products of a part's weights to `sums`, as a group of wgmmas: of the weights of 64 rows of the
  // tile, from `row` on. `columns` is the part of the other operand's stage.
  void multiply(const Stage& stage, u32 row, int part, Accumulator& sums, const TileView& columns) const;

  // Returns the scales of the rows, as one value for each, of the group that a part belongs to.
  RegisterTile<f32> scales(const Stage& stage, u32 row, int part) const;

 private:
  smem block(const Stage& stage, u32 row) const;
  // Returns the number of a row's scale, and of its zero, for a part.
  u32 line(u32 row, int part) const;
  std::vector<u32> words(const smem& block, int part) const;
  template <class T>
  RegisterTile<T> converted(const smem& block, int part) const;
  template <class T>
  RegisterTile<T> without_zeros(const RegisterTile<T>& weights, const smem& block, int part) const;

  PackedForm form_;
  PackedBlock block_;
  DType type_;  // of the operand in registers
  SharedTile tile_;
  u32 lines_;                // of blocks along k, one for each 64 rows
  IndexedRows<u32> blocks_;  // the lines of all groups
};

}  // namespace ptxbuilder::kernels

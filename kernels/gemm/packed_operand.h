// Packed weights as the operand of gemm() along wgmma's rows: how a stage of them is loaded, and how a
// warpgroup converts them into a 16-bit operand in registers.
#pragma once

#include <optional>

#include "kernels/gemm/parameters.h"
#include "kernels/gemm/work.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/tile/bulk.h"
#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder::kernels {

// Returns how many values of k a part of a stage has; a part has one scale per row.
constexpr int part_depth(const PackedForm& form) { return form.group == 32 ? 32 : 64; }

class PackedOperand {
 public:
  PackedOperand(Kernel& kernel, const GemmOperation& operation, const TilePlan& tile,
                const GemmParameters& parameters);

  const SharedTile& tile() const { return tile_; }

  // Loads stage `kt` of the tile that begins at wgmma row `first`, from the work's group if there are groups.
  void load(const Stage& stage, u32 kt, u32 first, const Work& work) const;

  // Returns the number of parts along k in which a stage is multiplied. Several parts may belong to a group.
  int parts() const { return kPackedDepth / depth(); }
  int depth() const { return part_depth(form_); }
  int parts_of_group() const { return form_.group == 0 ? parts() : form_.group / depth(); }

  // Adds the products of a part's weights to `sums`, as a group of wgmmas. The weights are those of 64 rows
  // of the tile, beginning at `row`; `columns` is the corresponding part of the other operand's stage.
  void multiply(const Stage& stage, u32 row, int part, Accumulator& sums, const TileView& columns) const;

  // Returns the scales, one value for each row, of the group that a part belongs to.
  RegisterTile<f32> scales(const Stage& stage, u32 row, int part) const;

 private:
  smem block(const Stage& stage, u32 row) const;
  // Returns the index of the scale and of the zero point of a row, for a part.
  u32 line(u32 row, int part) const;
  std::vector<u32> words(const smem& block, int part) const;
  template <class T>
  RegisterTile<T> converted(const smem& block, int part) const;
  template <class T>
  RegisterTile<T> without_zeros(const RegisterTile<T>& weights, const smem& block, int part) const;

  PackedForm form_;
  PackedBlock block_;
  DType type_;  // type of the operand in registers
  SharedTile tile_;
  u32 lines_;                // number of lines of blocks along k, one line for every 64 rows
  IndexedRows<u32> blocks_;  // the blocks of all groups, in lines
};

}  // namespace ptxbuilder::kernels

// Implements packed weights as the operand of gemm() along the rows of wgmma. Loads stages of packed weights
// and converts them, in the registers of a warpgroup, into a 16-bit operand.
#pragma once

#include <optional>

#include "kernels/gemm/parameters.h"
#include "kernels/gemm/work.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/tile/bulk.h"
#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder::kernels {

// Returns the number of values along k in a part of a stage. All values of a row within a part share one
// scale.
constexpr int part_depth(const PackedForm& form) { return form.group == 32 ? 32 : 64; }

class PackedOperand {
 public:
  PackedOperand(Kernel& kernel, const GemmOperation& operation, const TilePlan& tile,
                const GemmParameters& parameters);

  const SharedTile& tile() const { return tile_; }

  // Loads stage `kt` of the tile that begins at wgmma row `first`. If there are groups, the weights are those
  // of the group of `work`.
  void load(const Stage& stage, u32 kt, u32 first, const Work& work) const;

  // Returns the number of parts into which a stage is divided along k. A group of weights may span several
  // parts.
  int parts() const { return kPackedDepth / depth(); }
  int depth() const { return part_depth(form_); }
  int parts_of_group() const { return form_.group == 0 ? parts() : form_.group / depth(); }

  // Multiplies one part of the weights by `columns`, the corresponding part of the other operand's stage, and
  // adds the products to `sums` as one group of wgmmas. The weights are those of the tile's 64 rows that
  // begin at `row`.
  void multiply(const Stage& stage, u32 row, int part, Accumulator& sums, const TileView& columns) const;

  // Returns the scales of the group that contains part `part`, one for each row.
  RegisterTile<f32> scales(const Stage& stage, u32 row, int part) const;

 private:
  smem block(const Stage& stage, u32 row) const;
  // Returns the index, within a block, of the scale and of the zero point for a row and a part.
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
  u32 lines_;                // number of lines of blocks in a matrix; a line runs along k and covers 64 rows
  IndexedRows<u32> blocks_;  // the blocks of all groups, arranged in lines
};

}  // namespace ptxbuilder::kernels

// The metadata of a sparse A or B in gemm(). TMA loads it together with the operands' stages.
#pragma once

#include <vector>

#include "kernels/gemm/parameters.h"
#include "ptxbuilder/plan/sparse_matrix.h"
#include "ptxbuilder/product/mma.h"
#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder::kernels {

class SparseMetadata {
 public:
  SparseMetadata(Kernel& k, const GemmOperation& o, const TilePlan& t, const GemmParameters& p)
      : map_(p.get<TensorMap>(o.a_metadata ? "a_metadata" : "b_metadata")),
        tile_(k.shared(DType::s32,
                       {t.bk / kSparseBlock, t.bm / kSparseBlock * kSparseBlockWords, kSparseBlockWords},
                       SwizzleNone, t.stages, "metadata")) {}

  // Returns the tile that holds the metadata of a stage.
  const SharedTile& tile() const { return tile_; }

  // Loads the metadata of the tile that begins at row `row` and, along k, at `depth`. `outer` holds the
  // coordinates that follow those of a word within a matrix.
  void load(const Stage& s, u32 depth, u32 row, const std::vector<u32>& outer) const {
    std::vector<u32> at = {word(row), depth / kSparseBlock};
    at.insert(at.end(), outer.begin(), outer.end());
    tma_load(tile_[s], map_, at);
  }

  // Combines `values`, which are `count` rows of the tile beginning at `row`, with their metadata.
  SparseTile of(const TileView& values, const Stage& s, u32 row, int count) const {
    const int words = count / kSparseBlock * kSparseBlockWords;
    return {values, words == tile_.cols() ? tile_[s] : tile_[s].cols(word(row), words)};
  }

 private:
  // Returns the number of the first metadata word for the block that begins with row `row`.
  static u32 word(u32 row) { return row / kSparseBlock * kSparseBlockWords; }

  TensorMap map_;
  SharedTile tile_;
};

}  // namespace ptxbuilder::kernels

// The scales of blocks of A and B in gemm(). They are loaded with the stages of the ring, and multiply the
// sums of every 128 values of k.
#pragma once

#include <optional>
#include <vector>

#include "kernels/gemm/parameters.h"
#include "kernels/gemm/work.h"
#include "ptxbuilder/product/accumulator.h"
#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder::kernels {

class BlockScales {
 public:
  BlockScales(Kernel& kernel, const GemmOperation& operation, const TilePlan& tile,
              const GemmParameters& parameters);

  // Returns the tiles of a stage other than A and B.
  std::vector<SharedTile> tiles() const { return {a_, b_}; }

  // Loads the scales of stage `kt` of a tile. `of_a` and `of_b` are the coordinates that follow those of a
  // scale; `groups` is the number of groups of rows, if there are any.
  void load(const Stage& stage, u32 kt, const Work& work, const std::optional<u32>& groups,
            const std::vector<u32>& of_a, const std::vector<u32>& of_b) const;

  // The factors of a stage's sums: for A, two numbers in each thread, for its rows; for B, one for each block
  // that the tile overlaps, or one for each column, which is read in place.
  struct Factors {
    RegisterTile<f32> rows;
    std::vector<f32> blocks;
    std::optional<smem> columns;
  };
  // Reads the factors of a warpgroup's rows of the tile, beginning at `row`.
  Factors factors(const Stage& stage, u32 kt, const Work& work, u32 row) const;

  // Returns the number of stages per iteration of the loop. Four are up to 14 % faster than one, and eight
  // are another 2 % faster, but ptxas takes seconds to compile eight. With one factor for each column, there
  // are registers for only one stage, since ptxas would load all factors early.
  int stages_of_turn() const { return by_column_ ? 1 : 4; }

  // Returns a stage to the producer after all lanes of a warp have read the factors they need from it.
  void read() const;

  // Adds sums times their factors to the columns of `total` that begin at `first`.
  void add(Accumulator& total, const Accumulator& sums, const Factors& factors, int first) const;

 private:
  int columns_;  // columns of the tile
  int unit_;     // columns that have the same factor of a block
  bool by_column_, grouped_;
  u32 m_;
  TensorMap map_of_a_, map_of_b_;
  SharedTile a_, b_;
};

}  // namespace ptxbuilder::kernels

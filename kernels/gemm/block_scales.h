// The block scales of A and B in gemm(). They are loaded together with the stages of the ring, and multiply
// the sum of every 128 values of k.
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

  // Returns the tiles that hold the scales of a stage.
  std::vector<SharedTile> tiles() const { return {a_, b_}; }

  // Loads the scales of stage `kt` of a tile. `of_a` and `of_b` hold the coordinates that follow those of a
  // scale within a matrix, such as the batch. `groups` is the number of groups of rows, if there are any.
  void load(const Stage& stage, u32 kt, const Work& work, const std::optional<u32>& groups,
            const std::vector<u32>& of_a, const std::vector<u32>& of_b) const;

  // The factors for a stage's sums. For A (`rows`), each thread holds two factors, one for each of its rows.
  // For B, there is a factor for each block that the tile overlaps (`blocks`), or one for each column, read
  // from shared memory (`columns`).
  struct Factors {
    RegisterTile<f32> rows;
    std::vector<f32> blocks;
    std::optional<smem> columns;
  };
  // Reads the factors for a warpgroup's rows of the tile, which begin at `row`.
  Factors factors(const Stage& stage, u32 kt, const Work& work, u32 row) const;

  // Returns the number of stages that one iteration of the loop processes. Four stages are up to 14 % faster
  // than one. Eight are another 2 % faster, but ptxas takes seconds to compile them. With a factor for each
  // column, the registers suffice for only one stage, because ptxas would load the factors of all stages
  // early.
  int stages_of_turn() const { return by_column_ ? 1 : 4; }

  // Waits until all lanes of the warp have read their factors from a stage, so that the stage may be released
  // to the producer.
  void read() const;

  // Multiplies `sums` by their factors and adds the products to the columns of `total` that begin at `first`.
  void add(Accumulator& total, const Accumulator& sums, const Factors& factors, int first) const;

 private:
  int columns_;  // number of columns in the tile
  int unit_;     // number of columns that share a block's factor
  bool by_column_, grouped_;
  u32 m_;
  TensorMap map_of_a_, map_of_b_;
  SharedTile a_, b_;
};

}  // namespace ptxbuilder::kernels

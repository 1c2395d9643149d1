// How the tiles of a matrix product are divided among the CTAs of a grid.
#pragma once

#include <functional>
#include <optional>

#include "kernels/gemm/config.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::kernels {

// Clusters of 1 to 8 CTAs, each with an SM to itself, that run at once on a GPU of `multiprocessors` SMs. Of
// more than two fewer fit than there are SMs for, since a cluster lies within one GPC: 30 of four on an H100
// (cuOccupancyMaxActiveClusters).
int active_clusters(int ctas, int multiprocessors);

// CTAs along x and y of the grid on `multiprocessors` SMs: as many clusters as fit at once, but no more than
// there are tiles; with stream-K, no more than kStreamShares for each tile, and kStreamCtas in all.
inline constexpr int kStreamShares = 8;
inline constexpr int kStreamCtas = hopper::multiprocessors;
struct GemmGrid {
  uint32_t x, y;
};
GemmGrid gemm_grid(const GemmTile& tile, int64_t m, int64_t n, int64_t batches, int multiprocessors);

// What a CTA does next: a tile, or some of its stages.
struct Work {
  u32 x, y;  // where the tile begins: wgmma's rows and columns of the output
  std::optional<u32> batch;
  u32 first, last;  // the stages from `first` up to, not with, `last`; of a tile's share there may be none
  u32 tile;         // where tiles are divided: its number in the order of all
};

// Says what each CTA of the grid does, in a kernel with the clusters that the tile names. Every role that
// asks is told the same work in the same order. Tiles of all batches lie one below the other, whole clusters
// of each.
class TileScheduler {
 public:
  // Of `batches` products where the operation has batches.
  TileScheduler(const GemmOperation& operation, const GemmTile& tile, u32 m, u32 n, u32 k,
                const std::optional<u32>& batches);

  // Stages of a tile.
  u32 depth() const { return depth_; }
  // Stages of all that this CTA does, all turns together, where tiles are not divided. It is the same for all
  // CTAs of a cluster.
  u32 stages_of_cta() const;

  // Runs `body` for what this CTA does; where tiles are not divided, for what is `turn`'s of it.
  void each_work(Turn turn, const std::function<void(const Work&)>& body) const;

  // Runs `body` for each CTA that does the rest of a tile of which this one does the beginning, in the order
  // of their stages. With stream-K alone.
  void each_cta_behind(const Work& work, const std::function<void(u32 cta)>& body) const;

 private:
  using Body = std::function<void(const Work&)>;
  // A dimension of the output.
  struct Axis {
    u32 extent;
    int length;  // of a tile
    int unit;    // a tile that is moved inside begins at a multiple of it

    u32 begin(u32 tile, bool inside) const;
  };
  static Axis axis(const GemmOperation& operation, const GemmTile& tile, u32 extent, bool rows);

  Work work_at(const TileIndex& at, u32 first, u32 last, u32 number) const;
  void share_of_tile(const Body& body) const;
  void shares_and_tiles(const Body& body) const;
  u32 share_end(u32 ctas) const;

  GemmTile tile_;
  Axis x_, y_;
  bool batched_;
  u32 batch_rows_ = 0, rows_ = 0, cols_ = 0;  // tiles: of one batch, and of all
  u32 depth_ = 0;
  u32 divided_ = 0;  // with stream-K: tiles that are divided, the first ones
  u64 shared_ = 0;   // and the stages of these, of which each CTA has as many
};

}  // namespace ptxbuilder::kernels

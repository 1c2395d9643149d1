// Determines how the tiles of a matrix product are divided among the CTAs of a grid.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "kernels/gemm/group_schedule.h"
#include "kernels/gemm/work.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::kernels {

// Returns how many clusters of `ctas` CTAs (1 to 8) run at once on a GPU with `multiprocessors` SMs, if each
// CTA has an SM to itself. A cluster is within one GPC, so with more than two CTAs, fewer clusters may fit
// than multiprocessors / ctas: 30 clusters of four on an H100 (cuOccupancyMaxActiveClusters).
int active_clusters(int ctas, int multiprocessors);

// The grid, on `multiprocessors` SMs. Along x and y there are as many clusters as fit at once, but no more
// than there are tiles or, with `batches` groups of rows, than there may be. With split_last, each block of
// tiles may have that many clusters, with at most kMostSplitCtas CTAs in total. With split_k, the CTAs that
// divide a tile are along z, and there is a cluster for each block of tiles.
inline constexpr int kMostSplitCtas = hopper::multiprocessors;
struct GemmGrid {
  uint32_t x, y, z = 1;
  uint32_t places = 0;  // with split_last: places for sums that CTAs pass on, at most two per CTA
};
GemmGrid gemm_grid(const GemmTile& tile, int64_t m, int64_t n, int64_t batches, int multiprocessors,
                   bool grouped_rows = false);

// The same grid as rules over the parameters of gemm() (Kernel::grid). `multiprocessors` is a rule.
struct GemmGridRule {
  std::string x, y, z;
};
GemmGridRule gemm_grid_rule(const GemmOperation& operation, const GemmTile& tile,
                            const std::string& multiprocessors = "multiprocessors");

// Returns the bytes of the kernel's parameter "workspace", through which CTAs pass on sums with split_last;
// without split_last it is 0. The workspace may hold anything. Launches that overlap each need their own
// workspace.
size_t gemm_workspace_bytes(const GemmTile& tile, const GemmGrid& grid);

// Describes how `ctas` CTAs process tiles of `depth` stages each. First they process whole tiles, as long as
// there is one for each CTA. The remaining tiles form groups of `tiles` tiles, and each group is divided
// along k into equal shares for `ctas` CTAs. CTAs of different groups that have the same share read the same
// stages at the same time, so that L2 holds these stages for all of them.
struct TileDivision {
  int64_t waves;  // waves of whole tiles
  int64_t rest, groups, tiles, ctas;
};
// `split` is GemmTile::split_last.
TileDivision tile_division(int64_t tiles, int64_t ctas, int64_t depth, int split);

// Determines the work of each CTA of the grid, in a kernel with the clusters that the tile specifies. All
// roles get the same work in the same order. The tiles of all batches are stacked, and each batch is rounded
// up to whole clusters. Groups of k are batches of the output; groups of rows follow each other, and each
// takes whole blocks of a cluster's tiles.
class TileScheduler {
 public:
  // `batches` is the number of products, if the operation has batches; with groups, `groups` finds them.
  TileScheduler(const GemmOperation& operation, const GemmTile& tile, u32 m, u32 n, u32 k,
                const std::optional<u32>& batches, const std::optional<GroupSchedule>& groups);

  // Returns the number of stages of a tile.
  u32 depth() const { return depth_; }
  // Returns the number of stages of all tiles that this CTA processes, over all turns, if tiles are not
  // divided. The number is the same for all CTAs of a cluster. Do not call it for groups, which the device
  // counts.
  u32 stages_of_cta() const;

  // Runs `body` for each piece of this CTA's work; if tiles are not divided, only for the pieces that belong
  // to `turn`.
  void each_work(Turn turn, const std::function<void(const Work&)>& body) const;

 private:
  using Body = std::function<void(const Work&)>;
  // A dimension of the output.
  struct Axis {
    u32 extent;
    int length;  // length of a tile
    int unit;    // a tile that is moved back into the output begins at a multiple of this number

    u32 begin(u32 tile, bool inside) const;
  };
  static Axis axis(const GemmOperation& operation, const GemmTile& tile, u32 extent, bool rows);

  u32 cta_in_cluster() const;
  Work work_at(const TileIndex& at, u32 first, u32 last) const;
  void share_of_tile(const Body& body) const;
  void tiles_and_shares(const std::function<u32()>& total_of,
                        const std::function<Work(u32 number, u32 first, u32 last)>& work_of,
                        const Body& body) const;
  void tiles_of_groups(Turn turn, const Body& body) const;
  Work work_of_rows(u32 number, const GroupPart& part) const;
  u32 blocks_of_rows(u32 rows) const;
  u32 blocks_across() const;

  GemmTile tile_;
  Axis x_, y_;
  bool batched_, groups_along_y_;
  bool skips_rows_of_no_group_;  // rows of no group, whose sums are zeros, have no stages
  const std::optional<GroupSchedule>& groups_;
  std::optional<u32> batches_;
  u32 batch_rows_ = 0, rows_ = 0, cols_ = 0;  // in tiles; rows_ covers all batches
  u32 depth_ = 0;
};

}  // namespace ptxbuilder::kernels

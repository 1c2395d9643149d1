// Divides the tiles of a matrix product among the CTAs of a grid.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "kernels/gemm/group_schedule.h"
#include "kernels/gemm/work.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::kernels {

// Returns how many clusters of `ctas` CTAs (1 to 8) run at once on a GPU with `multiprocessors` SMs if each
// CTA occupies an SM. All CTAs of a cluster run in the same GPC. Therefore, fewer than multiprocessors / ctas
// clusters of more than two CTAs may fit: an H100 runs 30 clusters of four (cuOccupancyMaxActiveClusters).
int active_clusters(int ctas, int multiprocessors);

// The grid of a launch, in CTAs. The number of clusters along x and y is the number that can run at once on
// `multiprocessors` SMs, limited to the number of blocks of tiles. (With `batches` groups of rows, the limit
// is the largest number of blocks that the groups can have.) With split_last, the limit is split_last
// clusters per block of tiles, and kMostSplitCtas CTAs in total. With split_k, the CTAs that divide a tile
// are adjacent along z, and each block of tiles has its own cluster.
inline constexpr int kMostSplitCtas = hopper::multiprocessors;
struct GemmGrid {
  uint32_t x, y, z = 1;
  uint32_t places = 0;  // with split_last: number of places in the workspace for the sums that CTAs pass on,
                        // at most two per CTA
};
GemmGrid gemm_grid(const GemmTile& tile, int64_t m, int64_t n, int64_t batches, int multiprocessors,
                   bool grouped_rows = false);

// The grid of gemm_grid(), expressed as rules over the parameters of gemm() (see Kernel::grid).
// `multiprocessors` is a rule for the number of SMs.
struct GemmGridRule {
  std::string x, y, z;
};
GemmGridRule gemm_grid_rule(const GemmOperation& operation, const GemmTile& tile,
                            const std::string& multiprocessors = "multiprocessors");

// Returns the size in bytes of the memory for the kernel's parameter "workspace"; 0 without split_last. CTAs
// pass on sums through this memory. Its contents before the launch do not matter. Overlapping launches need
// separate workspaces.
size_t gemm_workspace_bytes(const GemmTile& tile, const GemmGrid& grid);

// Describes how CTAs process tiles that are divided in the last wave (split_last). In the first `waves`
// waves, each CTA processes a complete tile. The `rest` tiles that remain form `groups` groups of `tiles`
// tiles each. Each group is divided along k into equal shares for `ctas` CTAs. CTAs that have corresponding
// shares of different groups read the same stages at the same time, so that L2 serves all of them.
struct TileDivision {
  int64_t waves;  // waves in which tiles are not divided
  int64_t rest, groups, tiles, ctas;
};
// Returns the division of `tiles` tiles of `depth` stages each among `ctas` CTAs. `split` is
// GemmTile::split_last.
TileDivision tile_division(int64_t tiles, int64_t ctas, int64_t depth, int split);

// Determines the work of each CTA in a kernel with the clusters that the tile specifies. All roles receive
// the same work in the same order. The tiles of all batches are stacked, and each batch is rounded up to
// whole clusters. Groups of k are treated as batches of the output. Groups of rows follow each other, and
// each is rounded up to whole blocks, where a block is the tiles of one cluster.
class TileScheduler {
 public:
  // `batches` is the number of batches, if the operation is batched. `groups`, if set, finds the tiles of
  // groups.
  TileScheduler(const GemmOperation& operation, const GemmTile& tile, u32 m, u32 n, u32 k,
                const std::optional<u32>& batches, const std::optional<GroupSchedule>& groups);

  // Returns the number of stages in a tile.
  u32 depth() const { return depth_; }
  // Returns the total number of stages that this CTA processes, over all turns. The number is the same for
  // all CTAs of a cluster. May be called only if tiles are not divided and there are no groups.
  u32 stages_of_cta() const;

  // Runs `body` for each piece of this CTA's work. If tiles are not divided, pieces that do not belong to
  // `turn` are skipped.
  void each_work(Turn turn, const std::function<void(const Work&)>& body) const;

 private:
  using Body = std::function<void(const Work&)>;
  // A dimension of the output, divided into tiles.
  struct Axis {
    u32 extent;
    int length;  // length of a tile
    int unit;    // a tile that is moved back to end inside the output begins at a multiple of this number

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
  bool skips_rows_of_no_group_;  // true: tiles of rows outside all groups have no stages, since their sums
                                 // are 0
  const std::optional<GroupSchedule>& groups_;
  std::optional<u32> batches_;
  u32 batch_rows_ = 0, rows_ = 0, cols_ = 0;  // in tiles; rows_ counts all batches
  u32 depth_ = 0;
};

}  // namespace ptxbuilder::kernels

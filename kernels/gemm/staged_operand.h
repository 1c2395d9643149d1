// An operand of wgmma in the ring of stages. Defines how TMA loads a stage and how wgmma reads it.
#pragma once

#include "kernels/gemm/mode_axis.h"
#include "kernels/gemm/window_axis.h"
#include "ptxbuilder/tile/pipeline.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder::kernels {

// A or B of a product, and the shared-memory tile that holds its stages.
struct StagedOperand {
  std::optional<TensorMap> map;  // empty if threads load the operand
  bool k_major;
  int extent;  // length of the output tile along this operand's axis (m or n)
  SharedTile tile;
  int box, k_box = 0;  // elements of a tile along the first mode of m or n, and of a stage along the first
                       // mode of k; 0: all
  std::optional<WindowAxis> windows = {};  // set if the operand consists of windows of pixels
  bool is_sparse = false;                  // true: only half of the values along k are stored

  // These functions return the coordinates of an element of m or n (at_extent()) or of k (at_k()) along the
  // modes of `axis`.
  std::vector<u32> at_extent(const ModeAxis& axis, u32 element) const {
    return windows && k_major ? windows->at(element) : axis.at(element);
  }
  std::vector<u32> at_k(const ModeAxis& axis, u32 element) const {
    return windows && !k_major ? windows->at(element) : axis.at(is_sparse ? element / 2 : element);
  }

  // Loads a stage. `shared_along` selects the CTAs of the cluster that need the same data. `k` and `start`
  // are the stage's first coordinates along the modes of k and along the modes of m or n. `outer` holds the
  // coordinates that follow, such as the batch.
  void load(const Stage& s, ClusterAxis shared_along, const std::vector<u32>& k,
            const std::vector<u32>& start, const std::vector<u32>& outer) const {
    // The tensor map lists the contiguous mode first, then all modes of the rows.
    const std::vector<u32>&along = k_major ? k : start, &rows = k_major ? start : k;
    std::vector<u32> at = {along[0]};
    at.insert(at.end(), rows.begin(), rows.end());
    if (windows) return tma_load(tile[s], *map, at, windows->offsets({along[1], along[2]}));
    const size_t second_k = at.size();
    at.insert(at.end(), along.begin() + 1, along.end());
    at.insert(at.end(), outer.begin(), outer.end());
    const auto copy = [&](const TileView& to, int rows_of_box) {
      if (rows_of_box != 0)
        tma_load(to.multicast(shared_along), *map, at, FoldedRows{rows_of_box});
      else
        tma_load(to.multicast(shared_along), *map, at);
    };
    if (!k_major || k_box == 0) return copy(tile[s], k_major ? box : k_box);
    // The stage has one panel for each element along the second mode of k.
    for (int first = 0; first < tile.cols(); first += k_box) {
      copy(tile[s].cols(first, k_box), box);
      at[second_k] = at[second_k] + 1;
    }
  }
  // Returns a view of a stage's rows (or columns) `first` to `first` + `count` - 1 along m or n.
  TileView view(const Stage& s, u32 first, int count) const {
    if (k_major) return count == extent ? tile[s] : tile[s].rows(first, count);
    return (count == extent ? tile[s] : tile[s].cols(first, count)).transposed();
  }
  // Returns a view of all elements along m or n, for the `depth` values of k that begin at `first`.
  TileView part(const Stage& s, int first, int depth) const {
    return k_major ? tile[s].cols(first, depth) : tile[s].rows(first, depth).transposed();
  }
};

// Declares the operand's tile in the kernel and returns the operand. If `part` is not 0, the tile may be read
// in parts of `part` values along k.
inline StagedOperand staged_operand(Kernel& k, const char* name, std::optional<TensorMap> map, DType type,
                                    bool k_major, int extent, const GemmTile& t, int box = 0, int k_box = 0,
                                    std::optional<WindowAxis> windows = std::nullopt, int part = 0,
                                    bool is_sparse = false) {
  if (k_box != 0) part = k_box;  // a panel is k_box deep
  const int depth = is_sparse ? t.bk / 2 : t.bk;
  TileShape shape = k_major ? TileShape{extent, depth} : TileShape{depth, extent};
  const Swizzle swizzle = widest_swizzle((k_major && part != 0 ? part : shape.cols) * size_of(type));
  return {map, k_major, extent,  k.shared(type, shape, swizzle, t.stages, name),
          box, k_box,   windows, is_sparse};
}

}  // namespace ptxbuilder::kernels

// An operand of wgmma in the ring of stages: how a stage of it is loaded by TMA, and how it is read.
#pragma once

#include "kernels/gemm/config.h"
#include "ptxbuilder/tile/pipeline.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder::kernels {

struct StagedOperand {
  std::optional<TensorMap> map;  // none where threads load it
  bool k_major;
  int extent;  // rows, or columns, of the output's tile
  SharedTile tile;

  // `shared_along`: the CTAs of the cluster that need the same.
  // `outer`: coordinates behind those of an element of a matrix.
  void load(const Stage& s, std::optional<ClusterAxis> shared_along, u32 k, u32 start,
            const std::vector<u32>& outer) const {
    std::vector<u32> at = k_major ? std::vector<u32>{k, start} : std::vector<u32>{start, k};
    at.insert(at.end(), outer.begin(), outer.end());
    tma_load(shared_along ? tile[s].multicast(*shared_along) : LoadView(tile[s]), *map, at);
  }
  // `count` of the extent, from `first`.
  TileView view(const Stage& s, u32 first, int count) const {
    if (k_major) return count == extent ? tile[s] : tile[s].rows(first, count);
    return (count == extent ? tile[s] : tile[s].cols(first, count)).transposed();
  }
};

inline StagedOperand staged_operand(Kernel& k, const char* name, std::optional<TensorMap> map, DType type,
                                    bool k_major, int extent, const GemmTile& t) {
  TileShape shape = k_major ? TileShape{extent, t.bk} : TileShape{t.bk, extent};
  return {map, k_major, extent,
          k.shared(type, shape, widest_swizzle(shape.cols * size_of(type)), t.stages, name)};
}

}  // namespace ptxbuilder::kernels

// A tile in shared memory that gathers arbitrary rows of a matrix. The threads of a warpgroup copy each row
// into the tile.
#pragma once

#include "ptxbuilder/tile/cooperative_copy.h"
#include "ptxbuilder/tile/kernel.h"
#include "ptxbuilder/tile/pipeline.h"

namespace ptxbuilder::kernels {

class GatheredTile {
 public:
  // The role that fills the tile constructs this object, and all threads of that role must call the functions
  // below. The parameters that describe the matrix are those of GatheredRows.
  GatheredTile(DType type, const SharedTile& tile, gmem start, u32 rows, u32 cols, u32 stride)
      : tile_(tile),
        copy_(copy_of(type, tile)),
        thread_(tid_x() % kThreads),
        rows_(copy_, start, rows, cols, stride, thread_) {}

  // Selects the rows that the next loads copy. The arguments are those of GatheredRows::point().
  template <class... Rows>
  void point(const Rows&... rows) {
    by_copying([&] { rows_.point(rows...); });
  }
  // Copies the selected rows, beginning at column `col` of the matrix, into stage `s`.
  void load(const Stage& s, u32 col) const {
    by_copying([&] { load_async(tile_[s], rows_, col); });
  }

 private:
  static constexpr int kBytes = 16, kThreads = 128;

  // Returns a copy in which every thread copies 16 bytes at a time and the threads together cover a whole
  // number of rows.
  static TiledCopy copy_of(DType type, const SharedTile& tile) {
    const int elements = kBytes / size_of(type), pieces = tile.cols() / elements;
    int rows = 1;
    while (rows * 2 * pieces <= kThreads && tile.rows() % (rows * 2) == 0) rows *= 2;
    return {CopyAtom::cp_async(kBytes), type,
            threads_along_rows(tile.rows(), tile.cols(), rows * pieces, elements), tile[0].layout()};
  }
  template <class Work>
  void by_copying(const Work& work) const {
    if (copy_.threads() == kThreads) return work();
    if_(thread_ < u32(static_cast<uint32_t>(copy_.threads())), work);
  }

  SharedTile tile_;
  TiledCopy copy_;
  u32 thread_;
  GatheredRows rows_;
};

}  // namespace ptxbuilder::kernels

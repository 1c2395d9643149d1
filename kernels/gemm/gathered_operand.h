// A as rows that an index names, in gemm(): the threads of the producer copy each of them to its place.
#pragma once

#include "kernels/gemm/parameters.h"
#include "kernels/gemm/staged_operand.h"
#include "ptxbuilder/tile/cooperative_copy.h"

namespace ptxbuilder::kernels {

class GatheredOperand {
 public:
  // It is made in the role of the producer, whose threads all call what follows.
  GatheredOperand(const GemmOperation& o, const GemmParameters& p, const SharedTile& tile)
      : tile_(tile),
        copy_(copy_of(o.a, tile)),
        thread_(tid_x() % kThreads),
        index_(p.get<gptr<s32>>("a_rows")),
        rows_(copy_, p.get<gmem>("A"), p.get<u32>("rows_of_a"), p.get<u32>("K"), p.get<u32>("lda"), thread_) {
  }

  // The next stages have the product's rows from `first` on, and zeros for those from `end` on.
  void begin(u32 first, u32 end) {
    by_copying([&] { rows_.point(index_, first, end); });
  }
  void load(const Stage& s, u32 k) const {
    by_copying([&] { load_async(tile_[s], rows_, k); });
  }

 private:
  static constexpr int kBytes = 16, kThreads = 128;

  // Half of the threads copy a tile whose rows are no multiple of what all of them copy at once.
  static TiledCopy copy_of(DType type, const SharedTile& tile) {
    const int elements = kBytes / size_of(type), pieces = tile.rows() * tile.cols() / elements;
    const int threads = pieces % kThreads == 0 ? kThreads : kThreads / 2;
    return {CopyAtom::cp_async(kBytes), type, threads_along_rows(tile.rows(), tile.cols(), threads, elements),
            tile[0].layout()};
  }
  template <class Work>
  void by_copying(const Work& work) const {
    if (copy_.threads() == kThreads) return work();
    if_(thread_ < u32(static_cast<uint32_t>(copy_.threads())), work);
  }

  SharedTile tile_;
  TiledCopy copy_;
  u32 thread_;
  gptr<s32> index_;
  GatheredRows rows_;
};

}  // namespace ptxbuilder::kernels

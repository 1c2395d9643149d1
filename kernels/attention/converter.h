// The converter turns blocks of e4m3 keys or values into the type of the queries.
#pragma once

#include "kernels/attention/roles.h"
#include "kernels/attention/work.h"
#include "ptxbuilder/ir/typed_calls.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/profile.h"

namespace ptxbuilder::kernels {

// A warpgroup takes the blocks in the order in which TMA loads them, and fills the ring that consumers read.
class CacheConverter {
 public:
  CacheConverter(DType type, const SharedTile& from, const Pipeline& loaded, const SharedTile& to,
                 const Pipeline& filled)
      : type_(type), from_(from), to_(to), loaded_(loaded.consumer()), filled_(filled.producer()) {}

  void fill(const AttentionWork&, u32) {
    const Stage from = region("wait for the cache", [&] { return loaded_.wait(); });
    const Stage to = region("wait", [&] { return filled_.acquire(); });
    region("convert", [&] {
      for (int row = 0; row < from_.rows(); row += rows()) {
        const auto some = load<e4m3>(from_[from.index()].rows(row, rows()), layout());
        const TileView place = to_[to].rows(row, rows());
        if (type_ == DType::f16)
          store(place, astype<f16>(some));
        else
          store(place, astype<bf16>(some));
      }
    });
    bar_warp_sync(0xffffffff);  // one lane hands back the stage that all have read
    loaded_.release(from);
    filled_.commit(to);
  }

 private:
  // Returns how many rows are converted at once: half a warp reads 128 adjacent bytes and writes twice that
  // number.
  int rows() const { return from_.rows() % 32 == 0 ? 32 : 16; }
  RegisterLayout layout() const {
    const int elements = rows() * from_.cols();
    return strided({rows(), from_.cols()}, elements % (8 * 128) == 0 ? 8 : 4);
  }

  DType type_;
  SharedTile from_, to_;
  Consumer loaded_;
  Producer filled_;
};

}  // namespace ptxbuilder::kernels

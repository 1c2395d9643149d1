// The converter turns blocks of e4m3 keys or values into the type of the queries.
#pragma once

#include "kernels/attention/pages.h"
#include "kernels/attention/roles.h"
#include "kernels/attention/work.h"
#include "ptxbuilder/ir/typed_calls.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/profile.h"

namespace ptxbuilder::kernels {

// A warpgroup takes the blocks in the order in which TMA loads them, and fills the ring that consumers read.
class CacheConverter {
 public:
  // If pages have scales, elements are multiplied by them before they are rounded to the type.
  CacheConverter(DType type, const CacheRing& from, const SharedTile& to, const Pipeline& filled,
                 std::optional<PageScales> scales)
      : type_(type),
        from_(from.tile),
        to_(to),
        loaded_(from.ring.consumer()),
        filled_(filled.producer()),
        scales_(std::move(scales)) {}

  void fill(const AttentionWork& w, u32 block) {
    std::vector<RegisterTile<f32>> by;  // loaded while the cache comes
    for (int row = 0; scales_ && row < from_.rows(); row += rows())
      by.push_back(scales_->of_rows(w, block * from_.rows() + row, layout()));
    const Stage from = region("wait for the cache", [&] { return loaded_.wait(); });
    const Stage to = region("wait", [&] { return filled_.acquire(); });
    region("convert", [&] {
      for (int row = 0; row < from_.rows(); row += rows()) {
        const auto some = load<e4m3>(from_[from.index()].rows(row, rows()), layout());
        const TileView place = to_[to].rows(row, rows());
        const auto store_as = [&]<class T>(std::type_identity<T>) {
          if (scales_)
            store(place, astype<T>(astype<f32>(some) * by[static_cast<size_t>(row / rows())]));
          else
            store(place, astype<T>(some));
        };
        if (type_ == DType::f16)
          store_as(std::type_identity<f16>());
        else
          store_as(std::type_identity<bf16>());
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
  std::optional<PageScales> scales_;
};

}  // namespace ptxbuilder::kernels

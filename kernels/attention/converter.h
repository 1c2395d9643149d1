// Converts blocks of e4m3 keys or values into the type of the queries.
#pragma once

#include <functional>

#include "kernels/attention/pages.h"
#include "kernels/attention/roles.h"
#include "kernels/attention/work.h"
#include "ptxbuilder/ir/typed_calls.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/profile.h"

namespace ptxbuilder::kernels {

// Returns, in the given layout, the scales for the rows of a block that begin at `first_row`.
using ScalesOfRows = std::function<RegisterTile<f32>(int first_row, const RegisterLayout& layout)>;

// Returns how many rows are converted at a time. Half a warp then reads 128 adjacent bytes, and writes twice
// as many.
inline int rows_at_once(const TileView& from) { return from.row_count() % 32 == 0 ? 32 : 16; }
inline RegisterLayout layout_at_once(const TileView& from) {
  const int rows = rows_at_once(from), columns = from.tile().cols();
  return strided({rows, columns}, rows * columns % (8 * 128) == 0 ? 8 : 4);
}

// Converts a block of e4m3 elements into `type`. All threads of a warpgroup must call this function. Elements
// are multiplied by `scales`, if not null, before they are rounded to the type.
inline void convert_block(DType type, const TileView& from, const TileView& to, const ScalesOfRows& scales) {
  const RegisterLayout layout = layout_at_once(from);
  for (int row = 0; row < from.row_count(); row += layout.rows()) {
    const auto some = load<e4m3>(from.rows(row, layout.rows()), layout);
    const TileView place = to.rows(row, layout.rows());
    const auto store_as = [&]<class T>(std::type_identity<T>) {
      if (scales)
        store(place, astype<T>(astype<f32>(some) * scales(row, layout)));
      else
        store(place, astype<T>(some));
    };
    if (type == DType::f16)
      store_as(std::type_identity<f16>());
    else
      store_as(std::type_identity<bf16>());
  }
}

// Converts a cache with a warpgroup, which processes blocks in the order in which TMA loads them, and fills
// the ring that consumers read.
class CacheConverter {
 public:
  // If pages have scales, elements are multiplied by the scale of their page before they are rounded to the
  // type.
  CacheConverter(DType type, const CacheRing& from, const SharedTile& to, const Pipeline& filled,
                 std::optional<PageScales> scales)
      : type_(type),
        from_(from.tile),
        to_(to),
        loaded_(from.ring.consumer()),
        filled_(filled.producer()),
        scales_(std::move(scales)) {}

  void fill(const AttentionWork& w, u32 block) {
    const RegisterLayout layout = layout_at_once(from_[0]);
    std::vector<RegisterTile<f32>> by;  // loaded while TMA loads the block
    for (int row = 0; scales_ && row < from_.rows(); row += layout.rows())
      by.push_back(scales_->of_rows(w, block * from_.rows() + row, layout));
    const Stage from = region("wait for the cache", [&] { return loaded_.wait(); });
    const Stage to = region("wait", [&] { return filled_.acquire(); });
    const auto scales = [&](int row, const RegisterLayout&) {
      return by[static_cast<size_t>(row / layout.rows())];
    };
    region("convert", [&] {
      convert_block(type_, from_[from.index()], to_[to], scales_ ? ScalesOfRows(scales) : nullptr);
    });
    bar_warp_sync(0xffffffff);  // all lanes must have read the stage before one lane releases it
    loaded_.release(from);
    filled_.commit(to);
  }

 private:
  DType type_;
  SharedTile from_, to_;
  Consumer loaded_;
  Producer filled_;
  std::optional<PageScales> scales_;
};

}  // namespace ptxbuilder::kernels

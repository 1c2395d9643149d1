// Copies keys or values from pages into tiles, if the number of rows in a page is not the multiple of 8 that
// TMA requires.
#pragma once

#include "kernels/attention/pages.h"
#include "kernels/attention/roles.h"
#include "kernels/attention/work.h"
#include "kernels/gemm/gathered_tile.h"
#include "ptxbuilder/tile/profile.h"

namespace ptxbuilder::kernels {

// Fills a ring, block by block, with the threads of a warpgroup.
class PageGatherer {
 public:
  // `name` is K or V. It is also the prefix of the operand's kernel parameters.
  PageGatherer(const AttentionOperation& o, const AttentionSizes& sizes, const Parameters& p,
               const std::string& name, const SharedTile& tile, const Pipeline& ring)
      : table_(o, p),
        sizes_(sizes),
        pages_(p.get<u32>("pages")),
        row_(p.get<u32>(name + "_row_stride")),
        head_(p.get<u32>(name + "_head_stride")),
        piece_(p.get<u32>(name + "_page_stride")),
        rows_of_tile_(tile.rows()),
        rows_(o.key_type(), tile, p.get<gmem>(name), u32(kNoRow), p.get<u32>(name + "_columns"),
              u32(kUnitBytes / size_of(o.key_type()))),
        ring_(ring.producer()) {}

  static constexpr int kUnitBytes = 16;  // strides are in units of this many bytes

  void fill(const AttentionWork& w, u32 block) {
    const u32 head = w.head / sizes_.group * head_, page_rows = table_.rows();
    rows_.point([&](u32 row) {
      const u32 key = block * rows_of_tile_ + row, page = table_.page_of(w, key);
      return select((key < w.keys) & (page < pages_), page * piece_ + key % page_rows * row_ + head,
                    u32(kNoRow));
    });
    const Stage to = region("wait", [&] { return ring_.acquire(); });
    region("load", [&] { rows_.load(to, 0); });
    ring_.commit(to);
  }

 private:
  static constexpr uint32_t kNoRow = 0xffffffff;  // greater than any valid number of a row

  PageTable table_;
  const AttentionSizes& sizes_;
  u32 pages_, row_, head_, piece_;
  int rows_of_tile_;
  GatheredTile rows_;
  Producer ring_;
};

}  // namespace ptxbuilder::kernels

// Provides access to the pages of a cache. A table lists the pages of each batch, and each page may have its
// own scales.
#pragma once

#include "kernels/attention/work.h"
#include "ptxbuilder/registers/tile.h"

namespace ptxbuilder::kernels {

class PageTable {
 public:
  PageTable(const AttentionOperation& o, const Parameters& p)
      : rows_(o.page), pages_(p.get<gptr<u32>>("block_table")), stride_(p.get<u32>("table_stride")) {}

  // Returns the page that contains a key. If the key does not exist, returns the page of the last key; scores
  // of nonexistent keys are hidden.
  u32 page_of(const AttentionWork& w, u32 key) const {
    const u32 last = max(w.keys, 1) - 1;
    return pages_[w.batch * stride_ + min(key, last) / rows_];
  }
  int rows() const { return rows_; }  // rows per page

 private:
  int rows_;
  gptr<u32> pages_;
  u32 stride_;
};

// The scales of e4m3 pages. There is one for each page, or one for each head of each page.
class PageScales {
 public:
  // `name` is the kernel parameter that points to the scales.
  PageScales(const AttentionOperation& o, const AttentionSizes& sizes, const Parameters& p,
             const std::string& name)
      : table_(o, p),
        sizes_(sizes),
        scales_(p.get<gptr<f32>>(name)),
        pages_(p.get<u32>("pages")),
        heads_(p.get<u32>("scales")) {}

  // Returns the scales for the rows of a tile. The first row belongs to key `key`.
  RegisterTile<f32> of_rows(const AttentionWork& w, u32 key, const RegisterLayout& layout) const {
    if (table_.rows() % layout.rows() == 0) return RegisterTile<f32>(of_key(w, key), layout);
    std::optional<f32> of_row;
    return RegisterTile<f32>::of(layout, [&](int i) {
      const bool is_new = i == 0 || layout.row(0, i) != layout.row(0, i - 1);
      if (is_new) of_row = of_key(w, key + row_index(layout).value(i));
      return *of_row;
    });
  }

 private:
  // Returns the scale of a key. If the key's page does not exist, as in a batch without keys, returns the
  // scale of the last page.
  f32 of_key(const AttentionWork& w, u32 key) const {
    const u32 page = min(table_.page_of(w, key), pages_ - 1), head = min(w.head / sizes_.group, heads_ - 1);
    return scales_[page * heads_ + head];
  }

  PageTable table_;
  const AttentionSizes& sizes_;
  gptr<f32> scales_;
  u32 pages_, heads_;  // number of pages; number of heads with separate scales
};

}  // namespace ptxbuilder::kernels

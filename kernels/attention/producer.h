// Loads the queries of the consumers, and the blocks of keys and values.
#pragma once

#include "kernels/attention/pages.h"
#include "kernels/attention/roles.h"
#include "kernels/attention/work.h"
#include "ptxbuilder/tile/region_chain.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder::kernels {

// Returns the batch coordinate of the work in a tensor map. If `offsets` are set, the tensor's rows are
// packed, and all sequences are in batch 0.
inline u32 batch_of_tensor(const std::optional<gptr<u32>>& offsets, const AttentionWork& w) {
  return offsets ? u32(0) : w.batch;
}

class QueryLoader {
 public:
  // `loaded` and `multiplied` must have a barrier for each stage of `places`.
  QueryLoader(const AttentionOperation& o, const AttentionTile& t, const SharedTile& places,
              const Barriers& loaded, const Barriers& multiplied, const AttentionSizes& sizes,
              const Parameters& p)
      : o_(o),
        t_(t),
        places_(places),
        loaded_(loaded),
        sizes_(sizes),
        Q_(p.get<TensorMap>("Q")),
        multiplied_(multiplied, FirstWait::passes),
        place_(0) {}

  void load(const AttentionWork& w) {
    const u32 place = place_;
    for (int wg = 0; wg < t_.consumers; ++wg) {
      const u32 at = place + wg;
      if (t_.stays()) multiplied_.wait(at);
      const u32 row = w.first_query * o_.heads_in_rows + w.row + wg * kConsumerRows;
      const LoadView to = places_[at].expecting(loaded_[at]);
      if (o_.heads_in_rows > 1)
        load_heads(to, row, w);
      else
        tma_load(to, Q_, 0, row, w.head, batch_of_tensor(sizes_.query_offsets, w));
    }
    if (t_.query_places > 1) place_ = t_.consumers - place;
  }

 private:
  void load_heads(const LoadView& to, u32 row, const AttentionWork& w) const {
    const BoxOfHeads box(o_, places_, 0, o_.depth, row, w.head, batch_of_tensor(sizes_.query_offsets, w));
    tma_load(box.copy, to, Q_, box.at);
  }

  const AttentionOperation& o_;
  const AttentionTile& t_;
  const SharedTile& places_;
  const Barriers& loaded_;
  const AttentionSizes& sizes_;
  TensorMap Q_;
  Phases multiplied_;
  Var<u32> place_;  // the stage for the first consumer's queries
};

// Loads blocks of keys or values, or some of their columns, from contiguous memory or from pages.
class BlockLoader {
 public:
  BlockLoader(const AttentionOperation& o, const AttentionTile& t, const AttentionSizes& sizes,
              const Parameters& p)
      : o_(o), t_(t), sizes_(sizes) {
    if (o.page > 0) table_.emplace(o, p);
  }

  void load(const TileView& tile, TensorMap from, u32 column, const AttentionWork& w, u32 block) const {
    const u32 head = w.head / sizes_.group, first = block * t_.bn;
    if (o_.page == 0)
      return tma_load(tile, from, column, w.first_key + first, head, batch_of_tensor(sizes_.key_offsets, w));
    const int rows = t_.copy_rows(o_.page);
    for (int row = 0; row < t_.bn; row += rows) {
      const u32 key = first + row;
      tma_load(tile.rows(row, rows), from, column, key % o_.page, head, table_->page_of(w, key));
    }
  }

 private:
  const AttentionOperation& o_;
  const AttentionTile& t_;
  const AttentionSizes& sizes_;
  std::optional<PageTable> table_;
};

class AttentionProducer {
 public:
  AttentionProducer(const AttentionOperation& o, const AttentionTile& t, const AttentionRoles& roles,
                    const AttentionSizes& sizes, const Parameters& p)
      : t_(t),
        roles_(roles),
        blocks_(o, t, sizes, p),
        K_(p.get<TensorMap>("K")),
        V_(p.get<TensorMap>("V")),
        keys_(roles.loaded_keys().producer()),
        values_(roles.loaded_values().producer()) {}

  // Loads the block of keys that is processed first.
  void begin(const AttentionWork& w) {
    RegionChain chain;
    load_keys(w, KeyBlocks(t_, w).at(0), chain);
  }
  // Loads the other blocks. The keys of a block are loaded one block ahead of its values.
  void finish(const AttentionWork& w) {
    const KeyBlocks blocks(t_, w);
    RegionChain chain;
    const auto values = [&](u32 i) { load(roles_.loaded_V(), values_, V_, w, blocks.at(i), chain); };
    for_(1, blocks.count(), [&](u32 i) {
      load_keys(w, blocks.at(i), chain);
      values(i - 1);
    });
    values(blocks.count() - 1);
  }
  // Lends stages of the ring of values to the consumers, which store O through them.
  void lend() {
    for (int i = 0; i < t_.places(); ++i) values_.lend();
  }

 private:
  void load_keys(const AttentionWork& w, u32 block, RegionChain& chain) {
    load(roles_.loaded_K(), keys_, K_, w, block, chain);
  }
  void load(const SharedTile& tiles, Producer& ring, TensorMap from, const AttentionWork& w, u32 block,
            RegionChain& chain) const {
    const Stage to = chain.region("wait", [&] { return ring.acquire(); });
    chain.region("load", [&] { blocks_.load(tiles[to], from, 0, w, block); });
  }

  const AttentionTile& t_;
  const AttentionRoles& roles_;
  const BlockLoader blocks_;
  TensorMap K_, V_;
  Producer keys_, values_;
};

}  // namespace ptxbuilder::kernels

// Loads the queries of each consumer, and blocks of keys and values.
#pragma once

#include "kernels/attention/roles.h"
#include "kernels/attention/schedule.h"
#include "ptxbuilder/tile/tma.h"

namespace ptxbuilder::kernels {

class AttentionProducer {
 public:
  AttentionProducer(const AttentionTile& t, const AttentionRoles& roles, const AttentionSizes& sizes,
                    const Parameters& p)
      : t_(t),
        roles_(roles),
        sizes_(sizes),
        Q_(p.get<TensorMap>("Q")),
        K_(p.get<TensorMap>("K")),
        V_(p.get<TensorMap>("V")),
        multiplied_(roles.multiplied, FirstWait::passes),
        keys_(roles.keys.producer()),
        values_(roles.values.producer()) {}

  // The last block of keys, and the queries.
  void begin(const AttentionWork& w) {
    load(roles_.K[keys_.acquire()], K_, w, KeyBlocks(t_, w).end - 1);
    for (int wg = 0; wg < t_.consumers; ++wg) {
      if (t_.ahead) multiplied_.wait(wg);
      tma_load(roles_.Q[u32(wg)].expecting(roles_.loaded[wg]), Q_, 0,
               w.first_query + w.row + wg * kConsumerRows, w.head, batch(w));
    }
  }
  // The other blocks, those of keys ahead of those of values.
  void finish(const AttentionWork& w) {
    const KeyBlocks blocks(t_, w);
    for_(1, blocks.count(), [&](u32 i) {
      load(roles_.K[keys_.acquire()], K_, w, blocks.end - 1 - i);
      load(roles_.V[values_.acquire()], V_, w, blocks.end - i);
    });
    load(roles_.V[values_.acquire()], V_, w, blocks.first);
  }
  // Stages of values for O.
  void lend() {
    for (int i = 0; i < t_.places(); ++i) values_.lend();
  }

 private:
  void load(const TileView& to, TensorMap from, const AttentionWork& w, u32 block) const {
    tma_load(to, from, 0, w.first_key + block * t_.bn, w.head / sizes_.group, batch(w));
  }
  u32 batch(const AttentionWork& w) const { return sizes_.query_offsets ? u32(0) : w.batch; }

  const AttentionTile& t_;
  const AttentionRoles& roles_;
  const AttentionSizes& sizes_;
  TensorMap Q_, K_, V_;
  Phases multiplied_;
  Producer keys_, values_;
};

}  // namespace ptxbuilder::kernels

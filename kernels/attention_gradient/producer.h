// Implements the warps of attention's backward pass that do not multiply. One warp loads tiles, and the
// others add to the sums of dQ.
#pragma once

#include "kernels/attention_gradient/roles.h"
#include "kernels/attention_gradient/work.h"
#include "ptxbuilder/tile/bulk.h"
#include "ptxbuilder/tile/semaphore.h"

namespace ptxbuilder::kernels {

inline void load_gradient(const AttentionGradientTile& t, const GradientRoles& r, const GradientWork& w,
                          const Parameters& p) {
  const auto map = [&](const char* name) { return p.get<TensorMap>(name); };
  auto queries = r.queries.producer();
  auto gradients = r.gradients.producer();
  tma_load(r.K[0].expecting(r.arrived[0]), map("K"), 0, w.row_of_key(w.first_key), w.head, w.batch_of_map());
  tma_load(r.V[0].expecting(r.arrived[0]), map("V"), 0, w.row_of_key(w.first_key), w.head, w.batch_of_map());
  for_(0, w.group, [&](u32 of_group) {
    const u32 head = w.head_of_queries(of_group), first = w.first_block(t, of_group);
    for_(w.first, w.end, [&](u32 nth) {
      const u32 i = w.nth_block(t, nth);
      auto s = queries.acquire();
      tma_load(r.Q[s], map("Q"), 0, w.row_of_query(i * t.bm), head, w.batch_of_map());
      bulk_load(r.numbers[s], p.get<gptr<f32>>("numbers"), (first + i) * (2 * t.bm));
      auto g = gradients.acquire();
      tma_load(r.dO[g], map("dO"), 0, w.row_of_query(i * t.bm), head, w.batch_of_map());
    });
  });
}

// Adds the addends that a consumer has stored in shared memory to the sums of dQ, one block of queries after
// the other. If the operation is deterministic, waits for the turn of this block of keys before each
// addition.
inline void add_sums(const AttentionGradientOperation& o, const AttentionGradientTile& t,
                     const GradientRoles& r, const GradientWork& w, const Parameters& p, u32 part) {
  const GradientFragments sums(o, t);
  Phases left(*r.left);
  for_(0, w.group, [&](u32 of_group) {
    for_(w.first, w.end, [&](u32 nth) {
      const u32 block = w.nth_block(t, nth), at = (w.first_block(t, of_group) + block) * t.kConsumers + part;
      std::optional<Semaphore> turns;
      if (o.deterministic) {
        turns.emplace(p.get<gptr<u32>>("turns") + u64(at));
        turns->wait(w.turn(t, block));
        fence_proxy_async<Space::global>();  // the sums are written through the async proxy
      }
      for (int piece = 0; piece < sums.pieces(); ++piece) {
        left.wait(part);
        bulk_reduce(CopyReduction::add, p.get<gptr<f32>>("dq") + u64(at) * u64(sums.elements()),
                    u32(piece * sums.piece().elements()), (*r.dQ)[part]);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group_read(0);
        mbarrier_arrive((*r.taken)[part]);
      }
      if (!turns) return;
      cp_async_bulk_wait_group(0);
      turns->signal();
    });
  });
}

}  // namespace ptxbuilder::kernels

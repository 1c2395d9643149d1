// Describes what the backward pass of attention computes, and how its kernels compute it.
#pragma once

#include <string>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::kernels {

// The operation: dQ, dK and dV of O = softmax(scale Q K^T) V for each head, given dO. If a query sees no key,
// its row of dQ is 0.
struct AttentionGradientOperation {
  DType type = DType::bf16;  // the type of all tensors: bf16 or f16
  // Columns of Q and K, and of V and O. Both are 64, 128, 192 or 256; if Q has 192 or 256 columns, V may have
  // 128.
  int depth = 128, value_depth = 128;
  bool causal = false;  // query i sees only the keys below i + visible,
  bool window = false;  // or from i + window_start on; the launch passes both numbers
  // For each step of attention.def, a flag of the same name says whether the kernel has the step.
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) bool name = false;
#include "kernels/attention/attention.def"
  bool packed = false;         // sequences of different lengths, which begin at given offsets
  bool lse_grad = false;       // the logarithms of the sums have a gradient, too
  bool deterministic = false;  // blocks of keys are added to dQ in a fixed order

  bool operator==(const AttentionGradientOperation&) const = default;

  // Returns whether the kernel has any step of attention.def.
  bool has_step() const {
    bool any = false;
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) any |= name;
#include "kernels/attention/attention.def"
    return any;
  }
};

// Describes how a CTA shares the work. Blocks of queries are processed one after the other. Each consumer,
// which is a warpgroup, holds the sums of dK and dV for 64 keys or, if these would not fit into registers,
// for half of the columns of 64 shared keys. Each consumer computes half of what a CTA adds to dQ.
struct AttentionGradientTile {
  static constexpr int kConsumers = 2, kConsumerKeys = 64, kPart = 64;

  int bm = 64;              // queries per block: 128 for depth 64, 64 or 80 for depth 128, and 64 for more
  int stages = 2;           // stages of the ring of Q
  int gradient_stages = 2;  // stages of the ring of dO
  bool shares_keys = false;
  int ctas = 1;  // CTAs of a cluster; they divide the heads of a group, and add up dK and dV
  // The first CTAs process the first block of keys of all heads, rather than all blocks of the first head.
  // These CTAs have the most work if the mask is causal.
  bool heads_first = false;
  bool overlaps = true;  // may be launched before the previous launch has ended (see Kernel::overlaps)

  int bn() const { return shares_keys ? kConsumerKeys : kConsumers * kConsumerKeys; }
  // Returns how many rows of queries a CTA of the other kernels processes: a part of a block, or the entire
  // block.
  int cta_rows() const { return bm % kPart == 0 ? kPart : bm; }
  bool operator==(const AttentionGradientTile&) const = default;
};

// Returns the operation for Q and K with `columns`, up to 256, and V with `value_columns`.
inline AttentionGradientOperation gradient_operation(DType type, int64_t columns, int64_t value_columns) {
  AttentionGradientOperation o;
  o.type = type;
  o.depth = columns <= 64 ? 64 : columns <= 128 ? 128 : columns <= 192 ? 192 : 256;
  o.value_depth = o.depth > 128 && value_columns <= 128 ? 128 : o.depth;
  return o;
}
// Returns the tile of the operation; `has_score` is true if the scores are the user's own. Blocks of 80
// queries read shared memory less often per product, but leave no registers for a mask or for changing
// scores.
inline AttentionGradientTile gradient_tile(const AttentionGradientOperation& o, bool has_score = false) {
  AttentionGradientTile t;
  const bool is_plain = !o.causal && !o.window && !o.has_step() && !has_score && !o.packed;
  if (o.depth == 64) t.bm = 128;
  if (o.depth == 128 && is_plain) t.bm = 80;
  t.shares_keys = o.depth > 128;
  if (o.value_depth == 256 && o.deterministic) t.gradient_stages = 1;
  return t;
}
// Returns whether consumers add to dQ's sums directly from their registers. Otherwise the addends go through
// shared memory, which lets a warp add them in turns, but takes memory that wide tiles do not have.
inline bool adds_from_registers(const AttentionGradientOperation& o, const AttentionGradientTile& t) {
  return t.shares_keys && !o.deterministic;
}

// Returns text such as "64x128_2": queries, keys and stages, followed by _g1 (stages of dO), _c2 (CTAs that
// divide a group) or _h (heads come first).
std::string text(const AttentionGradientTile& tile);

// Returns the bytes of the tiles of a CTA.
int tile_bytes(const AttentionGradientOperation& operation, const AttentionGradientTile& tile);

// Throws Error that says which settings cannot be combined, and what to change.
void check(const AttentionGradientOperation& operation, const AttentionGradientTile& tile,
           Where where = Where::here());

}  // namespace ptxbuilder::kernels

// This is what the backward pass of attention computes, and how its kernels go about it.
#pragma once

#include <string>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::kernels {

// dQ, dK and dV of O = softmax(scale Q K^T) V for each head, given dO. Where a query sees no key, its row of
// dQ is 0.
struct AttentionGradientOperation {
  DType type = DType::bf16;  // of all tensors; or f16
  // Columns of Q and K, and of V and O: both 64 or both 128, or of 192 or 256 as many, or 128 of V.
  int depth = 128, value_depth = 128;
  bool causal = false;  // query i sees the keys below i + visible,
  bool window = false;  // or from i + hidden on; both numbers are the launch's
  // Each step of attention.def says by its name whether the kernel has it.
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) bool name = false;
#include "kernels/attention/attention.def"
  bool packed = false;         // sequences of many lengths lie behind each other, where offsets say
  bool lse_grad = false;       // whether the logarithms of the sums have a gradient, too
  bool deterministic = false;  // whether what blocks of keys add to dQ comes in one order

  bool operator==(const AttentionGradientOperation&) const = default;

  // Says whether the kernel has any step of attention.def.
  bool has_step() const {
    bool any = false;
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) any |= name;
#include "kernels/attention/attention.def"
    return any;
  }
};

// This is how a CTA shares the work: blocks of queries come one after the other, and each of its consumers,
// which are warpgroups, has the sums of dK and dV of 64 keys or, where these would not fit into registers, of
// half of the columns of 64 keys that they share. Of what these add to dQ each has a half.
struct AttentionGradientTile {
  static constexpr int kConsumers = 2, kConsumerKeys = 64, kPart = 64;

  int bm = 64;              // queries of a block: 128 of depth 64, 64 or 80 of 128, and 64 of more
  int stages = 2;           // of the ring of Q
  int gradient_stages = 2;  // of the ring of dO
  bool shares_keys = false;
  int ctas = 1;  // of a cluster, which divide the heads of a group, and add up dK and dV
  // CTAs of the first block of keys come first, of all heads, and not those of the first head, of all blocks:
  // under a causal mask they have the most to do.
  bool heads_first = false;
  bool overlaps = true;  // may be launched before the launch ahead of it has ended (see Kernel::overlaps)

  int bn() const { return shares_keys ? kConsumerKeys : kConsumers * kConsumerKeys; }
  // Rows of queries that a CTA of the kernels ahead and behind takes: a part of a block, or all of it.
  int cta_rows() const { return bm % kPart == 0 ? kPart : bm; }
  bool operator==(const AttentionGradientTile&) const = default;
};

// The kernels take this for tensors of so many columns, up to 256, and V of so many.
inline AttentionGradientOperation gradient_operation(DType type, int64_t columns, int64_t value_columns) {
  AttentionGradientOperation o;
  o.type = type;
  o.depth = columns <= 64 ? 64 : columns <= 128 ? 128 : columns <= 192 ? 192 : 256;
  o.value_depth = o.depth > 128 && value_columns <= 128 ? 128 : o.depth;
  return o;
}
// It is the tile of the operation, whose scores are the author's or not. Blocks of 80 queries read shared
// memory less often for each product, and leave registers for neither a mask nor what changes scores.
inline AttentionGradientTile gradient_tile(const AttentionGradientOperation& o, bool has_score = false) {
  AttentionGradientTile t;
  const bool is_plain = !o.causal && !o.window && !o.has_step() && !has_score && !o.packed;
  if (o.depth == 64) t.bm = 128;
  if (o.depth == 128 && is_plain) t.bm = 80;
  t.shares_keys = o.depth > 128;
  if (o.value_depth == 256 && o.deterministic) t.gradient_stages = 1;
  return t;
}
// It says whether consumers add to dQ's sums from their registers: else what they add goes through shared
// memory, which lets a warp add it in turns, and takes room that wide tiles do not have.
inline bool adds_from_registers(const AttentionGradientOperation& o, const AttentionGradientTile& t) {
  return t.shares_keys && !o.deterministic;
}

// "64x128_2": queries, keys and stages, with _g1 (stages of dO) or _c2 (CTAs that divide a group)
// or _h (heads come first) behind it.
std::string text(const AttentionGradientTile& tile);

// Bytes of the tiles of a CTA.
int tile_bytes(const AttentionGradientOperation& operation, const AttentionGradientTile& tile);

// Throws Error that says what does not go with what, and what to change.
void check(const AttentionGradientOperation& operation, const AttentionGradientTile& tile,
           Where where = Where::here());

}  // namespace ptxbuilder::kernels

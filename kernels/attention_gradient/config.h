// Describes the operation of attention's backward pass (AttentionGradientOperation), and the way in which its
// kernels compute it (AttentionGradientTile).
#pragma once

#include <string>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::kernels {

// Defines dQ, dK and dV of O = softmax(scale Q K^T) V for each head, given dO. If a query sees no key, its
// row of dQ is 0.
struct AttentionGradientOperation {
  DType type = DType::bf16;  // type of all tensors: bf16 or f16
  // The columns of Q and K, and of V and O. Both are 64, 128, 192 or 256, and must be equal, except that V
  // may have 128 columns if Q has 192 or 256.
  int depth = 128, value_depth = 128;
  bool causal = false;  // query i sees only keys below i + visible; the launch passes `visible`
  bool window =
      false;  // query i sees only keys at i + window_start and above; the launch passes `window_start`
  // A flag for each step of attention.def, with the name of the step; it is true if the kernel has the step.
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) bool name = false;
#include "kernels/attention/attention.def"
  bool packed = false;  // true: sequences of different lengths are packed, and offsets mark their beginnings
  bool lse_grad = false;       // true: lse has a gradient too
  bool deterministic = false;  // true: blocks of keys are added to dQ in a fixed order

  bool operator==(const AttentionGradientOperation&) const = default;

  // Returns whether the kernel has a step of attention.def.
  bool has_step() const {
    bool any = false;
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) any |= name;
#include "kernels/attention/attention.def"
    return any;
  }
};

// Describes how the warpgroups of a CTA share the work. Blocks of queries are processed one after the other.
// A consumer is a warpgroup that holds the sums of dK and dV for 64 keys. If these sums would not fit in
// registers, both consumers share the same 64 keys, and each holds half of the columns. Each consumer
// computes half of the CTA's addends to dQ.
struct AttentionGradientTile {
  static constexpr int kConsumers = 2, kConsumerKeys = 64, kPart = 64;

  int bm = 64;     // queries per block: 128 for depth 64, 64 or 80 for depth 128, 64 for greater depths
  int stages = 2;  // stages in the ring of Q
  int gradient_stages = 2;  // stages in the ring of dO
  bool shares_keys = false;
  int ctas = 1;  // CTAs in a cluster; they divide the heads of a group and add up dK and dV
  // If true, the first CTAs process the first block of keys of every head, instead of all blocks of the first
  // head. With a causal mask, the first blocks have the most work.
  bool heads_first = false;
  bool overlaps =
      true;  // true: the kernels may start before the previous launch has ended (see Kernel::overlaps)

  int bn() const { return shares_keys ? kConsumerKeys : kConsumers * kConsumerKeys; }
  // Returns how many rows of queries a CTA of the other kernels processes, which is kPart rows of a block or
  // the entire block.
  int cta_rows() const { return bm % kPart == 0 ? kPart : bm; }
  bool operator==(const AttentionGradientTile&) const = default;
};

// Returns the operation for a Q and K of `columns` columns (up to 256) and a V of `value_columns` columns.
inline AttentionGradientOperation gradient_operation(DType type, int64_t columns, int64_t value_columns) {
  AttentionGradientOperation o;
  o.type = type;
  o.depth = columns <= 64 ? 64 : columns <= 128 ? 128 : columns <= 192 ? 192 : 256;
  o.value_depth = o.depth > 128 && value_columns <= 128 ? 128 : o.depth;
  return o;
}
// Returns the tile of the operation. `has_score` must be true if there is a user's function for scores.
// Blocks of 80 queries read shared memory less often per product, but leave no registers for a mask or for
// changing scores.
inline AttentionGradientTile gradient_tile(const AttentionGradientOperation& o, bool has_score = false) {
  AttentionGradientTile t;
  const bool is_plain = !o.causal && !o.window && !o.has_step() && !has_score && !o.packed;
  if (o.depth == 64) t.bm = 128;
  if (o.depth == 128 && is_plain) t.bm = 80;
  t.shares_keys = o.depth > 128;
  if (o.value_depth == 256 && o.deterministic) t.gradient_stages = 1;
  return t;
}
// Returns whether consumers add to the sums of dQ directly from their registers. Otherwise, the addends pass
// through shared memory, and a separate warp adds them, in a fixed order if necessary. This requires memory
// that wide tiles lack.
inline bool adds_from_registers(const AttentionGradientOperation& o, const AttentionGradientTile& t) {
  return t.shares_keys && !o.deterministic;
}

// Returns a tile as a string, such as "64x128_2" (queries, keys and stages), followed by _g1
// (gradient_stages), _c2 (ctas) or _h (heads_first) if they differ from the default.
std::string text(const AttentionGradientTile& tile);

// Returns how many bytes of shared memory the tiles of a CTA occupy.
int tile_bytes(const AttentionGradientOperation& operation, const AttentionGradientTile& tile);

// If settings cannot be combined, throws an Error that names them and says what to change.
void check(const AttentionGradientOperation& operation, const AttentionGradientTile& tile,
           Where where = Where::here());

}  // namespace ptxbuilder::kernels

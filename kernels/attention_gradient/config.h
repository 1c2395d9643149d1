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
  int depth = 128;           // columns of all tensors: 64 or 128
  bool causal = false;       // query i sees the keys below i + visible,
  bool window = false;       // or from i + hidden on; both numbers are the launch's
  // Each step of attention.def says by its name whether the kernel has it.
#define PTXBUILDER_ATTENTION_STEP(name, rule, meaning) bool name = false;
#include "kernels/attention/attention.def"
  bool packed = false;         // sequences of many lengths lie behind each other, where offsets say
  bool lse_grad = false;       // whether the logarithms of the sums have a gradient, too
  bool deterministic = false;  // whether what blocks of keys add to dQ comes in one order

  bool operator==(const AttentionGradientOperation&) const = default;
};

// This is how a CTA shares the work: each of its consumers, which are warpgroups, has the sums of dK and dV
// of 64 keys, and blocks of queries come one after the other. Of what these add to dQ each has 64 x 64.
struct AttentionGradientTile {
  static constexpr int kConsumers = 2, kConsumerKeys = 64, kPart = 64;

  int bm = 64;           // queries of a block: 64 where the depth is 128, and 128 where it is 64
  int stages = 2;        // of the rings of Q and of dO
  bool overlaps = true;  // may be launched before the launch ahead of it has ended (see Kernel::overlaps)

  int bn() const { return kConsumers * kConsumerKeys; }
  bool operator==(const AttentionGradientTile&) const = default;
};

// The depth of the kernels for tensors of so many columns, up to 128, and the tile of a depth.
constexpr int gradient_depth(int64_t columns) { return columns <= 64 ? 64 : 128; }
constexpr int gradient_rows(int depth) {
  return AttentionGradientTile::kPart * AttentionGradientTile::kPart * AttentionGradientTile::kConsumers /
         depth;
}

// "64x128_2": queries, keys and stages.
std::string text(const AttentionGradientTile& tile);

// Bytes of the tiles of a CTA.
int tile_bytes(const AttentionGradientOperation& operation, const AttentionGradientTile& tile);

// Throws Error that says what does not go with what, and what to change.
void check(const AttentionGradientOperation& operation, const AttentionGradientTile& tile,
           Where where = Where::here());

}  // namespace ptxbuilder::kernels

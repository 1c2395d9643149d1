// Implements attention in which the values are the first columns of the keys. This is multi-head latent
// attention with absorbed weights (DeepSeek-AI, DeepSeek-V2, 2024).
#pragma once

#include <array>

#include "kernels/attention/queue.h"

namespace ptxbuilder::kernels {

// A CTA processes 64 rows of queries, and loads each block of keys only once, since the first columns of its
// rows are the values. Each of two warpgroups holds half of the columns of O. They compute the scores and
// weights of blocks alternately, and each passes its weights to the other through shared memory, so that both
// can multiply all weights by their columns of the values. While one warpgroup computes weights, the products
// of the other run.
constexpr int kLatentConsumers = 2;

// If keys are rows of bytes (AttentionOperation::has_byte_rows()), TMA loads them as three tensors. A fourth
// warpgroup multiplies the values by their scales and converts them into the block that the consumers
// multiply. The rotary columns need no conversion, so TMA loads them directly into this block.

// Adds the roles to a kernel that has the parameters of attention(). `queue` must have latent_readers()
// readers.
void add_latent_roles(Kernel& kernel, const AttentionOperation& operation, const AttentionTile& tile,
                      const AttentionSizes& sizes, const std::optional<WorkQueue>& queue,
                      const Parameters& parameters);
// Returns the number of readers. The loader of keys and the loader of queries are threads that count as one
// reader each, and so does each warp of the other roles.
constexpr int latent_readers(bool converts) { return 2 + 4 * (kLatentConsumers + converts); }

}  // namespace ptxbuilder::kernels

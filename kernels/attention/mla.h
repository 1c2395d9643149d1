// Attention whose values are the first columns of its keys: multi-head latent attention with absorbed
// weights (DeepSeek-AI, DeepSeek-V2, 2024).
#pragma once

#include <array>

#include "kernels/attention/queue.h"

namespace ptxbuilder::kernels {

// A CTA processes 64 rows of queries, and loads each block of keys only once: the rows of a block are keys,
// and its first columns are their values. Each of two warpgroups holds half of the columns of O. They take
// turns with the scores of blocks: one computes the scores and the weights of a block, and passes the weights
// to the other in shared memory, so that each can multiply all weights by its own columns of the values.
// While one computes weights, the products of the other run.
constexpr int kLatentConsumers = 2;

// Keys that are rows of bytes (AttentionOperation::has_byte_rows()) are loaded as three tensors. A fourth
// warpgroup multiplies the values by their scales, and converts them into the halves of the block that are
// multiplied; rotary columns are loaded to their place.

// Adds the roles to the kernel, whose parameters are attention()'s; `queue` has latent_readers() readers.
void add_latent_roles(Kernel& kernel, const AttentionOperation& operation, const AttentionTile& tile,
                      const AttentionSizes& sizes, const std::optional<WorkQueue>& queue,
                      const Parameters& parameters);
// The loaders of keys and of queries read the queue by a thread, and other roles by their warps.
constexpr int latent_readers(bool converts) { return 2 + 4 * (kLatentConsumers + converts); }

}  // namespace ptxbuilder::kernels

// The project's attention as contenders of the benchmark: the tile that it chooses, and other tiles.
#pragma once

#include "kernels/tune/attention_operation.h"
#include "kernels/tune/compile_ahead.h"

namespace ptxbuilder::bench {

using AttentionKernels = OurKernels<kernels::AttentionOperation, kernels::AttentionTile>;
std::shared_ptr<AttentionKernels> attention_kernels(const Gpu& gpu, const OurOptions& options);

// Returns a contender for each tile, with the tile's name.
Contenders attention_tiles(const Gpu& gpu, const std::shared_ptr<AttentionKernels>& kernels,
                           const std::vector<kernels::AttentionTile>& tiles);

// Returns the contenders: the chosen tile, which represents the project; the named tiles; and the model's
// first `candidates` tiles.
Contenders our_attention(const Gpu& gpu, const OurOptions& options);

}  // namespace ptxbuilder::bench

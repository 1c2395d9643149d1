// Provides the project's attention as contenders for the benchmark. One contender has the tile that attention
// chooses, and the others have other tiles.
#pragma once

#include "kernels/tune/attention_operation.h"
#include "kernels/tune/compile_ahead.h"

namespace ptxbuilder::bench {

using AttentionKernels = OurKernels<kernels::AttentionOperation, kernels::AttentionTile>;
std::shared_ptr<AttentionKernels> attention_kernels(const Gpu& gpu, const OurOptions& options);

// Returns a contender for each tile, named after the tile.
Contenders attention_tiles(const Gpu& gpu, const std::shared_ptr<AttentionKernels>& kernels,
                           const std::vector<kernels::AttentionTile>& tiles);

// Returns contenders for the tile that attention chooses, which represents the project, for options.tiles,
// and for the model's first options.candidates tiles.
Contenders our_attention(const Gpu& gpu, const OurOptions& options);

}  // namespace ptxbuilder::bench

// Chooses the tile of a multi-GPU product.
#pragma once

#include <vector>

#include "kernels/ranks/tile.h"

namespace ptxbuilder::kernels {

// Returns the tiles that may be chosen for a product. Types and the number of ranks are those of `fixed`.
std::vector<RankedTile> ranked_tiles(RankedForm form, const RankedTile& fixed, int64_t rows, int64_t n);

// Returns the tile that is predicted to be the fastest on a device with `multiprocessors` SMs. The simple
// model counts waves of tiles, whose speed is limited by tensor cores or L2, and bytes that cross NVLink.
// Returns `fixed` if there are no tiles because the exchange memory has too few words.
RankedTile ranked_choice(RankedForm form, const RankedTile& fixed, int64_t rows, int64_t n, int64_t k,
                         int multiprocessors);

}  // namespace ptxbuilder::kernels

// Chooses the tile of a multi-GPU product that suits its size.
#pragma once

#include <vector>

#include "kernels/ranks/tile.h"

namespace ptxbuilder::kernels {

// Returns all tiles that may be chosen for a product. `fixed` determines the types and the number of ranks.
std::vector<RankedTile> ranked_tiles(RankedForm form, const RankedTile& fixed, int64_t rows, int64_t n);

// Returns the tile that is fastest on a device with `multiprocessors` SMs, according to a simple model: waves
// of tiles, each limited by tensor cores or by L2, and the bytes that cross NVLink. Returns `fixed` if there
// are no tiles because the exchange memory has too few words.
RankedTile ranked_choice(RankedForm form, const RankedTile& fixed, int64_t rows, int64_t n, int64_t k,
                         int multiprocessors);

}  // namespace ptxbuilder::kernels

// The product of rows that are divided among ranks: D = A B^T, where each rank has some rows of A, and
// receives all rows of D for its own B.
#pragma once

#include "kernels/ranks/tile.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

// Returns the kernel, which is launched once on each rank, concurrently. Rank r multiplies its own rows of A
// first, then those of rank r - 1, and so on down the ring. Meanwhile, all of its CTAs send its rows to the
// ranks r + 1, r + 2, ...: each row leaves its rank once for each other rank, and no CTA only communicates.
// See RowCopies.
//   A                   rows of K: this rank's, for TMA; and `own_rows` for bulk copies
//   gathered            ranks x rows of K: where the other ranks' rows arrive
//   B                   N rows of K, or K rows of N
//   D                   ranks x rows of N
//   memory_0, ...       the exchange memory of all ranks: their words, see Exchange, followed by `gathered`
//   rows, N, K, rank
//   kept                ranks x rows of K: where all ranks' rows are kept, if the tile keeps them
//   scale               a number, if the tile has a scale
// All ranks have the same number of rows. A tensor map of ranks x rows ends each rank's rows separately.
Kernel all_gather_product(const RankedTile& tile, Where where = Where::here());

}  // namespace ptxbuilder::kernels

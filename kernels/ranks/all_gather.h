// Builds the kernel of an all-gather with a product: D = A B^T, where the rows of A are divided among the
// ranks, and each rank computes all rows of D for its own B.
#pragma once

#include "kernels/ranks/tile.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

// Returns the kernel, which must be launched once on each rank, concurrently. Rank r multiplies its own rows
// of A first, then those of rank r - 1, and so on around the ring. Meanwhile, all of its CTAs send its rows
// to ranks r + 1, r + 2 and so on (see RowCopies). Each row is sent once to each other rank, and no CTA is
// reserved for communication. The parameters are
//   A, own_rows         this rank's rows of K, as a tensor map and as a pointer for bulk copies
//   gathered            ranks x rows of K, where the rows of the other ranks arrive
//   B                   N rows of K, or K rows of N
//   D                   ranks x rows of N
//   memory_0, ...       the exchange memory of each rank: words (see Exchange), followed by `gathered`
//   rows, N, K, rank
//   kept                ranks x rows of K, which receive the rows of all ranks, if the tile keeps them
//   scale               a number, if the tile is scaled
// All ranks must have the same number of rows. In a tensor map of ranks x rows, each rank is a batch, so that
// boxes are cut off at the end of its rows.
Kernel all_gather_product(const RankedTile& tile, Where where = Where::here());

}  // namespace ptxbuilder::kernels

// The product of rows that are divided among ranks: D = A B^T, where each rank has some rows of A, and gets
// all rows of D for its own B.
#pragma once

#include "kernels/ranks/tile.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

// There is a launch for each rank, all at once. Rank r begins with its own rows of A; the CTA that loads them
// for the first column of tiles sends them on to rank r + 1 by TMA from shared memory, and so do the ranks
// after it, except the last: each row crosses each link once, and no CTA only communicates.
//   A                   rows of K: this rank's
//   gathered            ranks x rows of K: where the other ranks' rows arrive, and `next_gathered`
//                       is the same of rank r + 1
//   B                   N rows of K, or K rows of N
//   D                   ranks x rows of N
//   words               kExchangeBytes of this rank, of rank r + 1 and of rank r - 1; see Exchange
//   rows, N, K, rank
//   kept                ranks x rows of K: where all ranks' rows stay, if the tile says so
//   scale               a number, if the tile says so
// All ranks have the same number of rows. A tensor map of ranks x rows ends each rank's rows separately.
Kernel all_gather_product(const RankedTile& tile, Where where = Where::here());

}  // namespace ptxbuilder::kernels

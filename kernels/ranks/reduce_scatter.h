// The product whose sums are divided among ranks: D = sum over ranks of A B^T, and each rank gets some of its
// rows.
#pragma once

#include "kernels/ranks/tile.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

// There is a launch for each rank, all at once. Rank r begins with the rows of rank r - 1, and goes down from
// there to its own: it adds its part of a tile to the sum that arrived from rank r - 1, and sends the result
// on to rank r + 1, rounded, which reaches the same tile later. So the order of addition is fixed, and each
// row crosses each link once.
//
// In an all-reduce, the rows of each rank are a part of one matrix, and a rank that has their sums copies
// them to all others, see RowCopies: those of one round while the next is computed.
//   A      ranks x rows of K: this rank's part of the sums' depth
//   B      N rows of K, or K rows of N
//   sums   ranks x rows of N: where the previous rank's sums arrive, for threads; and `next_sums`, a tensor
//          map of the same of rank r + 1
//   D      1 x rows of N; in an all-reduce, M rows, which A and `sums` then have too, and `D_rows` for copies
//          in bulk
//   memory_0, ...  the exchange memory of all ranks: their words, see Exchange, and then `sums`
//   rows, N, K, rank; in an all-reduce, M
//   scale  a number, if the tile says so
Kernel product_reduce_scatter(const RankedTile& tile, Where where = Where::here());

}  // namespace ptxbuilder::kernels

// The product whose sums are divided among ranks: D = the sum of A B^T over the ranks, where each rank gets
// some of the rows.
#pragma once

#include "kernels/ranks/tile.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

// Returns the kernel, which is launched once on each rank, concurrently. Rank r begins with the rows of rank
// r - 1, and goes down from there to its own. It adds its part of a tile to the sum that arrived from rank r
// - 1, and sends the rounded result on to rank r + 1, which processes the same tile later. The order of
// addition is therefore fixed, and each row crosses each link once.
//
// In an all-reduce, the rows of each rank are a part of one matrix, and a rank that has the sums of its rows
// copies them to all others (see RowCopies): it copies those of one round while it computes the next.
//   A      ranks x rows of K: this rank's part of the sums' depth
//   B      N rows of K, or K rows of N
//   sums   ranks x rows of N: where the previous rank's sums arrive, for threads; and `next_sums`, a tensor
//          map of the same memory on rank r + 1
//   D      1 x rows of N; in an all-reduce, M rows, which A and `sums` then have too, and `D_rows` for bulk
//          copies
//   memory_0, ...  the exchange memory of all ranks: their words, see Exchange, followed by `sums`
//   rows, N, K, rank; in an all-reduce, M
//   scale  a number, if the tile has a scale
Kernel product_reduce_scatter(const RankedTile& tile, Where where = Where::here());

}  // namespace ptxbuilder::kernels

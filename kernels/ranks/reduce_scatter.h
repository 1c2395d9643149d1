// Builds the kernel of a product with a reduce-scatter. The products A B^T are added up over the ranks, and
// each rank receives some rows of the sum. The kernel can also compute an all-reduce.
#pragma once

#include "kernels/ranks/tile.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

// Returns the kernel, which must be launched once on each rank, concurrently. Rank r begins with the rows of
// the previous rank, and continues around the ring until it reaches its own rows. It adds its part of a tile
// to the sum that has arrived from the previous rank, and sends the rounded result to the next rank, which
// processes the same tile later. The order of addition is therefore fixed, and each row crosses each link
// once.
//
// In an all-reduce, each rank owns a part of the rows of one matrix. A rank that has the complete sums of its
// rows copies them to all other ranks (see RowCopies), and copies the rows of one round while it computes the
// next round. The parameters are
//   A              ranks x rows of K, this rank's part of the depth of the sums
//   B              N rows of K, or K rows of N
//   sums           ranks x rows of N, a pointer to the memory where the sums of the previous rank arrive
//   next_sums      a tensor map of this memory on rank r + 1
//   D              1 x rows of N; in an all-reduce, M rows, and A and `sums` also have M rows
//   memory_0, ...  the exchange memory of each rank: words (see Exchange), followed by `sums`
//   rows, N, K, rank
//   M, D_rows      in an all-reduce, the number of all rows, and D as a pointer for bulk copies
//   scale          a number, if the tile is scaled
Kernel product_reduce_scatter(const RankedTile& tile, Where where = Where::here());

}  // namespace ptxbuilder::kernels

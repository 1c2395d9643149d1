// The all-to-all of tokens for experts that are divided among several ranks.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

// A dispatch sends rows to the ranks of their experts, and a combine returns rows to where the dispatch read
// them. Each is the gradient of the other.
enum class TokenForm { dispatch, combine };

// The number of sizes that each CTA sends to each rank, so that a rank can detect ranks with different ones:
// the experts of a rank, most_rows and row_bytes.
inline constexpr uint32_t kTokenSizes = 3;

// Returns the kernel, which is launched once on each rank, concurrently. Warps store each row into the memory
// of the destination rank, where each sender has its own area, and copy what has arrived from there. CTA i
// sends row j to a rank if j % CTAs is i, so that CTA i of that rank waits only for the CTAs with its own
// number. The parameters are
//   sorted       rows in the order of the experts of all ranks, which a dispatch reads and a combine writes
//   ends         for each expert of all ranks, the end of its rows in `sorted`
//   grouped      rows of all ranks, ordered by this rank's experts and then by rank
//   splits       for each rank, the ends of its rows for each of this rank's experts; the dispatch writes
//                this
//   grouped_ends for each expert of this rank, the end of its rows in `grouped`; only for the dispatch
//   memory_0 ..  the exchange memory of each rank; see PeerExchange
//   rank, rows (of `sorted`), experts (of a rank), row_bytes, most_rows (of `sorted` on any rank)
//   part_bytes   the distance between the parts of two senders in the two places for data, which begin after
//                kExchangeBytes of words
//   rows_at      where rows begin in a part, after the words that each CTA of the sender sends
// A dispatch traps if ranks have different experts, most_rows or row_bytes.
Kernel token_exchange(TokenForm form, int ranks, Where where = Where::here());

}  // namespace ptxbuilder::kernels

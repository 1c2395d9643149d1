// Builds the kernels of the all-to-all of tokens for experts that are divided among several ranks.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

// A dispatch sends rows to the ranks of their experts, and a combine returns them to the places from which
// the dispatch read them. Each is the gradient of the other.
enum class TokenForm { dispatch, combine };

// The number of sizes that each CTA sends to each rank, so that a rank can detect ranks with different sizes.
// They are the number of experts of a rank, `most_rows` and `row_bytes`.
inline constexpr uint32_t kTokenSizes = 3;

// Returns the kernel, which must be launched once on each rank, concurrently. Warps store each row into the
// exchange memory of the destination rank, where each sender has its own part, and then copy the rows that
// have arrived to their final places. The j-th row for a rank is sent by CTA j % CTAs, and CTA i copies only
// rows that CTAs with number i have sent, so that it waits only for these. The parameters are
//   sorted       rows in the order of the experts of all ranks; a dispatch reads and a combine writes them
//   ends         for each expert of all ranks, the end of its rows in `sorted`
//   grouped      rows of all ranks, ordered by the experts of this rank and then by rank
//   splits       for each rank, the ends of its rows for each expert of this rank; a dispatch writes them
//   grouped_ends for each expert of this rank, the end of its rows in `grouped`; only in a dispatch
//   memory_0 ..  the exchange memory of each rank; see PeerExchange
//   rank, rows (of `sorted`), experts (of a rank), row_bytes, most_rows (of `sorted` on any rank)
//   part_bytes   the distance between the parts of two senders; the two places for data, which consist of
//                these parts, follow the kExchangeBytes bytes of words
//   rows_at      the offset of the rows in a part, after the words of each CTA of the sender
// A dispatch traps if ranks have different experts, most_rows or row_bytes.
Kernel token_exchange(TokenForm form, int ranks, Where where = Where::here());

}  // namespace ptxbuilder::kernels

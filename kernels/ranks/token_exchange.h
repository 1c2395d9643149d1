// The all-to-all of tokens for experts that several ranks divide among them.
#pragma once

#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

// A dispatch sends rows to the ranks of their experts, and a combine brings rows back to where the dispatch
// took them. Each is the other's gradient.
enum class TokenForm { dispatch, combine };

// Each CTA sends so many sizes to each rank, by which ranks that give different ones are found: the experts
// of a rank, most_rows and row_bytes.
inline constexpr uint32_t kTokenSizes = 3;

// One launch for each rank, all at once. Warps store each row into the memory of its rank, where each sender
// has a place of its own, and copy on what has come. CTA i sends row j to a rank if j % CTAs is i, so that
// CTA i of that rank waits for the CTAs of its own number alone. It takes
//   sorted       rows in the order of experts of all ranks, which a dispatch reads and a combine writes
//   ends         for each expert of all ranks, the end of its rows in `sorted`
//   grouped      rows of all ranks in the order of this rank's experts, and of ranks for each expert
//   splits       for each rank, the ends of its rows by this rank's experts; the dispatch writes this
//   grouped_ends for each expert of this rank, the end of its rows in `grouped`; only of the dispatch
//   memory_0 ..  the exchange memory of each rank; see PeerExchange
//   rank, rows (of `sorted`), experts (of a rank), row_bytes, most_rows (of `sorted` on any rank)
//   part_bytes   the distance between the parts of two senders in the two places for data, which begin after
//                kExchangeBytes of words
//   rows_at      where rows begin in a part, after the words that each CTA of the sender sends
// A dispatch traps if ranks have different experts, most_rows or row_bytes.
Kernel token_exchange(TokenForm form, int ranks, Where where = Where::here());

}  // namespace ptxbuilder::kernels

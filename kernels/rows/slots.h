// The slots of a paged cache, in which the rows of new tokens are stored.
#pragma once

#include <cstddef>

#include "kernels/rows/operation.h"
#include "ptxbuilder/ir/typed_calls.h"
#include "ptxbuilder/tile/parameters.h"

namespace ptxbuilder::kernels {

// Loads a nonnegative s32 or s64 integer from row `row` of tensor `tensor`. If the integer is negative, the
// result is 2^31 or more.
inline u32 load_count(const Parameters& p, const RowProblem& problem, size_t tensor, u32 row) {
  const gptr<u32> start(p.get<gmem>(problem.operation->tensors[tensor].name));
  if (size_of(*problem.types[tensor]) == 4) return u32(start[u64(row)]);
  const u32 low = start[u64(row) * 2], high = start[u64(row) * 2 + 1];
  return select(high == 0, low, u32(~0U));
}

// The slot of a token, as its place in the cache. `is_kept` is false if the token has no slot; such a token
// must be neither read nor written.
struct Slot {
  // `number` may be beyond the last token; `token` is then the last token, and `is_kept` is false.
  Slot(const Parameters& p, const RowProblem& problem, size_t slots, u32 number)
      : token(min(number, p.get<u32>("rows") - 1)), page(0), row(0), is_kept(false) {
    const u32 page_rows = p.get<u32>("page_rows"), slot = load_count(p, problem, slots, token);
    is_kept = (number < p.get<u32>("rows")) & (slot < p.get<u32>("pages") * page_rows);
    page = slot / page_rows, row = slot - page * page_rows;
  }

  u32 token, page, row;  // `row` counts within the page
  pred is_kept;
};

}  // namespace ptxbuilder::kernels

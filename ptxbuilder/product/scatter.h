// Stores rows to the places that an index gives.
#pragma once

#include "ptxbuilder/product/store.h"

namespace ptxbuilder::detail {

// Stores the contents of `buffer` to the rows that `to` names: the buffer's first element is at row `row`,
// column `col` of the output, and only rows of the output before `end` are stored. All threads of the
// warpgroup call this after all of them have written the buffer.
void scatter_rows(const TileView& buffer, const ScatteredRows& to, u32 row, u32 col, u32 end);

}  // namespace ptxbuilder::detail

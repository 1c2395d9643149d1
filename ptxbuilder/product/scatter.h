// Stores the rows of a buffer to rows of a matrix that an index selects.
#pragma once

#include "ptxbuilder/product/store.h"

namespace ptxbuilder::detail {

// Returns whether elements of this type can be added to memory 16 bytes at a time.
constexpr bool can_add_rows(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16;
}

// Stores the contents of `buffer` to the rows that `to` selects. The buffer's first element is at row `row`,
// column `col` of the output. Rows of the output at `end` and beyond are not stored. All threads of the
// warpgroup must call this after all of them have written to the buffer. If `to.adds` is true, can_add_rows()
// must hold for the type of the buffer's elements.
void scatter_rows(const TileView& buffer, const ScatteredRows& to, u32 row, u32 col, u32 end);

}  // namespace ptxbuilder::detail

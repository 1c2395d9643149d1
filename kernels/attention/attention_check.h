// The rules of attention's arguments, and what the kernel gets once these hold.
#pragma once

#include <optional>

#include "kernels/attention/attention.h"

namespace ptxbuilder::kernels {

// A tensor as it lies, with all strides known, in elements.
struct PlacedHeads {
  const char* name = "";
  DType type = DType::f16;
  runtime::View memory = {};
  int64_t columns = 0, rows = 0, heads = 0, batches = 0;
  int64_t row_stride = 0, head_stride = 0, batch_stride = 0;

  bool is_empty() const { return columns == 0 || rows == 0 || heads == 0 || batches == 0; }
  // Whether a tensor map takes it where it lies.
  bool aligned_for_tma() const;
};

// A call as the kernel sees it: of a single query, the heads that share keys are its rows, and the keys that
// it sees are all. Of few queries, some of these heads are rows too (AttentionOperation::heads_in_rows):
// `size` counts rows as queries, and Q and O lie as they are given.
struct PlacedAttention {
  AttentionOperation operation;
  AttentionSize size;
  PlacedHeads q, k, v, o;
  // Whether the kernel may write O where it lies, and nothing behind its rows.
  bool stores_in_place() const;
};

// `heads_as_rows`: whether those that share keys may become rows. Throws Error that names operand, rule
// and value.
PlacedAttention checked(const AttentionArguments& arguments, bool heads_as_rows, Where where);

// Throws Error for a workspace of fewer than `bytes`, that is not aligned, or that overlaps an operand.
void check_workspace(const AttentionArguments& arguments, const PlacedAttention& placed, size_t bytes,
                     Where where);

}  // namespace ptxbuilder::kernels

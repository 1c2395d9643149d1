// Determines the order in which persistent CTAs process the blocks of queries of packed sequences. Sequences
// with the most keys come first, and within a sequence, the last rows come first. A kernel computes the
// order, because the lengths of the sequences are known only on the device.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "runtime/compile/load.h"

namespace ptxbuilder::kernels {

// The layout of the order in the workspace, in u32 numbers. It begins with the counter that supplies the next
// pair of a block and a head to each CTA. The counter is followed by the number of blocks in all sequences
// and, for each block, by its sequence and its number within the sequence. The counter is 0 before a launch,
// and the launch resets it to 0.
struct AttentionOrder {
  static constexpr int kCounter = 0, kBlocks = 1, kFirst = 2, kEntry = 2;

  // Returns the size of the order in bytes, for the largest number of blocks that is possible if `query_rows`
  // rows belong to `sequences` sequences and a block has `rows` rows.
  static size_t bytes(int64_t query_rows, int64_t sequences, int rows);
};

// Returns a kernel that writes the order and sets the counter to 0. Its parameters are u32 *query_offsets and
// u32 *key_offsets (sequences + 1 numbers each), u32 *order, u32 sequences, and the u32 number of rows in a
// block. Each warp compares one sequence with all others to find its position in the order.
Kernel attention_order();

}  // namespace ptxbuilder::kernels

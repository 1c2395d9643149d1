// The order in which CTAs that stay process the blocks of queries of packed sequences: the sequence with the
// most keys first, and the last rows of a sequence first. Only the device knows how long the sequences are.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "runtime/compile/load.h"

namespace ptxbuilder::kernels {

// The layout of the order in the workspace, as u32 numbers: the counter from which CTAs take their next block
// of some head, the number of blocks of all sequences, and for each block its sequence and its position in
// the sequence. The counter is 0 before a launch, and the launch resets it to 0.
struct AttentionOrder {
  static constexpr int kCounter = 0, kBlocks = 1, kFirst = 2, kEntry = 2;

  // Returns the bytes for the most blocks of `rows` rows that `query_rows` rows in `sequences` sequences can
  // have.
  static size_t bytes(int64_t query_rows, int64_t sequences, int rows);
};

// Returns a kernel that writes the order, and sets the counter to 0. Its parameters are u32 *query_offsets
// and *key_offsets, with sequences + 1 numbers each; u32 *order; u32 sequences, and the rows of a block. A
// warp finds a sequence's position by comparing the sequence with all others.
Kernel attention_order();

}  // namespace ptxbuilder::kernels

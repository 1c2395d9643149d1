// The order in which CTAs that stay take the blocks of queries of packed sequences: the sequence with the
// most keys first, and its last rows first. Only the device knows how long the sequences are.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "runtime/compile/load.h"

namespace ptxbuilder::kernels {

// The layout of the order in the workspace, as u32 numbers: the counter from which CTAs take their next block
// of some head, the number of blocks of all sequences, and for each block its sequence and its place in the
// sequence. The counter is 0 before a launch, and the launch leaves it at 0.
struct AttentionOrder {
  static constexpr int kCounter = 0, kBlocks = 1, kFirst = 2, kEntry = 2;

  // Returns the bytes for as many blocks of `rows` as `query_rows` rows of `sequences` can have.
  static size_t bytes(int64_t query_rows, int64_t sequences, int rows);
};

// Parameters: u32 *query_offsets and *key_offsets, sequences + 1 of each; u32 *order; u32 sequences, and rows
// of a block. Writes the order, and sets the counter to 0. A warp finds a sequence's place by comparing it
// with all others.
Kernel attention_order();

}  // namespace ptxbuilder::kernels

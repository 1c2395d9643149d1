// The order in which CTAs that stay take the blocks of queries of packed sequences: of the sequence with the
// most keys first, and of each the last rows first. How long sequences are, the device alone knows.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "runtime/compile/load.h"

namespace ptxbuilder::kernels {

// This is where the order is in the workspace, as numbers of u32: the counter from which CTAs take their next
// block of some head, the blocks of all sequences, and for each of these its sequence and its place in it.
// The counter is 0 ahead of a launch, which leaves it so.
struct AttentionOrder {
  static constexpr int kCounter = 0, kBlocks = 1, kFirst = 2, kEntry = 2;

  // Gives the bytes of as many blocks of `rows` as `query_rows` of `sequences` can have.
  static size_t bytes(int64_t query_rows, int64_t sequences, int rows);
};

// Parameters: u32 *query_offsets and *key_offsets, sequences + 1 of each; u32 *order; u32 sequences, and rows
// of a block. Writes the order, and sets the counter to 0. A warp finds the place of a sequence by looking at
// all others.
Kernel attention_order();

}  // namespace ptxbuilder::kernels

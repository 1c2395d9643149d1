// Computes the control flow of a kernel: basic blocks, dominators and loops.
#pragma once

#include <vector>

#include "ptxbuilder/analysis/code.h"
#include "ptxbuilder/analysis/dominators.h"

namespace ptxbuilder::analysis {

struct Block {
  int first = 0, last = 0;  // the block's instructions, from `first` up to but not including `last`
  std::vector<int> successors = {}, predecessors = {};
  int loop = kNone;  // innermost loop that contains the block
};

// A natural loop: all blocks from which its header can be reached without leaving the loop.
struct Loop {
  int header = kNone;
  std::vector<int> blocks = {};   // in ascending order, including the blocks of inner loops
  std::vector<int> latches = {};  // blocks that branch back to the header
  int parent = kNone;             // enclosing loop
  int depth = 1;

  bool contains(int block) const;
};

struct Graph {
  std::vector<Block> blocks;
  std::vector<int> order;     // reachable blocks, each after its dominators
  std::vector<int> place;     // for each block, its position in `order`; kNone for unreachable blocks
  std::vector<Loop> loops;    // all loops, each after the loop that encloses it
  std::vector<int> block_of;  // indexed by instruction
  DominatorTree dominators;

  static Graph of(const Code& code);
  bool reaches(int block) const { return dominators.reaches(block); }
  bool dominates(int above, int block) const {
    return reaches(above) && reaches(block) && dominators.dominates(above, block);
  }
  std::vector<int> in_order(const Loop& loop) const;  // returns the blocks of the loop, in the graph's order
};

}  // namespace ptxbuilder::analysis

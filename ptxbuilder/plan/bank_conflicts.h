// Bank conflicts of copies to and from shared memory, counted lane by lane, and the copy that has the fewest.
#pragma once

#include "ptxbuilder/plan/tiled_copy.h"

namespace ptxbuilder {

// The cost of the instructions of all warps. Shared memory has 32 banks of 4 bytes. It serves a warp's access
// in phases of at most 128 bytes: 8 lanes of 16 bytes, 16 lanes of 8 bytes, all 32 lanes of 4 or fewer bytes,
// or one matrix of ldmatrix or stmatrix. A phase takes as many wavefronts as there are different words in its
// busiest bank (CUDA programming guide, "Shared Memory").
struct AccessCost {
  int phases = 0, wavefronts = 0;
  int ways = 0;            // wavefronts of the worst phase: 1 is free of conflicts
  std::string worst = {};  // the worst phase, in words, if ways > 1

  int conflicts() const { return wavefronts - phases; }
};
AccessCost access_cost(const TiledCopy& copy);
// The cost of accesses in which each thread moves `bytes` bytes or, if `matrices` is not 0, each warp moves
// `matrices` matrices.
AccessCost access_cost(const ThreadAccess& access, int bytes, int matrices = 0);

// The same accesses, of `bytes` bytes each, with the exchange that leaves the fewest wavefronts. Returns them
// unchanged if no exchange reduces the number.
ThreadAccess with_fewest_conflicts(const ThreadAccess& access, int bytes);

// Throws Error that names the worst phase if a copy has conflicts.
void check_conflict_free(const TiledCopy& copy, Where where = Where::here());

struct TransferPlan {
  TiledCopy copy;
  AccessCost cost;
};
// Chooses the instruction with which threads that hold `thread_value` in their registers write a tile to
// shared memory, or read it: the one with the fewest wavefronts and, among those, the fewest instructions.
// The choice is among stmatrix or ldmatrix of 4, 2 and 1 matrices, and vectors of 16 bytes down to one
// element. Throws Error if none fits.
TransferPlan plan_store(DType type, const Layout& thread_value, const ComposedLayout& memory,
                        Where where = Where::here());
TransferPlan plan_load(DType type, const Layout& thread_value, const ComposedLayout& memory,
                       Where where = Where::here());

}  // namespace ptxbuilder

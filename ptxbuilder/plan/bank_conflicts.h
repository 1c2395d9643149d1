// Counts bank conflicts of copies to and from shared memory, lane by lane, and finds the copy with the
// fewest.
#pragma once

#include "ptxbuilder/plan/tiled_copy.h"

namespace ptxbuilder {

// The cost of an access by all warps. Shared memory has 32 banks of 4 bytes. It serves a warp's access in
// phases of at most 128 bytes: 8 lanes of 16 bytes, 16 lanes of 8 bytes, all 32 lanes of 4 or fewer bytes, or
// one matrix of ldmatrix or stmatrix. A phase takes as many wavefronts as there are different words in its
// busiest bank (CUDA programming guide, "Shared Memory").
struct AccessCost {
  int phases = 0, wavefronts = 0;
  int ways = 0;            // wavefronts of the worst phase; 1 means no conflicts
  std::string worst = {};  // description of the worst phase, if ways > 1

  int conflicts() const { return wavefronts - phases; }
};
AccessCost access_cost(const TiledCopy& copy);
// Returns the cost of accesses in which each thread moves `bytes` bytes or, if `matrices` is not 0, each warp
// moves `matrices` matrices.
AccessCost access_cost(const ThreadAccess& access, int bytes, int matrices = 0);

// Returns the accesses, of `bytes` bytes each, with the exchange that leaves the fewest wavefronts. If no
// exchange reduces their number, returns them unchanged.
ThreadAccess with_fewest_conflicts(const ThreadAccess& access, int bytes);

// Throws Error that names the worst phase if a copy has conflicts.
void check_conflict_free(const TiledCopy& copy, Where where = Where::here());

struct TransferPlan {
  TiledCopy copy;
  AccessCost cost;
};
// Chooses the instruction with which threads that hold `thread_value` in registers write a tile to shared
// memory, or read it: the one with the fewest wavefronts and, among those, the fewest instructions.
// Candidates are stmatrix or ldmatrix of 4, 2 and 1 matrices, and vectors of 16 bytes down to one element.
// Throws Error if none of them fits.
TransferPlan plan_store(DType type, const Layout& thread_value, const ComposedLayout& memory,
                        Where where = Where::here());
TransferPlan plan_load(DType type, const Layout& thread_value, const ComposedLayout& memory,
                       Where where = Where::here());

}  // namespace ptxbuilder

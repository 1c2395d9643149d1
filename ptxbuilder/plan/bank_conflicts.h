// Counts the bank conflicts of copies to and from shared memory by examining the address of each lane, and
// finds the copy with the fewest conflicts.
#pragma once

#include "ptxbuilder/plan/tiled_copy.h"

namespace ptxbuilder {

// The cost of all accesses of a copy, summed over the warps. Shared memory has 32 banks of 4 bytes, and
// processes a warp's access in phases of at most 128 bytes: 8 lanes of 16 bytes, 16 lanes of 8 bytes, all 32
// lanes of 4 or fewer bytes, or one matrix of ldmatrix or stmatrix. The number of wavefronts of a phase is
// the number of different words in the phase's busiest bank (CUDA programming guide, "Shared Memory").
struct AccessCost {
  int phases = 0, wavefronts = 0;
  int ways = 0;            // number of wavefronts of the worst phase; 1 means no conflicts
  std::string worst = {};  // description of the worst phase, if ways > 1

  int conflicts() const { return wavefronts - phases; }
};
AccessCost access_cost(const TiledCopy& copy);
// Returns the cost of accesses in which each thread moves `bytes` bytes. If `matrices` is not 0, each warp
// moves `matrices` matrices instead.
AccessCost access_cost(const ThreadAccess& access, int bytes, int matrices = 0);

// Returns the accesses, of `bytes` bytes each, with the exchange that results in the fewest wavefronts. If no
// exchange reduces the number of wavefronts, the accesses are returned unchanged.
ThreadAccess with_fewest_conflicts(const ThreadAccess& access, int bytes);

// If a copy has conflicts, throws an Error that describes the worst phase.
void check_conflict_free(const TiledCopy& copy, Where where = Where::here());

struct TransferPlan {
  TiledCopy copy;
  AccessCost cost;
};
// Choose an instruction with which threads that hold `thread_value` in registers write a tile to shared
// memory, or read a tile from there. The best instruction needs the fewest wavefronts; ties are broken by the
// number of instructions. Candidates are stmatrix or ldmatrix with 4, 2 or 1 matrices, and vectors of 16
// bytes down to one element. Both functions throw Error if no candidate fits.
TransferPlan plan_store(DType type, const Layout& thread_value, const ComposedLayout& memory,
                        Where where = Where::here());
TransferPlan plan_load(DType type, const Layout& thread_value, const ComposedLayout& memory,
                       Where where = Where::here());

}  // namespace ptxbuilder

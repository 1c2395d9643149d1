// The matrix product of every type, storage, epilogue and tile, as one kernel.
#pragma once

#include "kernels/gemm/config.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

// Parameters, in order: tensor maps A, B and D (2-D, 3-D with batches; innermost dimension first); u32 M, N,
// K; then, where the operation has them, f32 alpha, f32 beta, C (pointer) and u32 ldc (elements), bias
// (pointer). With batches u32 batches at the end, and C's batches lie M ldc apart. The grid is gemm_grid's.
// Throws Error as checked() does.
Kernel gemm(const GemmOperation& operation, const GemmTile& tile, Where where = Where::here());

// Clusters of 1 to 8 CTAs, each with an SM to itself, that run at once on a GPU of `multiprocessors` SMs. Of
// more than two fewer fit than there are SMs for, since a cluster lies within one GPC: 30 of four on an H100
// (cuOccupancyMaxActiveClusters).
int active_clusters(int ctas, int multiprocessors);

// CTAs along x and y of the grid on `multiprocessors` SMs: as many clusters as fit at once, but no more than
// there are tiles; with stream-K, no more than kStreamShares for each tile.
inline constexpr int kStreamShares = 8;
struct GemmGrid {
  uint32_t x, y;
};
GemmGrid gemm_grid(const GemmTile& tile, int64_t m, int64_t n, int64_t batches, int multiprocessors);

// Lets pass what ptxas says of a kernel that wants more registers than there are, which is right, but slow:
// spills, a stack, and wgmmas that wait for each other.
void waive_lack_of_registers(Kernel& kernel);

}  // namespace ptxbuilder::kernels

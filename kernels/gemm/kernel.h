// Builds the kernel of a matrix product. One function covers every type, layout, epilogue and tile.
#pragma once

#include "kernels/gemm/config.h"
#include "kernels/gemm/epilogue.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

// Returns the kernel of a product. Its parameters are, in order:
// - tensor maps A, B and D (2-D, or 3-D with batches; innermost dimension first);
// - u32 M, N, K;
// - with a_rows, u32 lda and rows_of_a; A is then a pointer;
// - with d_rows, u32 ldd and rows_of_d; D is then a pointer;
// - with d_by_threads, d_memory (a pointer), u32 ldd and u32 d_by_tma;
// - f32 alpha, if the operation has it;
// - the operands that the operation has, as pointers, in the order of product.def; f32 beta comes before C,
// and each matrix is followed by u32 ldNAME, the number of elements from one row to the next;
// - the parameters that `user` declares;
// - with batches, u32 batches; consecutive batches of a matrix are M rows apart;
// - with split_last, the workspace (a pointer).
// The kernel's grid follows gemm_grid_rule() (scheduler.h). Throws an Error if checked() would.
Kernel gemm(const GemmOperation& operation, const GemmTile& tile, const UserEpilogue& user,
            Where where = Where::here());
Kernel gemm(const GemmOperation& operation, const GemmTile& tile, Where where = Where::here());

// Waives the ptxas reports about a kernel that needs more registers than exist, such as spills, a stack, and
// wgmmas that wait for each other. Such a kernel is correct but slow.
void waive_lack_of_registers(Kernel& kernel);

}  // namespace ptxbuilder::kernels

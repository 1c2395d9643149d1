// The matrix product for every type, storage, epilogue and tile, as one kernel.
#pragma once

#include "kernels/gemm/config.h"
#include "kernels/gemm/epilogue.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

// Parameters, in order: tensor maps A, B and D (2-D, 3-D with batches; innermost dimension first); u32 M, N,
// K; then, if the operation has them, u32 lda and rows_of_a after a_rows, which makes A a pointer, u32 ldd
// and rows_of_d after d_rows, which makes D a pointer, d_memory (pointer), u32 ldd and u32 d_by_tma, f32
// alpha, and as pointers the operands of product.def in its order, f32 beta before C, and after each matrix
// u32 ldNAME, the elements from one row to the next; the parameters of `user`. With batches, u32 batches, and
// the batches of a matrix are M rows apart. With split_last, the workspace (pointer) at the end. The kernel
// has the rule gemm_grid_rule() (scheduler.h). Throws Error like checked().
Kernel gemm(const GemmOperation& operation, const GemmTile& tile, const UserEpilogue& user,
            Where where = Where::here());
Kernel gemm(const GemmOperation& operation, const GemmTile& tile, Where where = Where::here());

// Accepts the reports of ptxas about a kernel that needs more registers than exist, which is correct but
// slow: spills, a stack, and wgmmas that wait for each other.
void waive_lack_of_registers(Kernel& kernel);

}  // namespace ptxbuilder::kernels

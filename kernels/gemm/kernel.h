// The matrix product of every type, storage, epilogue and tile, as one kernel.
#pragma once

#include "kernels/gemm/config.h"
#include "kernels/gemm/epilogue.h"
#include "ptxbuilder/tile/kernel.h"

namespace ptxbuilder::kernels {

// Parameters, in order: tensor maps A, B and D (2-D, 3-D with batches; innermost dimension first); u32 M, N,
// K; then, where the operation has them, u32 lda and rows_of_a after a_rows, with which A is a pointer, u32
// ldd and rows_of_d after d_rows, with which D is one, d_memory (pointer), u32 ldd and u32 d_by_tma, f32
// alpha, and as pointers the operands of product.def in its order, f32 beta before C, and after each
// matrix u32 ldNAME, the elements from a row to the next; those of `user`. With batches u32 batches, and the
// batches of a matrix lie M rows apart. With split_last the workspace (pointer) at the end. It states
// gemm_grid_rule() (scheduler.h). Throws Error as checked() does.
Kernel gemm(const GemmOperation& operation, const GemmTile& tile, const UserEpilogue& user,
            Where where = Where::here());
Kernel gemm(const GemmOperation& operation, const GemmTile& tile, Where where = Where::here());

// Lets pass what ptxas says of a kernel that wants more registers than there are, which is right, but slow:
// spills, a stack, and wgmmas that wait for each other.
void waive_lack_of_registers(Kernel& kernel);

}  // namespace ptxbuilder::kernels

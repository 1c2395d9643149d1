// Adds up the rows of all ranks and a residual, and computes the RMS norm of the sum.
#pragma once

#include "kernels/rows/operation.h"

namespace ptxbuilder::kernels {

// Returns the description of the operation, which lists the tensors and numbers that a rank passes. It is not
// listed in row_operations().
RowOperation all_reduce_rms_norm();

// Returns the kernel, which must be launched once on each rank, concurrently. Each rank stores its rows of x
// into the memory of every rank, including its own, and signals once to each. It then waits for a signal from
// each rank, and adds up the rows in the order of ranks, so that all ranks get the same bits. The kernel is
// meant for small tensors, since all rows are sent to all ranks. Its parameters are those of the operation,
// followed by
//   memory_0 ..  the exchange memory of each rank; see PeerExchange
//   own          the memory of this rank
//   rank
//   place_bytes  the distance between the two places for data, which follow the kExchangeBytes bytes of words
Kernel all_reduce_norm(const RowProblem& problem, int ranks, Where where = Where::here());

}  // namespace ptxbuilder::kernels

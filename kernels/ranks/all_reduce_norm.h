// Adds up all ranks' rows and a residual, and computes the RMS norm of the sum.
#pragma once

#include "kernels/rows/operation.h"

namespace ptxbuilder::kernels {

// Returns the operation with the tensors and numbers that a rank passes; it is not one of row_operations().
RowOperation all_reduce_rms_norm();

// Returns the kernel, which is launched once on each rank, concurrently. Each rank stores its rows of x into
// the memory of every rank, including its own, signals once, waits for one signal from each rank, and adds up
// the rows in the order of ranks, so that all ranks get the same bits. It is meant for small tensors, since
// all rows cross every link. The operation's arguments are followed by
//   memory_0 ..  the exchange memory of each rank; see PeerExchange
//   own          the memory of this rank
//   rank
//   place_bytes  the distance between the two places for data, which begin after kExchangeBytes of words
Kernel all_reduce_norm(const RowProblem& problem, int ranks, Where where = Where::here());

}  // namespace ptxbuilder::kernels

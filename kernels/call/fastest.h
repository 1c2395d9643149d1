// Finds the fastest of several tiles for a call by measuring them on the GPU.
#pragma once

#include <functional>
#include <span>

#include "runtime/device.h"

namespace ptxbuilder::kernels {

// Queues one launch of contender `i` with set `set` of the operands.
using QueueContender = std::function<void(size_t i, size_t set, runtime::Stream stream)>;

// Returns the index of the contender whose launches were the fastest. `queue(i, set, stream)` queues one
// launch of contender `i` with one of `sets` sets of operands. Launches are recorded into graphs, so that the
// host's time is not measured. In each round, every contender runs for half a millisecond, so that all
// contenders run at the same clock frequency. The result is the first contender whose median over the rounds
// is within half a percent of the lowest median. Throws Error if the device cannot record graphs or has no
// usable clock, or if a launch fails.
size_t fastest(runtime::Device& device, size_t contenders, size_t sets, const QueueContender& queue);

}  // namespace ptxbuilder::kernels

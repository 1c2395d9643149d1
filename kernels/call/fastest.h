// The fastest of a call's tiles, measured on the GPU.
#pragma once

#include <functional>
#include <span>

#include "runtime/device.h"

namespace ptxbuilder::kernels {

// Queues one launch of contender `i` with one of several sets of operands.
using QueueContender = std::function<void(size_t i, size_t set, runtime::Stream stream)>;

// Returns the index of the contender whose launches took the least time. `queue(i, set, stream)` queues one
// launch of contender `i` with one of `sets` sets of operands; launches are recorded into graphs, so that the
// host's part is not timed. The contenders take turns, in rounds of bursts of half a millisecond each, so
// that all run at the same clock; the median over the rounds counts, and the first contender within half a
// percent of the least is returned. Throws Error if the device records no graphs or has no usable clock, and
// if a launch fails.
size_t fastest(runtime::Device& device, size_t contenders, size_t sets, const QueueContender& queue);

}  // namespace ptxbuilder::kernels

// Writes a profile in Perfetto's own format, for ui.perfetto.dev and its trace processor.
#pragma once

#include "runtime/profile.h"

namespace ptxbuilder::runtime {

// A trace (perfetto.protos.Trace) with a process for each multiprocessor and, in the process, a track for
// each warp: regions are slices, and marks are instants whose annotation "value" is the mark's.
std::string perfetto_trace(const Profile& profile);

}  // namespace ptxbuilder::runtime

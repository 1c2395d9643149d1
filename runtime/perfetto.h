// Writes a profile in Perfetto's native format, for ui.perfetto.dev and its trace processor.
#pragma once

#include "runtime/profile.h"

namespace ptxbuilder::runtime {

// Returns a trace (perfetto.protos.Trace). It contains a process for each multiprocessor and, in the process,
// a track for each warp. Regions become slices. Marks become instants with an annotation "value" that holds
// the marked value.
std::string perfetto_trace(const Profile& profile);

}  // namespace ptxbuilder::runtime

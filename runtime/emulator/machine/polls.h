// Finds the warps of a launch that do nothing but poll one word when the launch runs out of time.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "runtime/emulator/machine/machine.h"

namespace ptxbuilder::runtime::emulator {

// The clusters of a launch that take turns.
using Residents = std::deque<std::unique_ptr<Cluster>>;

// Runs the clusters, which may belong to several launches, for some more steps, and describes each warp that
// polls. A warp polls if one instruction reads the same value of the same word repeatedly, with the same
// register contents each time: only another thread's store can end such a loop. A loop that counts is not a
// poll, however slow it is. Returns an empty string if no warp polls.
std::string describe_polls(const std::vector<const Residents*>& clusters);

}  // namespace ptxbuilder::runtime::emulator

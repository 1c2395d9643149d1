// Draws a profile: the shares of each role's regions, and the warps of a CTA over time.
#pragma once

#include <string>

#include "runtime/profile.h"

namespace ptxbuilder::runtime {

// Returns the text of an SVG file. It contains the rows of summary(), each with a bar for its share. Below
// them are the regions of the CTA that began first, with one line for the first warp of each warpgroup.
std::string profile_svg(const Profile& profile);

}  // namespace ptxbuilder::runtime

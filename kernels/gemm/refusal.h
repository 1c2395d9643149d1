// Describes combinations that an operation, or a tile for it, does not support.
#pragma once

#include "kernels/gemm/config.h"

namespace ptxbuilder::kernels {

// Return what cannot be combined, and what to change; empty if everything can be combined.
std::string refusal_of(const GemmOperation& operation);
std::string refusal_of(const GemmOperation& operation, const GemmTile& tile);

}  // namespace ptxbuilder::kernels

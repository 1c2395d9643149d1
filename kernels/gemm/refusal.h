// This says what an operation, and a tile for it, may not combine.
#pragma once

#include "kernels/gemm/config.h"

namespace ptxbuilder::kernels {

// Return what does not go together, and what to change; empty if all does.
std::string refusal_of(const GemmOperation& operation);
std::string refusal_of(const GemmOperation& operation, const GemmTile& tile);

}  // namespace ptxbuilder::kernels

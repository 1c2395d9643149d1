// Explains why an operation, or a tile for an operation, is not supported.
#pragma once

#include "kernels/gemm/config.h"

namespace ptxbuilder::kernels {

// These functions return a message that names the settings that cannot be combined and says what to change.
// The message is empty if the operation, or the operation with the tile, is supported.
std::string refusal_of(const GemmOperation& operation);
std::string refusal_of(const GemmOperation& operation, const GemmTile& tile);

}  // namespace ptxbuilder::kernels

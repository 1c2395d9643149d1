// Unpacks LZ4's block format. Fatbins contain code in this format if nvcc was asked to compress for speed.
#pragma once

#include <string>
#include <string_view>

namespace ptxbuilder {

// Unpacks a block, and returns its contents, which must have `size` bytes (LZ4 Block Format Description,
// 2022). If the block is invalid, throws an Error that names the byte and the broken rule.
std::string unpack_lz4(std::string_view block, size_t size);

}  // namespace ptxbuilder

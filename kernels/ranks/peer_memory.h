// The rules for the memory through which ranks exchange data with a PeerExchange, on the host.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/ranks/exchange.h"
#include "runtime/buffer.h"

namespace ptxbuilder::kernels {

// Returns `bytes`, rounded up to the next multiple at which data may begin.
size_t aligned_for_peers(size_t bytes);
// Returns the bytes of a memory with two places of `place` bytes each, which calls use in turn.
size_t peer_memory_bytes(size_t place);
// Returns the bytes of each place of a memory, or of each of `parts` equal parts of a place.
size_t peer_place_bytes(const runtime::View& memory, size_t parts = 1);

// Throws Error unless there are 2 to kMostRanks memories, and `rank` is the index of one of them. `call` is
// the name of the call in errors.
void check_peers(std::string_view call, const std::vector<runtime::View>& memory, int rank);

// Throws Error unless each memory has at least `least` bytes, all have the same size, and their addresses are
// aligned.
void check_peer_memory(std::string_view call, const std::vector<runtime::View>& all, size_t least);

// Returns whether all memories have the same size and aligned addresses.
bool is_even_memory(const std::vector<runtime::View>& all);

}  // namespace ptxbuilder::kernels

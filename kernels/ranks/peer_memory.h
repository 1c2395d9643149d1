// Host-side rules for the memory through which ranks exchange data with a PeerExchange.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/ranks/exchange.h"
#include "runtime/buffer.h"

namespace ptxbuilder::kernels {

// Rounds `bytes` up to the alignment of data in exchange memory.
size_t aligned_for_peers(size_t bytes);
// Returns the size of an exchange memory in bytes. It has two places of `place` bytes each, which calls use
// alternately.
size_t peer_memory_bytes(size_t place);
// Returns the size in bytes of each place of a memory or, with `parts`, of each of `parts` equal parts of a
// place.
size_t peer_place_bytes(const runtime::View& memory, size_t parts = 1);

// Throws an Error unless there are 2 to kMostRanks memories and `rank` is the index of one of them. `call` is
// the name of the call in the message.
void check_peers(std::string_view call, const std::vector<runtime::View>& memory, int rank);

// Throws an Error unless all memories have the same size, of at least `least` bytes, and aligned addresses.
void check_peer_memory(std::string_view call, const std::vector<runtime::View>& all, size_t least);

// Returns whether all memories have the same size and aligned addresses, and there are at most kMostRanks of
// them.
bool is_even_memory(const std::vector<runtime::View>& all);

}  // namespace ptxbuilder::kernels

// The rules of the memory through which ranks exchange data by a PeerExchange, on the host.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/ranks/exchange.h"
#include "runtime/buffer.h"

namespace ptxbuilder::kernels {

// Returns the bytes up to the next multiple at which data begin.
size_t aligned_for_peers(size_t bytes);
// Returns the bytes of a memory with room for so many in each of two places, which calls take in turn.
size_t peer_memory_bytes(size_t place);
// Returns the bytes of each place of a memory, or of each of so many equal parts of a place.
size_t peer_place_bytes(const runtime::View& memory, size_t parts = 1);

// Throws Error unless there are 2 to kMostRanks memories, `rank` being the number of one of them. `call` is
// its name in errors.
void check_peers(std::string_view call, const std::vector<runtime::View>& memory, int rank);

// Throws Error unless each memory has `least` bytes, all have the same number, and their addresses are
// aligned.
void check_peer_memory(std::string_view call, const std::vector<runtime::View>& all, size_t least);

// Returns whether all memories have the same number of bytes, and addresses that are aligned.
bool is_even_memory(const std::vector<runtime::View>& all);

}  // namespace ptxbuilder::kernels

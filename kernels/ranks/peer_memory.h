// The rules of the memory through which ranks exchange data by a PeerExchange, on the host.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "kernels/ranks/exchange.h"
#include "ptxbuilder/error.h"
#include "runtime/device.h"

namespace ptxbuilder::kernels {

// After the words there are two places for data, which calls take in turn.
inline constexpr size_t kPeerPlaces = 2, kPeerAlignment = 256;

inline size_t aligned_for_peers(size_t bytes) {
  return (bytes + kPeerAlignment - 1) / kPeerAlignment * kPeerAlignment;
}
// Returns the bytes of a memory with room for so many in each place, and of the place that a memory has.
inline size_t peer_memory_bytes(size_t place) {
  return kExchangeBytes + kPeerPlaces * aligned_for_peers(place);
}
inline size_t peer_place_bytes(const runtime::View& memory) {
  return (memory.bytes - kExchangeBytes) / kPeerPlaces / kPeerAlignment * kPeerAlignment;
}

// Throws Error unless there are 2 to kMostRanks memories, `rank` being the number of one of them. `call` is
// its name in errors.
inline void check_peers(std::string_view call, const std::vector<runtime::View>& memory, int rank) {
  const auto ranks = static_cast<int>(memory.size());
  if (ranks < 2 || ranks > kMostRanks)
    throw Error(
        fmt::format("{}: the exchange memory of {} ranks; there may be 2 to {}", call, ranks, kMostRanks));
  if (rank < 0 || rank >= ranks)
    throw Error(fmt::format("{}: rank {} of {}; the exchange memory of each rank is given, this one's too",
                            call, rank, ranks));
}

// Throws Error unless each memory has `least` bytes, all have the same number, and their addresses are
// aligned.
inline void check_peer_memory(std::string_view call, const std::vector<runtime::View>& all, size_t least) {
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].address == 0 || all[r].address % kPeerAlignment != 0 || all[r].bytes < least)
      throw Error(
          fmt::format("{}: the exchange memory of rank {} has {} B at {:#x}; it takes {} at a multiple of {}",
                      call, r, all[r].bytes, all[r].address, least, kPeerAlignment));
    if (all[r].bytes != all[0].bytes)
      throw Error(
          fmt::format("{}: the exchange memory of rank {} has {} B, and that of rank 0 {}; all have "
                      "as many, from which the places of data follow",
                      call, r, all[r].bytes, all[0].bytes));
  }
}

}  // namespace ptxbuilder::kernels

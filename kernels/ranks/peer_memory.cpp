#include "kernels/ranks/peer_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/error.h"

namespace ptxbuilder::kernels {
namespace {

constexpr size_t kPlaces = 2, kAlignment = 256;

bool is_aligned(const runtime::View& memory) {
  return memory.address != 0 && memory.address % kAlignment == 0;
}

}  // namespace

bool is_even_memory(const std::vector<runtime::View>& all) {
  return all.size() <= kMostRanks && std::ranges::all_of(all, [&](const runtime::View& memory) {
           return is_aligned(memory) && memory.bytes == all[0].bytes;
         });
}

size_t aligned_for_peers(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

size_t peer_memory_bytes(size_t place) { return kExchangeBytes + kPlaces * aligned_for_peers(place); }

size_t peer_place_bytes(const runtime::View& memory, size_t parts) {
  return (memory.bytes - kExchangeBytes) / kPlaces / parts / kAlignment * kAlignment;
}

void check_peers(std::string_view call, const std::vector<runtime::View>& memory, int rank) {
  const auto ranks = static_cast<int>(memory.size());
  if (ranks < 2 || ranks > kMostRanks)
    throw Error(fmt::format("{}: the exchange memory of {} ranks was given, but there must be 2 to {} ranks",
                            call, ranks, kMostRanks));
  if (rank < 0 || rank >= ranks)
    throw Error(
        fmt::format("{}: the rank is {} of {}, but must be one of the ranks whose exchange memory was given",
                    call, rank, ranks));
}

void check_peer_memory(std::string_view call, const std::vector<runtime::View>& all, size_t least) {
  for (size_t r = 0; r < all.size(); ++r) {
    if (!is_aligned(all[r]) || all[r].bytes < least)
      throw Error(fmt::format(
          "{}: the exchange memory of rank {} has {} B at {:#x}, but must have {} at a multiple of {}", call,
          r, all[r].bytes, all[r].address, least, kAlignment));
    if (all[r].bytes != all[0].bytes)
      throw Error(
          fmt::format("{}: the exchange memory of rank {} has {} B, but that of rank 0 has {}; all must have "
                      "the same size, since it determines where data is",
                      call, r, all[r].bytes, all[0].bytes));
  }
}

}  // namespace ptxbuilder::kernels

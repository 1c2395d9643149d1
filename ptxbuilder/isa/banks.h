// Describes the banks of shared memory (CUDA C++ Programming Guide, "Shared Memory").
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::hopper {

inline constexpr int banks = 32, bank_bytes = 4;

// Returns the number of lanes whose accesses of `bytes` bytes are processed together, in a phase of at most
// 128 bytes. The number is 8 for 16 bytes, 16 for 8 bytes, and 32 for at most 4 bytes. ldmatrix and stmatrix
// access a matrix in one phase of 8 lanes.
constexpr int phase_lanes(int bytes) { return std::min(warp_threads, banks * bank_bytes / bytes); }

// Returns the number of wavefronts of a phase in which each lane accesses `bytes` bytes at its address. The
// number of wavefronts is the greatest number of distinct words that the phase accesses in one bank.
inline int wavefronts(std::span<const int64_t> addresses, int bytes) {
  std::array<std::vector<int64_t>, banks> words;
  size_t most = 0;
  for (const int64_t address : addresses)
    for (int64_t word = address / bank_bytes; word * bank_bytes < address + bytes; ++word) {
      std::vector<int64_t>& of_bank = words[static_cast<size_t>(word % banks)];
      if (std::find(of_bank.begin(), of_bank.end(), word) == of_bank.end()) of_bank.push_back(word);
      most = std::max(most, of_bank.size());
    }
  return static_cast<int>(most);
}

}  // namespace ptxbuilder::hopper

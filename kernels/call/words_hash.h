// A hash of words that are sizes and strides, and thus often similar to each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ptxbuilder::kernels {

struct WordsHash {
  template <size_t N>
  size_t operator()(const std::array<uint64_t, N>& words) const {
    uint64_t lanes[4] = {};  // independent lanes, which the processor computes in parallel
    for (size_t i = 0; i < N; i += 4)
      for (size_t lane = 0; lane < 4 && i + lane < N; ++lane)
        lanes[lane] = mixed(lanes[lane], words[i + lane]);
    const uint64_t hash = mixed(mixed(lanes[0], lanes[1]), mixed(lanes[2], lanes[3]));
    return hash ^ (hash >> 32);
  }

 private:
  // The multiplier is the constant of Fibonacci hashing (Knuth, volume 3, 6.4).
  static uint64_t mixed(uint64_t hash, uint64_t word) {
    return (hash ^ (hash >> 29) ^ word) * 0x9e3779b97f4a7c15;
  }
};

}  // namespace ptxbuilder::kernels

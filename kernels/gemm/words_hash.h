// A hash of words, of which similar ones are common: sizes and strides.
#pragma once

#include <array>
#include <cstdint>

namespace ptxbuilder::kernels {

struct WordsHash {
  template <size_t N>
  size_t operator()(const std::array<uint64_t, N>& words) const {
    uint64_t hash = 0;
    for (uint64_t word : words)  // the constant of Fibonacci hashing (Knuth, volume 3, 6.4)
      hash = (hash ^ (hash >> 29) ^ word) * 0x9e3779b97f4a7c15;
    return hash ^ (hash >> 32);
  }
};

}  // namespace ptxbuilder::kernels

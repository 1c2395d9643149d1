// Draws the same numbers as std::mt19937_64, but computes each number only when it is drawn. Most clusters
// draw only a few numbers, and std::mt19937_64 first computes 312 words, which takes as long as many emulated
// instructions.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace ptxbuilder::runtime::emulator {

class RandomNumbers {
 public:
  explicit RandomNumbers(uint64_t seed) { words_[0] = seed; }

  uint64_t operator()() {
    constexpr uint64_t kLow = (uint64_t{1} << 31) - 1;
    // The next words are read before they are replaced, so they must have been computed from the seed.
    for (const size_t last = std::min(at_ + kApart, kWords - 1); made_ <= last; ++made_) {
      const uint64_t before = words_[made_ - 1];
      words_[made_] = 6364136223846793005u * (before ^ before >> 62) + made_;
    }
    const size_t next = at_ + 1 < kWords ? at_ + 1 : 0;
    const size_t apart = at_ + kApart < kWords ? at_ + kApart : at_ + kApart - kWords;
    const uint64_t mixed = (words_[at_] & ~kLow) | (words_[next] & kLow);
    uint64_t x = words_[apart] ^ mixed >> 1 ^ ((mixed & 1) != 0 ? 0xb5026f5aa96619e9 : 0);
    words_[at_] = x;
    at_ = next;
    x ^= x >> 29 & 0x5555555555555555;
    x ^= x << 17 & 0x71d67fffeda60000;
    x ^= x << 37 & 0xfff7eee000000000;
    return x ^ x >> 43;
  }

 private:
  static constexpr size_t kWords = 312, kApart = 156;
  std::array<uint64_t, kWords> words_;
  // `made_` is the number of words that have been computed from the seed, and `at_` is the index of the word
  // that is drawn next.
  size_t made_ = 1, at_ = 0;
};

}  // namespace ptxbuilder::runtime::emulator

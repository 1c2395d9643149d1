// Computes counter-based random numbers: Philox by Salmon, Moraes, Dror and Shaw (Parallel random numbers: as
// easy as 1, 2, 3; 2011). The functions work on a kernel's values and on host integers, so the host can
// compute the numbers that a kernel draws.
//
//   const std::array<u32, 4> words = philox4x32({i, j, 0, 0}, {seed_low, seed_high});
#pragma once

#include <array>
#include <cstdint>

#include "ptxbuilder/ir/value.h"

namespace ptxbuilder {

namespace detail {

template <class Word>
struct WordProduct {
  Word high, low;
};
inline WordProduct<uint32_t> word_product(uint32_t a, uint32_t b) {
  const uint64_t product = uint64_t{a} * b;
  return {static_cast<uint32_t>(product >> 32), static_cast<uint32_t>(product)};
}
inline WordProduct<u32> word_product(u32 a, uint32_t b) {
  const u64 product = u64(a) * u64(uint64_t{b});
  return {u32(product >> u64(32)), u32(product)};
}

constexpr int kPhiloxRounds = 10;  // the authors' recommendation, which includes a safety margin
// Two odd numbers, derived from the golden ratio and sqrt(3) - 1, that are added to the keys in each round.
constexpr std::array<uint32_t, 2> kPhiloxWeyl = {0x9e3779b9, 0xbb67ae85};

}  // namespace detail

// Returns random words; `Word` is u32 or uint32_t. Words for different counters or different keys are
// independent.
template <class Word>
std::array<Word, 2> philox2x32(std::array<Word, 2> counter, Word key) {
  for (int round = 0; round < detail::kPhiloxRounds; ++round) {
    if (round > 0) key = key + Word(detail::kPhiloxWeyl[0]);
    const detail::WordProduct<Word> product = detail::word_product(counter[0], 0xd256d193u);
    counter = {product.high ^ key ^ counter[1], product.low};
  }
  return counter;
}
template <class Word>
std::array<Word, 4> philox4x32(std::array<Word, 4> counter, std::array<Word, 2> key) {
  for (int round = 0; round < detail::kPhiloxRounds; ++round) {
    for (size_t i = 0; round > 0 && i < key.size(); ++i) key[i] = key[i] + Word(detail::kPhiloxWeyl[i]);
    const detail::WordProduct<Word> first = detail::word_product(counter[0], 0xd2511f53u),
                                    second = detail::word_product(counter[2], 0xcd9e8d57u);
    counter = {second.high ^ counter[1] ^ key[0], second.low, first.high ^ counter[3] ^ key[1], first.low};
  }
  return counter;
}

}  // namespace ptxbuilder

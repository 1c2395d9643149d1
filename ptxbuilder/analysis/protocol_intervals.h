// Represents sets of unsigned numbers as intervals.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace ptxbuilder::analysis {

// Intervals, each with its first and its last number (inclusive), in ascending order and with gaps between
// them.
using Intervals = std::vector<std::pair<uint64_t, uint64_t>>;

// Returns the largest number with this number of bits.
constexpr uint64_t mask(int bits) { return bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1; }

// Returns the union of the intervals, sorted and merged.
Intervals united(Intervals all);
Intervals common(const Intervals& a, const Intervals& b);
// Returns the numbers of `bits` bits that are not in the set.
Intervals complement(const Intervals& of, int bits);
// Adds the numbers from `first` to `last`. The range may wrap around.
void add_wrapped(Intervals& to, uint64_t first, uint64_t last, int bits);
// Adds the numbers x for which factor * x + constant is in the range from `first` to `last`, read as unsigned
// or as negative numbers. Only numbers x for which the product does not overflow a signed register are added.
void add_multiplied(Intervals& to, uint64_t first, uint64_t last, int64_t factor, int64_t constant, int bits);

}  // namespace ptxbuilder::analysis

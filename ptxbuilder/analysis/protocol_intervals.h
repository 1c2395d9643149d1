// Sets of numbers without a sign as intervals.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace ptxbuilder::analysis {

// Numbers from the first up to and including the last; ascending, and apart from each other.
using Intervals = std::vector<std::pair<uint64_t, uint64_t>>;

// The largest number of so many bits.
constexpr uint64_t mask(int bits) { return bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1; }

// The same numbers, ascending and apart.
Intervals united(Intervals all);
Intervals common(const Intervals& a, const Intervals& b);
// The numbers of so many bits that are not in it.
Intervals complement(const Intervals& of, int bits);
// Adds the numbers from first to last, which may go over the end and begin again.
void add_wrapped(Intervals& to, uint64_t first, uint64_t last, int bits);
// Adds the numbers x for which factor * x + constant is from first to last, or as far below zero, where x is
// so small that the product does not go over the end of a register with a sign.
void add_multiplied(Intervals& to, uint64_t first, uint64_t last, int64_t factor, int64_t constant, int bits);

}  // namespace ptxbuilder::analysis

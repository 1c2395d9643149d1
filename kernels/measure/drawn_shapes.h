// Shapes that are drawn with a seed: some to which a choice of tiles may be fitted, and others that judge it.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/measure/shapes.h"

namespace ptxbuilder::bench {

// Drawn shapes have a purpose. A hash of n and k assigns each pair to one of the two, whatever the seed is:
// no choice is judged on a shape to which it was fitted, nor on a layer to which it was fitted with another
// m.
enum class Purpose : uint8_t { test, fit };
Purpose purpose_of(int64_t n, int64_t k);

// Half of them are layers of language models of any hidden size, heads, vocabulary and tensor parallelism,
// with 1 to 16384 tokens ("layer"); three of eight have log-uniform m, n and k that are multiples of 8
// ("uniform"); one of eight has sizes of any remainder ("odd"). No product exceeds 2^42 multiplications or 2
// GiB in 16-bit types, or is in another set. A smaller count draws the first shapes of a larger one.
std::vector<Shape> drawn_shapes(Purpose purpose, uint64_t seed, int count);

// Draws shapes with few tiles and a long k: log-uniform, up to 1024 x 4096 and 2^20 elements of D, k from
// 4096 to 65536, multiples of 8 or 64 ("deep").
std::vector<Shape> deep_shapes(Purpose purpose, uint64_t seed, int count);

}  // namespace ptxbuilder::bench

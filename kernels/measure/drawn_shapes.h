// Shapes that are drawn by a seed: some that a choice of tiles may be fitted to, and others that judge it.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/measure/shapes.h"

namespace ptxbuilder::bench {

// Drawn shapes have a purpose. A pair of n and k belongs to one of the two whatever the seed is, by a hash of
// it: nothing is judged on a shape that it was fitted to, nor on a layer that it knows with another m.
enum class Purpose : uint8_t { test, fit };
Purpose purpose_of(int64_t n, int64_t k);

// Half of them are layers of language models of any hidden size, heads, vocabulary and tensor parallelism,
// with 1 to 16384 tokens ("layer"); three of eight have log-uniform m, n and k that are multiples of 8
// ("uniform"); one of eight has sizes of any remainder ("odd"). No product is beyond 2^42 multiplications or
// 2 GiB in 16-bit types, and none is of another set. The first of a larger count are those of a smaller one.
std::vector<Shape> drawn_shapes(Purpose purpose, uint64_t seed, int count);

// These have few tiles and a long k: log-uniform, up to 1024 x 4096 and 2^20 elements of D, k from 4096 to
// 65536, multiples of 8 or 64 ("deep").
std::vector<Shape> deep_shapes(Purpose purpose, uint64_t seed, int count);

}  // namespace ptxbuilder::bench

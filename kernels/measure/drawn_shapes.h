// Shapes that are drawn with a seed: some for fitting the choice of tiles, and others for judging it.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/measure/shapes.h"

namespace ptxbuilder::bench {

// The purpose of drawn shapes. A hash of n and k assigns each pair to one of the two purposes, whatever the
// seed is, so no choice is judged on a shape that it was fitted to, or on a layer that it was fitted to with
// another m.
enum class Purpose : uint8_t { test, fit };
Purpose purpose_of(int64_t n, int64_t k);

// Returns drawn shapes. Half of them are layers of language models with any hidden size, heads, vocabulary
// and tensor parallelism, and with 1 to 16384 tokens ("layer"). Three of eight have log-uniform m, n and k
// that are multiples of 8 ("uniform"), and one of eight has sizes with any remainder ("odd"). No product
// exceeds 2^42 multiplications or 2 GiB in 16-bit types, or occurs in another set. A smaller count yields the
// first shapes of a larger one.
std::vector<Shape> drawn_shapes(Purpose purpose, uint64_t seed, int count);

// Returns drawn shapes with few tiles and a long k ("deep"): m and n are log-uniform, up to 1024 x 4096 and
// 2^20 elements of D; k is from 4096 to 65536; all are multiples of 8 or 64.
std::vector<Shape> deep_shapes(Purpose purpose, uint64_t seed, int count);

}  // namespace ptxbuilder::bench

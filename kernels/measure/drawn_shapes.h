// Draws random shapes from a seed, some for fitting the choice of tiles, and others for evaluating it.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/measure/shapes.h"

namespace ptxbuilder::bench {

// The purpose of random shapes. A hash of n and k assigns each pair to one of the two purposes, regardless of
// the seed. The choice of tiles is therefore never evaluated on a shape that it was fitted to, nor on the
// same layer with another m.
enum class Purpose : uint8_t { test, fit };
Purpose purpose_of(int64_t n, int64_t k);

// Returns random shapes. Half of them are layers of language models with various hidden sizes, heads,
// vocabularies and tensor parallelism, and with 1 to 16384 tokens ("layer"). Three in eight have log-uniform
// m, n and k that are multiples of 8 ("uniform"), and one in eight has arbitrary sizes ("odd"). No product
// exceeds 2^42 multiplications or 2 GiB in 16-bit types, or occurs in another set. If `count` is smaller, the
// result is a prefix of the result for a larger `count`.
std::vector<Shape> drawn_shapes(Purpose purpose, uint64_t seed, int count);

// Returns random shapes with few tiles and a long k ("deep"). m and n are log-uniform, up to 1024 x 4096 and
// 2^20 elements of D. k is from 4096 to 65536. All sizes are multiples of 8 or 64.
std::vector<Shape> deep_shapes(Purpose purpose, uint64_t seed, int count);

}  // namespace ptxbuilder::bench

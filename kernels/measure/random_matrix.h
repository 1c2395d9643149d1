// Matrices of random numbers, which are generated once on the host and distributed over buffers of any size
// on the GPU.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/measure/gpu.h"
#include "ptxbuilder/dtype.h"
#include "runtime/buffer.h"

namespace ptxbuilder::bench {

// A block of 2^22 numbers of one type, with the bits that the GPU uses and the values that they represent.
// They are N(0,1); for e4m3, e5m2 and s8 they are scaled so that the largest is the type's greatest number,
// and for tf32 they are rounded to ten mantissa bits.
class RandomBlock {
 public:
  static constexpr size_t kCount = size_t{1} << 22;

  RandomBlock(const Gpu& gpu, DType type, uint64_t seed);

  DType type() const { return type_; }
  double value(size_t i) const { return static_cast<double>(values_[i]); }
  runtime::Address address() const { return buffer_.address(); }

 private:
  DType type_;
  std::vector<float> values_;
  runtime::Buffer buffer_;
};

// The contents of a buffer, as runs of the block's numbers at offsets that a seed shuffles. No two rows are
// alike, and the host knows each element without a copy.
class RandomContents {
 public:
  RandomContents(size_t count, std::mt19937_64& random);

  // Queues the copies; `to` must have room for the contents.
  void write(const Gpu& gpu, const RandomBlock& block, runtime::Address to) const;
  double value(const RandomBlock& block, size_t i) const;

 private:
  struct Run {
    size_t first;   // index of an element of the buffer
    size_t source;  // index of an element of the block
  };
  size_t count_;
  std::vector<Run> runs_;
};

}  // namespace ptxbuilder::bench

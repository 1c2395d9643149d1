// Creates matrices of random numbers. The numbers are generated once on the host, and copied to buffers of
// any size on the GPU.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/measure/gpu.h"
#include "ptxbuilder/dtype.h"
#include "runtime/buffer.h"

namespace ptxbuilder::bench {

// A block of 2^22 random numbers of one type, with the bits that the GPU uses and the values that the bits
// represent. The distribution is N(0,1). For e4m3, e5m2 and s8, the numbers are scaled so that the largest is
// the type's largest number; for tf32, they are rounded to ten mantissa bits.
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

// The contents of a buffer, which consist of runs of the block's numbers at offsets that a seed determines.
// No two rows are equal, and each element can be computed on the host without a copy of the buffer.
class RandomContents {
 public:
  RandomContents(size_t count, std::mt19937_64& random);

  // Queues copies that write the contents to `to`.
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

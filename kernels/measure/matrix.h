// Describes the matrices that a problem reads and writes, and their memory on the device.
#pragma once

#include <cstdint>
#include <vector>

#include "ptxbuilder/dtype.h"
#include "runtime/buffer.h"

namespace ptxbuilder::bench {

// A matrix with rows of `columns` elements that begin `stride` elements apart.
struct Matrix {
  const char* name;  // its name in messages, such as "D"
  DType type;
  int64_t rows, columns, stride;

  int64_t elements() const { return rows * stride; }
  int64_t bytes() const { return elements() * size_of(type); }
};

// Copies of all inputs of a problem, in the order of inputs(), and memory for the output.
struct BufferSet {
  std::vector<runtime::View> inputs;
  runtime::View output;
};

}  // namespace ptxbuilder::bench

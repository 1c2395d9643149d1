// The matrices that a problem reads and writes, and where they lie on the device.
#pragma once

#include <cstdint>
#include <vector>

#include "ptxbuilder/dtype.h"
#include "runtime/buffer.h"

namespace ptxbuilder::bench {

// Its rows have `columns` elements, and begin `stride` elements apart.
struct Matrix {
  const char* name;  // as in messages: "D"
  DType type;
  int64_t rows, columns, stride;

  int64_t elements() const { return rows * stride; }
  int64_t bytes() const { return elements() * size_of(type); }
};

// A set has one copy of all that a problem reads, in the order of its inputs(), and place for what it writes.
struct BufferSet {
  std::vector<runtime::View> inputs;
  runtime::View output;
};

}  // namespace ptxbuilder::bench

// Decodes the descriptors of matrices in shared memory that wgmma reads.
#pragma once

#include <optional>
#include <string_view>

#include "ptxbuilder/analysis/code.h"
#include "ptxbuilder/analysis/values.h"

namespace ptxbuilder::analysis {

// A wgmma matrix descriptor (PTX ISA, "Matrix Descriptor Format") whose address has a known form.
struct MatrixDescriptor {
  Sum address;  // in bytes, in shared memory
  int64_t leading_bytes = 0, stride_bytes = 0, base_offset = 0;
  int layout = 0;  // 0 none, 1 128 B, 2 64 B, 3 32 B

  bool operator==(const MatrixDescriptor&) const = default;
};
std::string_view layout_name(const MatrixDescriptor& descriptor);  // "swizzle 128"
// Returns nothing if the value does not contain an address in shared memory.
std::optional<MatrixDescriptor> decode_descriptor(const Values& values, const Sum& descriptor);

// The way in which a wgmma reads operand 1 (A) or operand 2 (B) from shared memory: 64 rows for A, or the
// columns of the shape for B.
struct MatrixOperand {
  int64_t lines = 0;
  bool is_transposed = false;  // consecutive elements along K belong to different lines
};
MatrixOperand matrix_operand(const Operation& wgmma, size_t n);
// Returns the number of bytes from the first to the last that wgmma reads.
int64_t bytes_read(const MatrixDescriptor& descriptor, const MatrixOperand& operand);

}  // namespace ptxbuilder::analysis

// Decodes the descriptors through which wgmma reads matrices in shared memory.
#pragma once

#include <optional>
#include <string_view>

#include "ptxbuilder/analysis/code.h"
#include "ptxbuilder/analysis/values.h"

namespace ptxbuilder::analysis {

// A decoded wgmma matrix descriptor (PTX ISA, "Matrix Descriptor Format").
struct MatrixDescriptor {
  Sum address;  // address in shared memory, in bytes
  int64_t leading_bytes = 0, stride_bytes = 0, base_offset = 0;
  int layout = 0;  // encoded swizzle; 0 is none, 1 is 128 B, 2 is 64 B, 3 is 32 B

  bool operator==(const MatrixDescriptor&) const = default;
};
std::string_view layout_name(const MatrixDescriptor& descriptor);  // returns a name such as "swizzle 128"
// Returns the decoded descriptor, or nothing if the value does not contain an address in shared memory.
std::optional<MatrixDescriptor> decode_descriptor(const Values& values, const Sum& descriptor);

// Describes how a wgmma reads operand 1 (A) or operand 2 (B) from shared memory. `lines` is the number of
// rows of A, which is 64, or the number of columns of B.
struct MatrixOperand {
  int64_t lines = 0;
  bool is_transposed = false;  // true if neighbouring elements in memory belong to different lines
};
MatrixOperand matrix_operand(const Operation& wgmma, size_t n);
// Returns the number of bytes from the first byte that wgmma reads to the last.
int64_t bytes_read(const MatrixDescriptor& descriptor, const MatrixOperand& operand);

}  // namespace ptxbuilder::analysis

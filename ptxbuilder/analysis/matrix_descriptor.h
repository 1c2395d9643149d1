// This reads the descriptors by which wgmma finds matrices in shared memory.
#pragma once

#include <optional>
#include <string_view>

#include "ptxbuilder/analysis/values.h"

namespace ptxbuilder::analysis {

// A matrix descriptor of wgmma (PTX ISA, "Matrix Descriptor Format"), of whose address the form is known.
struct MatrixDescriptor {
  Sum address;  // bytes, in shared memory
  int64_t leading_bytes = 0, stride_bytes = 0, base_offset = 0;
  int layout = 0;  // 0 none, 1 128 B, 2 64 B, 3 32 B

  bool operator==(const MatrixDescriptor&) const = default;
};
std::string_view layout_name(const MatrixDescriptor& descriptor);  // "swizzle 128"
// It gives nothing where no address in shared memory is seen in it.
std::optional<MatrixDescriptor> decode_descriptor(const Values& values, const Sum& descriptor);

}  // namespace ptxbuilder::analysis

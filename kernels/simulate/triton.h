// Reads a kernel's folder in Triton's cache.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "ptxbuilder/signature.h"

namespace ptxbuilder::command {

struct TritonKernel {
  std::filesystem::path ptx;
  Signature signature;  // threads, cluster and dynamic shared memory, without parameters
  // The sizes, in bytes per CTA, of the scratch memory that Triton's launcher passes after the author's
  // parameters.
  std::vector<uint64_t> scratch;
};

// Reads a folder. If the folder does not hold exactly one NAME.ptx and its NAME.json, throws an Error that
// begins with the folder.
TritonKernel triton_kernel(const std::filesystem::path& folder);

}  // namespace ptxbuilder::command

// A folder in Triton's cache, which holds one kernel.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "ptxbuilder/signature.h"

namespace ptxbuilder::command {

struct TritonKernel {
  std::filesystem::path ptx;
  Signature signature;  // threads, cluster and dynamic shared memory, without parameters
  // The bytes per CTA of the scratch memory that Triton's launcher passes after the author's parameters.
  std::vector<uint64_t> scratch;
};

// Reads a folder. Throws Error that begins with the folder if it does not hold exactly one NAME.ptx with its
// NAME.json.
TritonKernel triton_kernel(const std::filesystem::path& folder);

}  // namespace ptxbuilder::command

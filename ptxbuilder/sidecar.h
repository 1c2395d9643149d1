// Finds the sidecars of an image: which kernels of a module have one, and its file name.
//
// The sidecar of NAME.cubin or NAME.ptx is NAME.json if the module has one kernel; otherwise each kernel has
// its own, NAME.KERNEL.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ptxbuilder/signature.h"

namespace ptxbuilder {

// A kernel of a module, which another front end may have made.
struct ModuleKernel {
  std::string name = {};
  std::optional<Signature> signature = {};
  std::string why_unknown = {};  // reason why there is no signature: "parameter 1 ... is a vector"
};

// In the following functions, `name` is the path of the image without .cubin or .ptx.

// Returns "out/m.json" for "out/m", or "out/m.KERNEL.json" if a kernel is given. A kernel name of more than
// 150 bytes is truncated and made unique with a number.
std::string sidecar_path(const std::string& name, const std::string& kernel = "");

// Returns whether the file is a sidecar, rather than, for example, a launch file of `ptxb sim`.
bool is_sidecar(const std::string& path);

// Returns the sidecar of `kernel` for an image, or nothing if the kernel has none. Throws Error for a broken
// sidecar.
std::optional<Signature> find_sidecar(const std::string& name, const std::string& kernel);

// Does the same, but the sidecar must exist. If `kernel` is empty, returns the sidecar of the module's only
// kernel. Otherwise throws Error that lists the sidecars that exist.
Signature read_sidecar(const std::string& name, const std::string& kernel = "");

}  // namespace ptxbuilder

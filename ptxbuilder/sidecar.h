// Finds the sidecars of an image, and determines their file names.
//
// If a module has one kernel, the sidecar of NAME.cubin or NAME.ptx is NAME.json. Otherwise, each kernel has
// its own sidecar, NAME.KERNEL.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ptxbuilder/signature.h"

namespace ptxbuilder {

// A kernel of a module. Another front end may have made the module.
struct ModuleKernel {
  std::string name = {};
  std::optional<Signature> signature = {};
  std::string why_unknown = {};  // why there is no signature, such as "parameter 1 ... is a vector"
};

// In the following functions, `name` is the path of the image, without .cubin or .ptx.

// Returns "out/m.json" for "out/m", or "out/m.KERNEL.json" if a kernel is given. A kernel name of more than
// 150 bytes is truncated and made unique with a number.
std::string sidecar_path(const std::string& name, const std::string& kernel = "");

// Returns whether the file is a sidecar, rather than, for example, a launch file of `ptxb sim`.
bool is_sidecar(const std::string& path);

// Returns the sidecar of `kernel` for an image, or nullopt if there is no sidecar. Throws Error for a broken
// sidecar.
std::optional<Signature> find_sidecar(const std::string& name, const std::string& kernel);

// Returns the sidecar of `kernel` or, if `kernel` is empty, the sidecar of the module's only kernel. If there
// is no such sidecar, the function throws an Error that lists the existing sidecars.
Signature read_sidecar(const std::string& name, const std::string& kernel = "");

}  // namespace ptxbuilder

// Sidecars next to an image: which kernels of a module have a sidecar, and its file name.
//
// Next to NAME.cubin or NAME.ptx, the sidecar is NAME.json if the module has one kernel; otherwise each
// kernel has its own, NAME.KERNEL.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ptxbuilder/signature.h"

namespace ptxbuilder {

// A kernel of a module, which may come from another front end.
struct ModuleKernel {
  std::string name = {};
  std::optional<Signature> signature = {};
  std::string why_unknown = {};  // if there is no signature: "parameter 1 ... is a vector"
};

// Below, `name` is the path of the image without .cubin or .ptx.

// Returns "out/m.json" for "out/m" or, with a kernel, "out/m.KERNEL.json", in which a kernel's name of more
// than 150 bytes is cut and made unique with a number.
std::string sidecar_path(const std::string& name, const std::string& kernel = "");

// Returns whether a file is a sidecar, and not something else such as a launch file of `ptxb sim`.
bool is_sidecar(const std::string& path);

// Returns the sidecar of `kernel` next to an image, or nothing if the kernel has no sidecar. Throws Error for
// a broken sidecar.
std::optional<Signature> find_sidecar(const std::string& name, const std::string& kernel);

// Does the same, but the sidecar must exist; without `kernel`, it is that of the module's only kernel. Throws
// Error that lists the sidecars that exist.
Signature read_sidecar(const std::string& name, const std::string& kernel = "");

}  // namespace ptxbuilder

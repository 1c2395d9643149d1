// Sidecars next to an image: which kernels of a module have one, and under what name it is there.
//
// A sidecar is next to NAME.cubin or NAME.ptx as NAME.json where the module has one kernel, and else as
// NAME.KERNEL.json, one for each kernel.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ptxbuilder/signature.h"

namespace ptxbuilder {

// A kernel of a module that may be somebody else's.
struct ModuleKernel {
  std::string name = {};
  std::optional<Signature> signature = {};
  std::string why_unknown = {};  // where there is no signature: "parameter 1 ... is a vector"
};

// Below, `name` is the image's without .cubin or .ptx.

// "out/m.json" of "out/m"; with a kernel, "out/m.KERNEL.json", where a name of more than 150 bytes is cut,
// and distinguished by a number.
std::string sidecar_path(const std::string& name, const std::string& kernel = "");

// This says whether a file is a sidecar and nothing else, such as a launch file of `ptxb sim`.
bool is_sidecar(const std::string& path);

// The sidecar of `kernel` next to an image, or nothing where it has none. Throws Error for a sidecar that is
// broken.
std::optional<Signature> find_sidecar(const std::string& name, const std::string& kernel);

// The same, where it has to be there; without `kernel`, of the module's only one. Throws Error that says
// which sidecars there are.
Signature read_sidecar(const std::string& name, const std::string& kernel = "");

}  // namespace ptxbuilder

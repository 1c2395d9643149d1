// A kernel on a device: compiled by ptxas where there is one, else by the driver, or read as text by the
// emulator. The one part of the runtime that knows the library, and LLVM with it.
//
//   auto device = runtime::open_device("auto");
//   runtime::LoadedKernel kernel = load(*device, twice());
//   kernel.launch({.grid = {8}}, {runtime::pointer(x, DType::f32), runtime::scalar(1000u)});
#pragma once

#include <string>
#include <vector>

#include "ptxbuilder/compile/compile.h"
#include "runtime/loaded_kernel.h"

namespace ptxbuilder {

// The options of load().
struct LoadOptions {
  std::string ptxas = {};                // a file; else PATH, CUDA_PATH and /usr/local are searched
  bool driver_assembles = false;         // though there is a ptxas
  bool cache = true;                     // keep cubins on disk
  std::string ptx_file = {};             // PTX that runs in the kernel's place: see replaced()
  std::vector<std::string> waived = {};  // in addition to what the kernel waives itself: see check(Notes)
};

// Compiles and loads. Throws Error from the builder's checks, ptxas and the driver.
runtime::LoadedKernel load(runtime::Device& device, Kernel kernel, const LoadOptions& options = {});

// Compiles a module in LLVM's IR, text or bitcode, and loads its kernel of this name, or with "" the only one
// that it has; `name` is what errors call the module. Throws Error as Compiler::compile_ir() does, where
// there is no such kernel, and where its signature is not known.
runtime::LoadedKernel load_ir(runtime::Device& device, std::string_view ir, const std::string& name,
                              const std::string& kernel = "", const ModuleOptions& module = {},
                              const LoadOptions& options = {});

// This does the same in steps, for many kernels: a compiler that makes what the device takes, cubins, or PTX
// alone where the device reads PTX or no ptxas is found. Throws Error when `ptxas` is named and not there.
Compiler compiler_for(const runtime::Device& device, const LoadOptions& options = {});
runtime::LoadedKernel load(runtime::Device& device, const Compiler& compiler, Kernel kernel);

// `original` by the PTX of a file, such as a copy of its own that was edited by hand; it is launched as the
// original is. Throws Error that begins with the file's name where it cannot be read, does not ask the same
// of a launch (check_replaces() of runtime/emulator/entry.h), or is refused by ptxas and not `waived`.
Compiled replaced(const Compiler& compiler, const Compiled& original, const std::string& ptx_file,
                  const std::vector<std::string>& waived = {});

// Throws Error when the device refuses the kernel, and when its driver, having compiled PTX, reports what
// costs speed and is not in `waivers` (see check(Notes)).
runtime::LoadedKernel load(runtime::Device& device, const Compiled& compiled,
                           const std::vector<std::string>& waivers = {});

}  // namespace ptxbuilder

// Loads kernels onto a device. If ptxas is found, it compiles them; otherwise the driver does. The emulator
// reads PTX text. Only this part of the runtime depends on the library, and therefore on LLVM.
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
  std::string ptxas = {};         // a file; if empty, PATH, CUDA_PATH and /usr/local are searched
  bool driver_assembles = false;  // even if ptxas is found
  bool cache = true;              // stores cubins on disk
  std::string ptx_file = {};      // PTX to run instead of the kernel's; see replaced()
  std::vector<std::string> waived =
      {};  // in addition to the names that the kernel itself waives; see check(Notes)
};

// Compiles and loads a kernel. Throws Error from the builder's checks, ptxas and the driver.
runtime::LoadedKernel load(runtime::Device& device, Kernel kernel, const LoadOptions& options = {});

// Compiles a module in LLVM IR, as text or bitcode, and loads its kernel `kernel` or, if that is "", its only
// kernel. Errors refer to the module as `name`. Throws Error as Compiler::compile_ir() does, and if there is
// no such kernel, or if its signature is not known.
runtime::LoadedKernel load_ir(runtime::Device& device, std::string_view ir, const std::string& name,
                              const std::string& kernel = "", const ModuleOptions& module = {},
                              const LoadOptions& options = {});

// Returns a compiler with which many kernels can be compiled and then loaded. It makes cubins or, if the
// device reads PTX or ptxas is not found, only PTX. Throws Error if `ptxas` names a file that does not exist.
Compiler compiler_for(const runtime::Device& device, const LoadOptions& options = {});
runtime::LoadedKernel load(runtime::Device& device, const Compiler& compiler, Kernel kernel);

// Returns `original` with the PTX of a file, such as an edited copy of its own PTX, which must be launched in
// the same way. Throws Error that begins with the file's name if the file cannot be read, if it cannot be
// launched in the same way (check_replaces() of runtime/emulator/entry.h), or if ptxas rejects it for a
// reason that is not `waived`.
Compiled replaced(const Compiler& compiler, const Compiled& original, const std::string& ptx_file,
                  const std::vector<std::string>& waived = {});

// Throws Error if the device rejects the kernel, or if the driver compiles PTX and reports a cost in speed
// that is not in `waivers` (see check(Notes)).
runtime::LoadedKernel load(runtime::Device& device, const Compiled& compiled,
                           const std::vector<std::string>& waivers = {});

}  // namespace ptxbuilder

// Loads kernels onto a device. If ptxas is found, it compiles them; otherwise the driver does. The emulator
// reads PTX text. Only this part of the runtime depends on the library, and so on LLVM.
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
  bool driver_assembles = false;  // even if there is a ptxas
  bool cache = true;              // keep cubins on disk
  std::string ptx_file = {};      // PTX to run in place of the kernel: see replaced()
  std::vector<std::string> waived =
      {};  // in addition to those that the kernel waives itself: see check(Notes)
};

// Compiles and loads. Throws Error from the builder's checks, ptxas and the driver.
runtime::LoadedKernel load(runtime::Device& device, Kernel kernel, const LoadOptions& options = {});

// Compiles a module in LLVM's IR, text or bitcode, and loads its kernel `kernel` or, if that is "", its only
// kernel. Errors refer to the module as `name`. Throws Error as Compiler::compile_ir() does, and when there
// is no such kernel or its signature is not known.
runtime::LoadedKernel load_ir(runtime::Device& device, std::string_view ir, const std::string& name,
                              const std::string& kernel = "", const ModuleOptions& module = {},
                              const LoadOptions& options = {});

// Does the same in steps, for many kernels. The compiler makes cubins or, if the device reads PTX or no ptxas
// is found, only PTX. Throws Error when `ptxas` names a file that does not exist.
Compiler compiler_for(const runtime::Device& device, const LoadOptions& options = {});
runtime::LoadedKernel load(runtime::Device& device, const Compiler& compiler, Kernel kernel);

// Returns `original` with the PTX of a file, such as an edited copy of its own PTX, to be launched in the
// same way. Throws Error that begins with the file's name when it cannot be read, cannot be launched in the
// same way (check_replaces() of runtime/emulator/entry.h), or is rejected by ptxas for a reason that is not
// `waived`.
Compiled replaced(const Compiler& compiler, const Compiled& original, const std::string& ptx_file,
                  const std::vector<std::string>& waived = {});

// Throws Error when the device rejects the kernel, and when the driver compiles PTX and reports a cost in
// speed that is not in `waivers` (see check(Notes)).
runtime::LoadedKernel load(runtime::Device& device, const Compiled& compiled,
                           const std::vector<std::string>& waivers = {});

}  // namespace ptxbuilder

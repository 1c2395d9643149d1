// Compiles kernels and loads them onto a device. ptxas compiles them if it is found, otherwise the driver.
// The emulator reads PTX text. This is the only part of the runtime that depends on the library, and
// therefore on LLVM.
//
//   auto device = runtime::open_device("auto"); runtime::LoadedKernel kernel = load(*device, twice());
//   kernel.launch({.grid = {8}}, {runtime::pointer(x, DType::f32), runtime::scalar(1000u)});
#pragma once

#include <string>
#include <vector>

#include "ptxbuilder/compile/compile.h"
#include "runtime/loaded_kernel.h"

namespace ptxbuilder {

// The options of load().
struct LoadOptions {
  std::string ptxas = {};         // path of ptxas; if empty, PATH, CUDA_PATH and /usr/local are searched
  bool driver_assembles = false;  // lets the driver compile PTX even if ptxas is found
  bool cache = true;              // whether cubins are stored on disk
  std::string ptx_file = {};      // file with PTX to run instead of the kernel's own PTX; see replaced()
  std::vector<std::string> waived =
      {};  // waivers in addition to those of the kernel itself; see check(Notes)
};

// Compiles and loads a kernel. Throws an Error if the builder's checks, ptxas or the driver reject it.
runtime::LoadedKernel load(runtime::Device& device, Kernel kernel, const LoadOptions& options = {});

// Compiles a module in LLVM IR, as text or bitcode, and loads its kernel `kernel`. If `kernel` is "", the
// module must have only one kernel. Errors refer to the module as `name`. Throws an Error under the same
// conditions as Compiler::compile_ir(), and also if there is no such kernel or if its signature is not known.
runtime::LoadedKernel load_ir(runtime::Device& device, std::string_view ir, const std::string& name,
                              const std::string& kernel = "", const ModuleOptions& module = {},
                              const LoadOptions& options = {});

// Returns a compiler for kernels that are compiled first and loaded later. It creates cubins or, if the
// device reads PTX or ptxas is not found, only PTX. Throws an Error if `ptxas` names a file that does not
// exist.
Compiler compiler_for(const runtime::Device& device, const LoadOptions& options = {});
runtime::LoadedKernel load(runtime::Device& device, const Compiler& compiler, Kernel kernel);

// Returns `original` with the PTX replaced by that of a file, such as an edited copy of the original PTX. The
// new PTX must be launched in the same way (check_replaces() in runtime/emulator/entry.h). Throws an Error
// that begins with the file's name if the file cannot be read, if its kernel is launched differently, or if
// ptxas rejects it for a reason that is not in `waived`.
Compiled replaced(const Compiler& compiler, const Compiled& original, const std::string& ptx_file,
                  const std::vector<std::string>& waived = {});

// Throws an Error if the device rejects the kernel. Also throws an Error if the driver compiles PTX and
// reports a loss of speed that is not in `waivers` (see check(Notes)).
runtime::LoadedKernel load(runtime::Device& device, const Compiled& compiled,
                           const std::vector<std::string>& waivers = {});

}  // namespace ptxbuilder

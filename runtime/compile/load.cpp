#include "runtime/compile/load.h"

#include "ptxbuilder/compile/notes.h"
#include "ptxbuilder/compile/ptxas.h"
#include "ptxbuilder/file_text.h"
#include "runtime/emulator/entry.h"

namespace ptxbuilder {

runtime::LoadedKernel load(runtime::Device& device, Kernel kernel, const LoadOptions& options) {
  const Compiler compiler = compiler_for(device, options);
  if (options.ptx_file.empty()) return load(device, compiler, std::move(kernel));
  const std::vector<std::string> waivers = kernel.builder().waivers();
  const Compiled original = compiler.compile(std::move(kernel));
  return load(device, replaced(compiler, original, options.ptx_file, waivers), waivers);
}

Compiled replaced(const Compiler& compiler, const Compiled& original, const std::string& ptx_file,
                  const std::vector<std::string>& waived) {
  std::string ptx = file_text(ptx_file);
  try {
    runtime::check_replaces(ptx, original.ptx, original.signature.kernel);
    return compiler.replaced(original, std::move(ptx), waived);
  } catch (const Error& e) {
    throw Error(ptx_file + ": " + e.what());
  }
}

Compiler compiler_for(const runtime::Device& device, const LoadOptions& options) {
  CompilerOptions tools;
  tools.ptxas = options.ptxas;
  tools.cache = options.cache;
  tools.assemble = !options.driver_assembles && !device.wants_ptx();
  tools.else_ptx = true;  // the driver has a compiler of its own
  // Named in vain is an error, also where the device reads PTX and none is needed.
  if (!tools.assemble && !options.ptxas.empty()) (void)Ptxas(PtxasSearch::from_environment(options.ptxas));
  return Compiler(tools);
}

runtime::LoadedKernel load(runtime::Device& device, const Compiler& compiler, Kernel kernel) {
  const std::vector<std::string> waivers = kernel.builder().waivers();
  return load(device, compiler.compile(std::move(kernel)), waivers);
}

runtime::LoadedKernel load(runtime::Device& device, const Compiled& compiled,
                           const std::vector<std::string>& waivers) {
  runtime::LoadedKernel loaded(device, compiled.cubin.empty() ? compiled.ptx : compiled.cubin,
                               compiled.signature);
  if (!loaded.log().empty()) check(parse_notes(loaded.log(), compiled.ptx), waivers);
  return loaded;
}

}  // namespace ptxbuilder

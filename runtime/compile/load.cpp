#include "runtime/compile/load.h"

#include "ptxbuilder/compile/notes.h"

namespace ptxbuilder {

runtime::LoadedKernel load(runtime::Device& device, Kernel kernel, const LoadOptions& options) {
  return load(device, compiler_for(device, options), std::move(kernel));
}

Compiler compiler_for(const runtime::Device& device, const LoadOptions& options) {
  CompilerOptions tools;
  tools.ptxas = options.ptxas;
  tools.cache = options.cache;
  tools.assemble = !options.driver_assembles && !device.wants_ptx();
  tools.else_ptx = true;  // the driver has a compiler of its own
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

#include "kernels/gemm/load.h"

#include "ptxbuilder/compile/notes.h"

namespace ptxbuilder::kernels {

Compiler compiler_for(const runtime::Device& device, const LoadOptions& options) {
  CompilerOptions tools;
  tools.ptxas = options.ptxas;
  tools.cache = options.cache;
  tools.assemble = !options.driver_assembles && !device.wants_ptx();
  tools.else_ptx = true;  // the driver has a compiler of its own
  return Compiler(tools);
}

std::unique_ptr<runtime::LoadedKernel> load(runtime::Device& device, const Compiled& compiled,
                                            const std::vector<std::string>& waivers) {
  auto loaded = std::make_unique<runtime::LoadedKernel>(
      device, compiled.cubin.empty() ? compiled.ptx : compiled.cubin, compiled.signature);
  if (!loaded->log().empty()) check(parse_notes(loaded->log(), compiled.ptx), waivers);
  return loaded;
}

std::unique_ptr<runtime::LoadedKernel> load(runtime::Device& device, const Compiler& compiler,
                                            Kernel kernel) {
  const std::vector<std::string> waivers = kernel.builder().waivers();
  return load(device, compiler.compile(std::move(kernel)), waivers);
}

void waive_lack_of_registers(Kernel& kernel) {
  for (const char* advisory : {"C7511", "C7512", "spills", "stack"}) kernel.waive(advisory);
}

}  // namespace ptxbuilder::kernels

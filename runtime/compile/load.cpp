#include "runtime/compile/load.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/compile/notes.h"
#include "ptxbuilder/compile/ptxas.h"
#include "ptxbuilder/file_text.h"
#include "runtime/emulator/entry.h"

namespace ptxbuilder {
namespace {

// Throws an Error if a waiver's name is not valid. Otherwise the names would be checked only if something is
// assembled.
void check_waivers(const std::vector<std::string>& waived) {
  const std::vector<std::string> valid = waiver_names();
  for (const std::string& waiver : waived)
    if (!waiver.starts_with("C75") && std::ranges::find(valid, waiver) == valid.end())
      throw Error(fmt::format("'{}' cannot be waived; valid names are {}", waiver, fmt::join(valid, ", ")));
}

}  // namespace

runtime::LoadedKernel load(runtime::Device& device, Kernel kernel, const LoadOptions& options) {
  check_waivers(options.waived);
  const Compiler compiler = compiler_for(device, options);
  for (const std::string& waiver : options.waived) kernel.waive(waiver);
  if (options.ptx_file.empty()) return load(device, compiler, std::move(kernel));
  const std::vector<std::string> waivers = kernel.builder().waivers();
  const Compiled original = compiling([&] { return compiler.compile(std::move(kernel)); });
  return load(device, replaced(compiler, original, options.ptx_file, waivers), waivers);
}

runtime::LoadedKernel load_ir(runtime::Device& device, std::string_view ir, const std::string& name,
                              const std::string& kernel, const ModuleOptions& module,
                              const LoadOptions& options) {
  check_waivers(options.waived);
  const Compiler compiler = compiler_for(device, options);
  const CompiledModule compiled =
      compiling([&] { return compiler.compile_ir(ir, name, module, options.waived, Where{}); });
  std::string names;
  for (const ModuleKernel& k : compiled.kernels) {
    names += (names.empty() ? "" : ", ") + k.name;
    if (kernel.empty() ? compiled.kernels.size() != 1 : k.name != kernel) continue;
    if (!k.signature) throw Error(fmt::format("kernel '{}': {}", k.name, k.why_unknown));
    return {device, compiled.cubin.empty() ? compiled.ptx : compiled.cubin, *k.signature, Where{}};
  }
  throw Error(kernel.empty() ? fmt::format("{} has {} kernels; choose one by name: {}", name,
                                           compiled.kernels.size(), names)
                             : fmt::format("{} has no kernel '{}'; it has: {}", name, kernel, names));
}

Compiled replaced(const Compiler& compiler, const Compiled& original, const std::string& ptx_file,
                  const std::vector<std::string>& waived) {
  std::string ptx = file_text(ptx_file);
  try {
    runtime::check_replaces(ptx, original.ptx, original.signature.kernel);
    return compiling([&] { return compiler.replaced(original, std::move(ptx), waived); });
  } catch (const Error& e) {
    throw Error(ptx_file + ": " + e.what(), e.kind());
  }
}

Compiler compiler_for(const runtime::Device& device, const LoadOptions& options) {
  CompilerOptions tools;
  tools.ptxas = options.ptxas;
  tools.cache = options.cache;
  tools.assemble = !options.driver_assembles && !device.wants_ptx();
  tools.else_ptx = true;  // the driver can compile the PTX
  // A ptxas that is named but does not exist is an error, even if the device reads PTX and therefore needs no
  // ptxas.
  if (!tools.assemble && !options.ptxas.empty()) (void)Ptxas(PtxasSearch::from_environment(options.ptxas));
  return Compiler(tools);
}

runtime::LoadedKernel load(runtime::Device& device, const Compiler& compiler, Kernel kernel) {
  const std::vector<std::string> waivers = kernel.builder().waivers();
  return load(device, compiling([&] { return compiler.compile(std::move(kernel)); }), waivers);
}

runtime::LoadedKernel load(runtime::Device& device, const Compiled& compiled,
                           const std::vector<std::string>& waivers) {
  runtime::LoadedKernel loaded(device, compiled.cubin.empty() ? compiled.ptx : compiled.cubin,
                               compiled.signature);
  if (!loaded.log().empty())
    compiling([&] { return check(parse_notes(loaded.log(), compiled.ptx), waivers); });
  return loaded;
}

}  // namespace ptxbuilder

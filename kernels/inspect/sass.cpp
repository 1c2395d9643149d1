#include "kernels/inspect/sass.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ptxbuilder/compile/elf.h"
#include "ptxbuilder/compile/nvdisasm.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::command {

analysis::SassKernel sass_of(const std::string& cubin, const std::string& kernel, const std::string& nvdisasm,
                             bool ptx_lines) {
  const Nvdisasm tool(PtxasSearch::from_environment(nvdisasm));
  std::vector<analysis::SassKernel> all = analysis::parse_sass(tool.disassemble(cubin, ptx_lines));
  std::vector<std::string> names;
  for (analysis::SassKernel& k : all) {
    names.push_back(k.name);
    if (kernel.empty() ? all.size() > 1 : k.name != kernel) continue;
    const CubinResources resources = cubin_resources(cubin, k.name);
    k.registers = resources.registers;
    k.stack_bytes = resources.stack_bytes;
    return std::move(k);
  }
  throw Error(kernel.empty()
                  ? fmt::format("the cubin has {} kernels, so one must be named: {}", names.size(),
                                fmt::join(names, ", "))
                  : fmt::format("the cubin has no kernel '{}'; it has: {}", kernel, fmt::join(names, ", ")));
}

}  // namespace ptxbuilder::command

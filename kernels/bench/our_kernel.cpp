#include "kernels/bench/our_kernel.h"

#include "ptxbuilder/compile/compile.h"
#include "ptxbuilder/compile/notes.h"

namespace ptxbuilder::bench {
namespace {

Compiler compiler(const OurOptions& options) {
  CompilerOptions tools;
  tools.ptxas = options.ptxas;
  tools.cache = options.cache;
  tools.assemble = !options.driver_assembles;
  if (!tools.assemble || !options.ptxas.empty()) return Compiler(tools);
  try {
    return Compiler(tools);
  } catch (const Error&) {  // no ptxas on this machine: the driver has a compiler of its own
    tools.assemble = false;
    return Compiler(tools);
  }
}

runtime::Argument matrix(const runtime::View& memory, DType type, int64_t rows, int64_t columns,
                         int64_t stride) {
  return runtime::tensor(memory, type, {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows)},
                         {static_cast<uint64_t>(stride * size_of(type))});
}

}  // namespace

std::unique_ptr<runtime::LoadedKernel> load(const Gpu& gpu, Kernel kernel, const OurOptions& options) {
  const std::vector<std::string> waivers = kernel.builder().waivers();
  const Compiled compiled = compiler(options).compile(std::move(kernel));
  auto loaded = std::make_unique<runtime::LoadedKernel>(
      gpu.device(), compiled.cubin.empty() ? compiled.ptx : compiled.cubin, compiled.signature);
  if (!loaded->log().empty()) check(parse_notes(loaded->log(), compiled.ptx), waivers);
  return loaded;
}

runtime::Argument tensor_a(const GemmProblem& p, const BufferSet& set) {
  return matrix(set.a, p.a, p.a_rows(), p.a_columns(), p.lda());
}
runtime::Argument tensor_b(const GemmProblem& p, const BufferSet& set) {
  return matrix(set.b, p.b, p.b_rows(), p.b_columns(), p.ldb());
}
runtime::Argument tensor_d(const GemmProblem& p, const BufferSet& set) {
  return matrix(set.d, p.d, p.m, p.n, p.ldd());
}

}  // namespace ptxbuilder::bench

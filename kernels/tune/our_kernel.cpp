#include "kernels/tune/our_kernel.h"

#include <fmt/format.h>

namespace ptxbuilder::bench {
namespace {

runtime::Argument matrix(const runtime::View& memory, DType type, int64_t rows, int64_t columns,
                         int64_t stride) {
  return runtime::tensor(memory, type, {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows)},
                         {static_cast<uint64_t>(stride * size_of(type))});
}

}  // namespace

LoadOptions load_options(const OurOptions& options) {
  return {.ptxas = options.ptxas, .driver_assembles = options.driver_assembles, .cache = options.cache};
}

std::unique_ptr<runtime::LoadedKernel> load(const Gpu& gpu, Kernel kernel, const OurOptions& options) {
  return std::make_unique<runtime::LoadedKernel>(
      ptxbuilder::load(gpu.device(), std::move(kernel), load_options(options)));
}

std::string tile_configuration(const std::string& tile, double predicted_microseconds) {
  return fmt::format("{}, predicted {:.1f} us", tile, predicted_microseconds);
}

runtime::Argument tensor_a(const GemmProblem& p, const GemmProblem::Set& set) {
  return matrix(set.a, p.a, p.a_rows(), p.a_columns(), p.lda());
}
runtime::Argument tensor_b(const GemmProblem& p, const GemmProblem::Set& set) {
  return matrix(set.b, p.b, p.b_rows(), p.b_columns(), p.ldb());
}
runtime::Argument tensor_d(const GemmProblem& p, const GemmProblem::Set& set) {
  return matrix(set.d, p.d, p.m, p.n, p.ldd());
}
runtime::Argument tensor_d_by_tma(const GemmProblem& p, const GemmProblem::Set& set) {
  const int64_t columns = p.d_columns_by_tma();
  return matrix(set.d, p.d, p.m, columns > 0 ? columns : p.n, p.ldd());
}

}  // namespace ptxbuilder::bench

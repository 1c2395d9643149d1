// gemm_bench compares this project's matrix products with cuBLASLt on a GPU, for the shapes that matter in
// practice.
#include "kernels/bench/gemm_options.h"
#include "kernels/bench/peers/cublaslt.h"
#include "kernels/bench/run.h"
#include "kernels/measure/files.h"
#include "kernels/tune/our_products.h"
#include "kernels/tune/tile_times.h"
#include "kernels/tune/tuned_table.h"

namespace ptxbuilder::bench {
namespace {

Benchmark benchmark_of(const GemmOptions& options) {
  Benchmark b = {.title = "Matrix products",
                 .inputs = "N(0,1) inputs",
                 .checks = "200 elements against float64 and the rest against the reference",
                 .ours = [&](const Gpu& gpu) { return our_products(gpu, options.ours); },
                 .write_more =
                     [&](const RunResult& run) {
                       if (!options.times.empty()) write_file(options.times, tile_times(run));
                       if (!options.tuned.empty())
                         write_file(options.tuned,
                                    merge_tuned(read_file_if_any(options.tuned), tuned_rows(run)));
                     }};
  if (size_of(options.types.a) == 1) b.inputs += ", scaled so that the largest is the type's greatest";
  if (options.with_cublaslt)
    b.reference = [&](const Gpu& gpu, std::map<std::string, std::string>& environment) {
      auto cublaslt = std::make_unique<CublasLt>(gpu, options.cublaslt);
      environment[cublaslt->name()] = cublaslt->version();
      return cublaslt;
    };
  return b;
}

}  // namespace
}  // namespace ptxbuilder::bench

int main(int argc, char** argv) {
  using namespace ptxbuilder;
  return command::guarded(
      [&] {
        const bench::GemmOptions options = bench::parse_gemm_options({argv + 1, argv + argc});
        return static_cast<int>(bench::run(options, bench::benchmark_of(options)));
      },
      true);
}

// How long each step from C++ to a cubin takes, for gemm_warp_specialized. Times are of one thread.
#include <benchmark/benchmark.h>

#include <filesystem>

#include "kernels/family/family.h"
#include "ptxbuilder/compile/codegen.h"
#include "ptxbuilder/compile/compile.h"

namespace {

using namespace ptxbuilder;

Kernel build() {
  const command::Family& family = command::family("gemm_warp_specialized");
  return family.build(command::Fields(family.fields));
}

void build_ir(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(build());
}

void verify_and_promote(benchmark::State& state) {
  for (auto _ : state) {
    state.PauseTiming();
    Kernel kernel = build();
    state.ResumeTiming();
    kernel.builder().finish();
  }
}

void code_generation(benchmark::State& state) {
  for (auto _ : state) {
    state.PauseTiming();
    Kernel kernel = build();
    kernel.builder().finish();
    state.ResumeTiming();
    benchmark::DoNotOptimize(generate_ptx(kernel.builder()));
  }
}

// What a caller waits for: from the C++ call to PTX text.
void build_to_ptx(benchmark::State& state) {
  for (auto _ : state) {
    Kernel kernel = build();
    benchmark::DoNotOptimize(generate_ptx(kernel.builder()));
  }
}

void ptxas(benchmark::State& state) {
  try {
    Ptxas tool;
    Kernel kernel = build();
    std::string ptx = generate_ptx(kernel.builder());
    for (auto _ : state) benchmark::DoNotOptimize(assemble(tool, nullptr, ptx));
  } catch (const Error& e) {
    state.SkipWithError(e.what());
  }
}

void cached_load(benchmark::State& state) {
  auto folder = std::filesystem::temp_directory_path() / "ptxbuilder_benchmark_cache";
  try {
    Cache cache({.directory = folder});
    Ptxas tool(PtxasSearch::from_environment(), &cache);
    Kernel kernel = build();
    std::string ptx = generate_ptx(kernel.builder());
    assemble(tool, &cache, ptx);
    for (auto _ : state) benchmark::DoNotOptimize(assemble(tool, &cache, ptx));
  } catch (const Error& e) {
    state.SkipWithError(e.what());
  }
  std::filesystem::remove_all(folder);
}

BENCHMARK(build_ir)->Unit(benchmark::kMillisecond);
BENCHMARK(verify_and_promote)->Unit(benchmark::kMillisecond);
BENCHMARK(code_generation)->Unit(benchmark::kMillisecond);
BENCHMARK(build_to_ptx)->Unit(benchmark::kMillisecond);
BENCHMARK(ptxas)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(cached_load)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();

// Measures how long each step from C++ to a cubin takes, for kernels of several sizes, on one thread.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>

#include "kernels/family/family.h"
#include "ptxbuilder/compile/codegen.h"
#include "ptxbuilder/compile/compile.h"

namespace {

using namespace ptxbuilder;

Kernel build(const char* kernel) {
  const command::Family& family = command::family(kernel);
  return family.build(command::Fields(family.fields));
}

void build_ir(benchmark::State& state, const char* name) {
  for (auto _ : state) benchmark::DoNotOptimize(build(name));
}

void verify_and_promote(benchmark::State& state, const char* name) {
  for (auto _ : state) {
    state.PauseTiming();
    Kernel kernel = build(name);
    state.ResumeTiming();
    kernel.builder().finish();
  }
}

void code_generation(benchmark::State& state, const char* name) {
  for (auto _ : state) {
    state.PauseTiming();
    Kernel kernel = build(name);
    kernel.builder().finish();
    state.ResumeTiming();
    benchmark::DoNotOptimize(generate_ptx(kernel.builder()));
  }
}

// Measures the part that a caller waits for: from the C++ call to PTX text.
void build_to_ptx(benchmark::State& state, const char* name) {
  for (auto _ : state) {
    Kernel kernel = build(name);
    benchmark::DoNotOptimize(generate_ptx(kernel.builder()));
  }
}

void ptxas(benchmark::State& state, const char* name) {
  try {
    Ptxas tool;
    Kernel kernel = build(name);
    std::string ptx = generate_ptx(kernel.builder());
    for (auto _ : state) benchmark::DoNotOptimize(assemble(tool, nullptr, ptx));
  } catch (const Error& e) {
    state.SkipWithError(e.what());
  }
}

void cached_load(benchmark::State& state, const char* name) {
  auto folder = std::filesystem::temp_directory_path() / ("codegen_benchmark." + std::to_string(getpid()));
  try {
    Cache cache({.directory = folder});
    Ptxas tool(PtxasSearch::from_environment(), &cache);
    Kernel kernel = build(name);
    std::string ptx = generate_ptx(kernel.builder());
    assemble(tool, &cache, ptx);
    for (auto _ : state) benchmark::DoNotOptimize(assemble(tool, &cache, ptx));
  } catch (const Error& e) {
    state.SkipWithError(e.what());
  }
  std::filesystem::remove_all(folder);
}

// Measures every step for a kernel.
#define PTXBUILDER_STEPS_OF(KERNEL)                                                        \
  BENCHMARK_CAPTURE(build_ir, KERNEL, #KERNEL)->Unit(benchmark::kMillisecond);             \
  BENCHMARK_CAPTURE(verify_and_promote, KERNEL, #KERNEL)->Unit(benchmark::kMillisecond);   \
  BENCHMARK_CAPTURE(code_generation, KERNEL, #KERNEL)->Unit(benchmark::kMillisecond);      \
  BENCHMARK_CAPTURE(build_to_ptx, KERNEL, #KERNEL)->Unit(benchmark::kMillisecond);         \
  BENCHMARK_CAPTURE(ptxas, KERNEL, #KERNEL)->Unit(benchmark::kMillisecond)->UseRealTime(); \
  BENCHMARK_CAPTURE(cached_load, KERNEL, #KERNEL)->Unit(benchmark::kMillisecond)->UseRealTime()

PTXBUILDER_STEPS_OF(gemm_warp_specialized);
PTXBUILDER_STEPS_OF(attention);
PTXBUILDER_STEPS_OF(attention_gradient);

}  // namespace

BENCHMARK_MAIN();

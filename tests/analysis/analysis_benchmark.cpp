// Measures how long it takes to parse the PTX of gemm and attention, to compare it, and to find faults, on
// one thread.
#include <benchmark/benchmark.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "ptxbuilder/analysis/diff.h"
#include "ptxbuilder/analysis/lint.h"
#include "ptxbuilder/ptx/ptx.h"

namespace {

using namespace ptxbuilder;

std::string golden(const std::string& name) {
  std::ifstream file(PTXBUILDER_TEST_DIR "/golden/" + name + ".ptx");
  if (!file) throw std::runtime_error(name + ".ptx cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<analysis::Region> regions_of(const std::string& text) {
  analysis::KernelAnalysis kernel(text);
  return analysis::regions(kernel);
}

void parse(benchmark::State& state, const char* name) {
  const std::string text = golden(name);
  for (auto _ : state) benchmark::DoNotOptimize(ptx_text::parse(text));
}

void diff(benchmark::State& state, const char* name, const char* other) {
  const std::string a = golden(name), b = golden(other);
  for (auto _ : state) benchmark::DoNotOptimize(analysis::diff(regions_of(a), regions_of(b)));
}

void lint(benchmark::State& state, const char* name) {
  const std::string text = golden(name);
  for (auto _ : state) benchmark::DoNotOptimize(analysis::lint(ptx_text::parse(text)));
}

BENCHMARK_CAPTURE(parse, gemm, "gemm");
BENCHMARK_CAPTURE(diff, gemm, "gemm", "gemm_persistent");
BENCHMARK_CAPTURE(diff, attention, "attention", "gemm");
BENCHMARK_CAPTURE(lint, gemm, "gemm");
BENCHMARK_CAPTURE(lint, attention, "attention");

}  // namespace

BENCHMARK_MAIN();

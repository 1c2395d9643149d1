// How fast the emulator is: warp-instructions a second of plain arithmetic, and a whole GEMM with and without
// checks.
#include <benchmark/benchmark.h>

#include "emulator_kit.h"

namespace ptxbuilder::runtime {
namespace {

const char* const arithmetic = R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n) {
.reg .pred %p<2>; .reg .b32 %r<20>; .reg .f32 %f<10>; .reg .b64 %rd<4>;
ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; mov.u32 %r3, 0;
mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f3F000000; mov.f32 %f3, 0f3DCCCCCD;
L: add.s32 %r4, %r2, %r3; xor.b32 %r5, %r4, %r2; shl.b32 %r6, %r5, 3; mad.lo.s32 %r2, %r6, %r4, %r5;
fma.rn.f32 %f1, %f1, %f2, %f3; mul.f32 %f4, %f1, %f2; add.f32 %f2, %f4, %f3; and.b32 %r7, %r2, 255;
add.s32 %r3, %r3, 1; setp.lt.s32 %p1, %r3, %r1; @%p1 bra L;
ld.param.u64 %rd1, [p]; mul.wide.u32 %rd2, %r7, 4; add.s64 %rd1, %rd1, %rd2; st.global.f32 [%rd1], %f2; ret;
})";

void plain(benchmark::State& state) {
  EmulatorOptions options;
  options.race_check = state.range(0) != 0;
  Bench bench(arithmetic, 128, options);
  Address p = bench.device().allocate(1024);
  for (auto _ : state) bench.run({4, 1, 1}, 0, p, uint32_t{20000});
  state.counters["warp_instructions"] = benchmark::Counter(
      static_cast<double>(bench.device().statistics().warp_instructions), benchmark::Counter::kIsRate);
}
BENCHMARK(plain)->ArgName("checks")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

void gemm(benchmark::State& state) {
  EmulatorOptions options;
  options.race_check = state.range(0) != 0;
  Bench bench(test_file("emulator/ptx/gemm_128x256x64_bf16.ptx"), 384, options);
  const uint32_t n = 512;
  Address a = bench.upload(random_bf16(n * n, 1)), b = bench.upload(random_bf16(n * n, 2));
  Address d = bench.upload(std::vector<uint16_t>(n * n));
  TensorMap ma = bench.map_2d(a, DType::bf16, n, n, 128, 64, Swizzle::b128);
  TensorMap mb = bench.map_2d(b, DType::bf16, n, n, 256, 64, Swizzle::b128);
  TensorMap md = bench.map_2d(d, DType::bf16, n, n, 64, 64, Swizzle::b128);
  for (auto _ : state) bench.run({8, 1, 1}, 229440, ma, mb, md, n / 128, n / 256, n / 64);
  state.counters["warp_instructions"] = benchmark::Counter(
      static_cast<double>(bench.device().statistics().warp_instructions), benchmark::Counter::kIsRate);
}
BENCHMARK(gemm)->ArgName("checks")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ptxbuilder::runtime

BENCHMARK_MAIN();

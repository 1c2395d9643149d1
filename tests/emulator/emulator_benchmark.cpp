// Measures the emulator's speed: warp instructions of plain arithmetic per second, memory accesses per
// second, and a whole GEMM, each with and without checks.
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

// Kernels that mostly access memory, each over n floats. A thread makes 4 iterations.
const char* const memory_bound = R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry copy(.param .u64 x, .param .u64 y, .param .u32 n) {
.reg .pred %p<2>; .reg .b32 %r<20>; .reg .f32 %f<10>; .reg .b64 %rd<8>;
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u32 %r1, [n];
mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;
mov.u32 %r6, %nctaid.x; mul.lo.s32 %r7, %r6, %r3;
L: setp.ge.u32 %p1, %r5, %r1; @%p1 bra D;
mul.wide.u32 %rd3, %r5, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
ld.global.f32 %f1, [%rd4]; st.global.f32 [%rd5], %f1;
add.s32 %r5, %r5, %r7; bra L; D: ret; }
.visible .entry saxpy(.param .u64 x, .param .u64 y, .param .u32 n) {
.reg .pred %p<2>; .reg .b32 %r<20>; .reg .f32 %f<20>; .reg .b64 %rd<8>;
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u32 %r1, [n];
mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;
mov.u32 %r6, %nctaid.x; mul.lo.s32 %r7, %r6, %r3; shl.b32 %r5, %r5, 2; shl.b32 %r7, %r7, 2;
L: setp.ge.u32 %p1, %r5, %r1; @%p1 bra D;
mul.wide.u32 %rd3, %r5, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd4]; ld.global.v4.f32 {%f5, %f6, %f7, %f8}, [%rd5];
fma.rn.f32 %f5, %f1, 0f40000000, %f5; fma.rn.f32 %f6, %f2, 0f40000000, %f6;
fma.rn.f32 %f7, %f3, 0f40000000, %f7; fma.rn.f32 %f8, %f4, 0f40000000, %f8;
st.global.v4.f32 [%rd5], {%f5, %f6, %f7, %f8};
add.s32 %r5, %r5, %r7; bra L; D: ret; }
.visible .entry turn(.param .u64 x, .param .u64 y, .param .u32 n) {
.reg .pred %p<2>; .reg .b32 %r<30>; .reg .f32 %f<10>; .reg .b64 %rd<8>; .shared .align 16 .b8 tile[4224];
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u32 %r1, [n];
mov.u32 %r2, %ctaid.x; mov.u32 %r3, %tid.x; and.b32 %r4, %r3, 31; shr.u32 %r5, %r3, 5;
mov.u32 %r6, tile; mad.lo.s32 %r7, %r5, 132, %r6; mad.lo.s32 %r7, %r4, 4, %r7;
mad.lo.s32 %r8, %r4, 132, %r6; mad.lo.s32 %r8, %r5, 4, %r8;
mul.lo.s32 %r9, %r2, 1024; add.s32 %r9, %r9, %r3; mov.u32 %r10, %nctaid.x; mul.lo.s32 %r10, %r10, 1024;
L: setp.ge.u32 %p1, %r9, %r1; @%p1 bra D;
mul.wide.u32 %rd3, %r9, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
ld.global.f32 %f1, [%rd4]; ld.global.f32 %f2, [%rd4+1024]; ld.global.f32 %f3, [%rd4+2048];
ld.global.f32 %f4, [%rd4+3072];
st.shared.f32 [%r7], %f1; st.shared.f32 [%r7+1056], %f2; st.shared.f32 [%r7+2112], %f3;
st.shared.f32 [%r7+3168], %f4; bar.sync 0;
ld.shared.f32 %f1, [%r8]; ld.shared.f32 %f2, [%r8+32]; ld.shared.f32 %f3, [%r8+64];
ld.shared.f32 %f4, [%r8+96]; bar.sync 0;
st.global.f32 [%rd5], %f1; st.global.f32 [%rd5+1024], %f2; st.global.f32 [%rd5+2048], %f3;
st.global.f32 [%rd5+3072], %f4; add.s32 %r9, %r9, %r10; bra L; D: ret; }
.visible .entry sum(.param .u64 x, .param .u64 y, .param .u32 n) {
.reg .pred %p<2>; .reg .b32 %r<20>; .reg .f32 %f<20>; .reg .b64 %rd<8>;
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u32 %r1, [n];
mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;
mov.u32 %r6, %nctaid.x; mul.lo.s32 %r7, %r6, %r3;
L: setp.ge.u32 %p1, %r5, %r1; @%p1 bra D;
mul.wide.u32 %rd3, %r5, 4; add.s64 %rd4, %rd1, %rd3; and.b64 %rd3, %rd3, 4095; add.s64 %rd5, %rd2, %rd3;
ld.global.f32 %f1, [%rd4]; red.global.add.f32 [%rd5], %f1;
add.s32 %r5, %r5, %r7; bra L; D: ret; })";

void memory(benchmark::State& state, const char* kernel) {
  EmulatorOptions options;
  options.race_check = state.range(0) != 0;
  options.threads = static_cast<int>(state.range(1));
  Bench bench(memory_bound, 256, options, kernel);
  const uint32_t n = 1 << 18;
  const Address x = bench.upload(std::vector<float>(n, 1)), y = bench.upload(std::vector<float>(n, 2));
  for (auto _ : state) bench.run({64, 1, 1}, 0, x, y, n);
  state.counters["floats"] = benchmark::Counter(
      static_cast<double>(n) * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
#define MEMORY(kernel)                       \
  BENCHMARK_CAPTURE(memory, kernel, #kernel) \
      ->ArgNames({"checks", "threads"})      \
      ->Args({0, 1})                         \
      ->Args({1, 1})                         \
      ->Args({1, 2})                         \
      ->UseRealTime()                        \
      ->Unit(benchmark::kMillisecond)
MEMORY(copy);
MEMORY(saxpy);
MEMORY(turn);
MEMORY(sum);

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

// Uses the installed library through its umbrella headers: prints the PTX of a kernel, runs it on the
// emulator, and multiplies.
#include <iostream>

#include "ptxbuilder/kernels/gemm/matmul.h"
#include "ptxbuilder/ptxbuilder.h"
#include "ptxbuilder/runtime/compile/load.h"
#include "ptxbuilder/runtime/runtime.h"

using namespace ptxbuilder;

Kernel twice() {
  Kernel k("twice");
  auto [x, n] = k.params<gptr<f32>, u32>("x", "n");
  u32 i = ctaid_x() * 128 + tid_x();
  if_(i < n, [&] { x[i] = x[i] * 2; });
  return k;
}

// clang warns if the sides of an == have different types.
RegisterTile<pred> same(const RegisterTile<f32>& x, const RegisterTile<f32>& y) { return x == y; }

int main() {
  CompilerOptions options;
  options.assemble = false;
  std::cout << Compiler(options).compile(twice()).ptx;

  auto device = runtime::open_device("emulator");
  runtime::LoadedKernel kernel = load(*device, twice());
  auto x = runtime::Buffer::of(*device, std::vector<float>(200, 21));
  kernel.launch({.grid = {2}}, {runtime::pointer(x, DType::f32), runtime::scalar(200u)});
  device->synchronize();
  const std::vector<float> doubled = x.copy_out<float>();
  std::cout << "twice: " << doubled.front() << " " << doubled.back() << "\n";

  constexpr int kSize = 24;
  std::vector<uint16_t> ones(kSize * kSize, static_cast<uint16_t>(encode(DType::bf16, 1)));
  auto a = runtime::Buffer::of(*device, ones), b = runtime::Buffer::of(*device, ones);
  runtime::Buffer d(*device, kSize * kSize * sizeof(float));
  kernels::Matmul matmul(*device);
  kernels::MatmulArguments p;
  p.m = p.n = p.k = kSize;
  p.a = {.memory = a, .type = DType::bf16};
  p.b = {.memory = b, .type = DType::bf16};
  p.d = {.memory = d, .type = DType::f32};
  matmul(p);
  device->synchronize();
  bool right = true;
  for (float sum : d.copy_out<float>()) right = right && sum == kSize;
  std::cout << "product: " << (right ? "right" : "wrong") << "\n";
}

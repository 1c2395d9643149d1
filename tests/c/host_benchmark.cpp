// Measures what a known call takes of the host, from C and from C++, on a driver of the tests' own that does
// next to nothing. None of them may take memory from the heap: then the program fails.
#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <new>

#include "kernels/c/ptxb.h"
#include "kernels/gemm/matmul.h"
#include "mock_libcuda.h"
#include "ptxbuilder/sidecar.h"
#include "runtime/cuda_device.h"

namespace {

size_t allocations = 0;           // of this program, which has one thread
size_t allocations_of_calls = 0;  // of the calls that are measured

void* allocated(void* memory) {
  ++allocations;
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return allocated(std::malloc(bytes)); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  const auto unit = static_cast<size_t>(alignment);
  return allocated(std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit));
}
// Inlined alone, free() would be taken for a mistake next to `new`.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { operator delete(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { operator delete(memory); }

namespace {

using namespace ptxbuilder;

constexpr int64_t kM = 4096, kN = 4096, kK = 512;
const std::vector<size_t> kOfProduct = {128, 128, 128, 4, 4, 4};  // bytes of a kernel's parameters

// Its soname is the driver's: who opens libcuda.so.1 from now on gets it.
MockDriver& driver_with(const std::vector<size_t>& parameter_sizes) {
  static void* library = dlopen(PTXBUILDER_MOCK_GPU, RTLD_NOW);
  if (!library) throw Error(dlerror());
  auto* mock = reinterpret_cast<MockDriver* (*)()>(dlsym(library, "mock_driver"))();
  mock->parameter_sizes = parameter_sizes;
  return *mock;
}

template <class Call>
void measure(benchmark::State& state, Call&& call) {
  call();  // from now on it is known
  const size_t before = allocations;
  for (auto _ : state) call();
  const size_t taken = allocations - before;
  allocations_of_calls += taken;
  state.counters["allocations"] = benchmark::Counter(static_cast<double>(taken));
}

void check(int status) {
  if (status != PTXB_OK) throw Error(ptxb_error());
}

struct Opened {
  Opened() { check(ptxb_open("cuda:0", &device)); }
  ~Opened() { ptxb_close(device); }

  ptxb_device* device = nullptr;
};

// A row-major matrix in memory that nobody reads, with a gap after each row.
struct Matrix {
  Matrix(uintptr_t address, ptxb_dtype type, int64_t rows, int64_t columns, int64_t gap = 0)
      : shape{rows, columns}, strides{columns + gap, 1} {
    tensor = {reinterpret_cast<void*>(address), {2, 0}, 2, type, shape, strides, 0};
  }

  int64_t shape[2], strides[2];
  ptxb_tensor tensor;
};

constexpr ptxb_dtype kBf16 = {PTXB_BFLOAT, 16, 1}, kF32 = {PTXB_FLOAT, 32, 1};
constexpr uintptr_t kA = 1ull << 32, kB = 2ull << 32, kD = 3ull << 32;

void product_from_c(benchmark::State& state) {
  driver_with(kOfProduct);
  const Opened opened;
  const Matrix a(kA, kBf16, kM, kK), b(kB, kBf16, kK, kN), d(kD, kBf16, kM, kN);
  ptxb_matmul p = PTXB_MATMUL_INIT;
  p.a = &a.tensor, p.b = &b.tensor, p.d = &d.tensor;
  measure(state, [&] { check(ptxb_matmul_run(opened.device, &p, nullptr, 0, PTXB_OWN_STREAM)); });
}
BENCHMARK(product_from_c);

// One that launches nothing.
void product_without_rows_from_c(benchmark::State& state) {
  driver_with(kOfProduct);
  const Opened opened;
  const Matrix a(kA, kBf16, 0, kK), b(kB, kBf16, kK, kN), d(kD, kBf16, 0, kN);
  ptxb_matmul p = PTXB_MATMUL_INIT;
  p.a = &a.tensor, p.b = &b.tensor, p.d = &d.tensor;
  measure(state, [&] { check(ptxb_matmul_run(opened.device, &p, nullptr, 0, PTXB_OWN_STREAM)); });
}
BENCHMARK(product_without_rows_from_c);

// Rows of 1000 B, which TMA cannot read: A is copied into a workspace, for which the product is asked.
void product_with_a_copy_from_c(benchmark::State& state) {
  constexpr int64_t kDepth = 500;
  MockDriver& driver = driver_with(kOfProduct);
  const Opened opened;
  const Matrix a(kA, kBf16, kM, kDepth), b(kB, kBf16, kDepth, kN), d(kD, kBf16, kM, kN);
  const Matrix padded(kA, kBf16, kM, kDepth, 4);
  ptxb_matmul p = PTXB_MATMUL_INIT;
  p.a = &padded.tensor, p.b = &b.tensor, p.d = &d.tensor;
  check(ptxb_matmul_run(opened.device, &p, nullptr, 0, PTXB_OWN_STREAM));  // loads the product's kernel
  p.a = &a.tensor;
  size_t bytes = 0;
  auto call = [&] {
    check(ptxb_matmul_workspace(opened.device, &p, &bytes));
    check(ptxb_matmul_run(opened.device, &p, reinterpret_cast<void*>(4ull << 32), bytes, PTXB_OWN_STREAM));
  };
  driver.parameter_sizes = {8, 8, 8, 8, 8, 8, 4, 4, 4};
  check(ptxb_matmul_workspace(opened.device, &p, &bytes));  // loads the one that copies
  driver.parameter_sizes = {};
  measure(state, call);
}
BENCHMARK(product_with_a_copy_from_c);

void product(benchmark::State& state) {
  driver_with(kOfProduct);
  auto device = runtime::open_cuda_device("sm_90a", PTXBUILDER_MOCK_GPU);
  kernels::Matmul matmul(*device);
  kernels::MatmulArguments p;
  p.m = kM, p.n = kN, p.k = kK;
  p.b_k_major = false;
  p.a.memory = {kA, kM * kK * 2}, p.b.memory = {kB, kK * kN * 2}, p.d.memory = {kD, kM * kN * 2};
  measure(state, [&] { matmul(p); });
}
BENCHMARK(product);

void launch_from_c(benchmark::State& state) {
  driver_with({128, 8, 4});
  const Opened opened;
  Signature s;
  s.kernel = "copy";
  s.parameters = {{.name = "from",
                   .kind = Parameter::Kind::tensor_map,
                   .dtype = DType::f32,
                   .tensor_map = {.dtype = DType::f32, .box = {32, 8}, .element_strides = {1, 1}}},
                  {.name = "to", .kind = Parameter::Kind::pointer, .dtype = DType::f32},
                  {.name = "count", .kind = Parameter::Kind::scalar, .dtype = DType::u32}};
  const std::string ptx = ".version 8.0\n.target sm_90a\n.address_size 64\n", sidecar = to_json(s);
  ptxb_kernel* kernel = nullptr;
  check(ptxb_load_image(opened.device, ptx.data(), ptx.size(), sidecar.c_str(), &kernel));
  const Matrix from(kA, kF32, 1024, 512), to(kD, kF32, 1024, 512);
  const uint32_t grid[] = {64, 1, 1};
  const ptxb_argument all[] = {ptxb_of_tensor(&from.tensor), ptxb_of_tensor(&to.tensor),
                               ptxb_of_integer(1024 * 512)};
  measure(state, [&] { check(ptxb_launch(kernel, grid, all, 3, PTXB_OWN_STREAM)); });
  ptxb_kernel_free(kernel);
}
BENCHMARK(launch_from_c);

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  if (allocations_of_calls == 0) return 0;
  std::fprintf(stderr, "known calls took memory from the heap %zu times\n", allocations_of_calls);
  return 1;
}

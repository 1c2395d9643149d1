// Measures the time that a known call takes on the host, from C and from C++, with a mock driver that does
// almost nothing. The program fails if a call allocates memory from the heap. Only calls of ranks may
// allocate, since their lists of memory and of extents have any length.
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

size_t allocations = 0;           // allocations by this program, which has one thread
size_t allocations_of_calls = 0;  // allocations by the measured calls

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
// If this function were inlined, the compiler would report that free() does not match `new`.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { operator delete(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { operator delete(memory); }

namespace {

using namespace ptxbuilder;

constexpr int64_t kM = 4096, kN = 4096, kK = 512;
const std::vector<size_t> kOfProduct = {128, 128, 128,
                                        4,   4,   4};  // bytes of each parameter of a product's kernel

// The library has the soname of the driver, so that opening libcuda.so.1 returns it from now on.
MockDriver& driver_with(const std::vector<size_t>& parameter_sizes) {
  static void* library = dlopen(PTXBUILDER_MOCK_GPU, RTLD_NOW);
  if (!library) throw Error(dlerror());
  auto* mock = reinterpret_cast<MockDriver* (*)()>(dlsym(library, "mock_driver"))();
  mock->parameter_sizes = parameter_sizes;
  return *mock;
}

template <class Call>
void measure(benchmark::State& state, Call&& call, bool may_allocate = false) {
  call();  // the call is known from now on
  const size_t before = allocations;
  for (auto _ : state) call();
  const size_t taken = allocations - before;
  if (!may_allocate) allocations_of_calls += taken;
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

// A row-major matrix with a gap after each row, in memory that is never read.
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

// Measures a call that launches nothing.
void product_without_rows_from_c(benchmark::State& state) {
  driver_with(kOfProduct);
  const Opened opened;
  const Matrix a(kA, kBf16, 0, kK), b(kB, kBf16, kK, kN), d(kD, kBf16, 0, kN);
  ptxb_matmul p = PTXB_MATMUL_INIT;
  p.a = &a.tensor, p.b = &b.tensor, p.d = &d.tensor;
  measure(state, [&] { check(ptxb_matmul_run(opened.device, &p, nullptr, 0, PTXB_OWN_STREAM)); });
}
BENCHMARK(product_without_rows_from_c);

// Rows have 1000 bytes, which TMA cannot read. A is therefore copied into a workspace, whose size the product
// returns.
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
  check(ptxb_matmul_workspace(opened.device, &p, &bytes));  // loads the kernel that copies
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

// ---- Calls of this rank of two ----

constexpr size_t kExchanged = size_t{64} << 20;

// Fills in the fields of a ptxb_ranked, a ptxb_ranked_norm or a ptxb_ranked_tokens for the first of two
// ranks.
template <class Call>
Call of_two_ranks(Call call) {
  static void* memory[] = {reinterpret_cast<void*>(8ull << 32), reinterpret_cast<void*>(9ull << 32)};
  call.memory = memory, call.memory_bytes = kExchanged, call.ranks = 2;
  return call;
}

void gathered_product_of_ranks_from_c(benchmark::State& state) {
  driver_with({128, 8, 128, 128, 128, 8, 8, 4, 4, 4, 4});
  const Opened opened;
  const Matrix a(kA, kBf16, 4096, 512), b(kB, kBf16, 4096, 512), d(kD, kBf16, 8192, 4096);
  ptxb_ranked p = of_two_ranks<ptxb_ranked>(PTXB_RANKED_INIT);
  p.a = &a.tensor, p.b = &b.tensor, p.d = &d.tensor;
  measure(
      state, [&] { check(ptxb_ranked_run(opened.device, &p, PTXB_OWN_STREAM)); }, true);
}
BENCHMARK(gathered_product_of_ranks_from_c);

void norm_of_ranks_from_c(benchmark::State& state) {
  driver_with({8, 8, 8, 8, 4, 4, 4, 8, 8, 8, 4, 8});
  const Opened opened;
  const Matrix x(kA, kBf16, 8, 4096), residual(kB, kBf16, 8, 4096), y(kD, kBf16, 8, 4096);
  ptxb_ranked_norm p = of_two_ranks<ptxb_ranked_norm>(PTXB_RANKED_NORM_INIT);
  p.x = &x.tensor, p.residual = p.new_residual = &residual.tensor, p.y = &y.tensor;
  measure(
      state, [&] { check(ptxb_ranked_norm_run(opened.device, &p, PTXB_OWN_STREAM)); }, true);
}
BENCHMARK(norm_of_ranks_from_c);

void dispatch_of_ranks_from_c(benchmark::State& state) {
  MockDriver& driver = driver_with({8, 8, 8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 8, 8});
  const Opened opened;
  const Matrix rows(kA, kBf16, 64, 4096), grouped(kB, kBf16, 128, 4096);
  constexpr ptxb_dtype integer = {PTXB_INT, 32, 1};
  const Matrix splits(kD, integer, 2, 32);
  const int64_t all = 64, own = 32, stride = 1;
  const auto vector = [&](uintptr_t address, const int64_t& count) {
    return ptxb_tensor{reinterpret_cast<void*>(address), {2, 0}, 1, integer, const_cast<int64_t*>(&count),
                       const_cast<int64_t*>(&stride),    0};
  };
  const ptxb_tensor ends = vector(4ull << 32, all), grouped_ends = vector(5ull << 32, own);
  ptxb_ranked_tokens p = of_two_ranks<ptxb_ranked_tokens>(PTXB_RANKED_TOKENS_INIT);
  p.sorted = &rows.tensor, p.ends = &ends, p.grouped = &grouped.tensor;
  p.splits = &splits.tensor, p.grouped_ends = &grouped_ends;
  // Both kernels are loaded here: first the kernel of a dispatch, and then the kernel of a combine, which has
  // one parameter fewer.
  if (ptxb_ranked_tokens_run(opened.device, &p, PTXB_OWN_STREAM) == PTXB_OK)
    throw Error("the kernels of a dispatch and of a combine have the same parameters");
  driver.parameter_sizes = {8, 8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 8, 8};
  measure(
      state, [&] { check(ptxb_ranked_tokens_run(opened.device, &p, PTXB_OWN_STREAM)); }, true);
}
BENCHMARK(dispatch_of_ranks_from_c);

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  if (allocations_of_calls == 0) return 0;
  std::fprintf(stderr, "known calls took memory from the heap %zu times\n", allocations_of_calls);
  return 1;
}

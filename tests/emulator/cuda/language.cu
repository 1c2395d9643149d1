// These kernels use features of C++ that challenge a compiler: calls, stacks, tables, types, and arithmetic.
#include "kernels.h"

__device__ __noinline__ int ackermann(int m, int n) {
  return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

//: calls_itself: kept=True, threads=32, expect=[2*(i % 5) + 3 for i in range(32)]
KERNEL(calls_itself) { out[threadIdx.x] = ackermann(2, in[threadIdx.x] % 5); }

__device__ __noinline__ bool is_odd(int n);
__device__ __noinline__ bool is_even(int n) { return n == 0 || is_odd(n - 1); }
__device__ __noinline__ bool is_odd(int n) { return n != 0 && is_even(n - 1); }

//: call_each_other: threads=64, expect=[i % 2 for i in range(64)]
KERNEL(call_each_other) { out[threadIdx.x] = is_odd(in[threadIdx.x]); }

using Step = int (*)(int);
__device__ __noinline__ int add_seven(int x) { return x + 7; }
__device__ __noinline__ int square(int x) { return x * x; }
__device__ __noinline__ int minus(int x) { return -x; }

//: steps_in_shared: kept=True, threads=96, expect=[(i + 7, i * i, -i)[i % 3] for i in range(96)],
//: plants=["race|uninitialised"]
KERNEL(steps_in_shared) {
  __shared__ Step steps[3];
  if (threadIdx.x == 0) steps[0] = add_seven, steps[1] = square, steps[2] = minus;
  UNLESS(1) __syncthreads();
  out[threadIdx.x] = steps[threadIdx.x % 3](in[threadIdx.x]);
}

struct Shape {
  __device__ virtual int area() const = 0;
};
struct Box : Shape {
  int w, h;
  __device__ Box(int w, int h) : w(w), h(h) {}
  __device__ int area() const override { return w * h; }
};
struct Line : Shape {
  int length;
  __device__ explicit Line(int length) : length(length) {}
  __device__ int area() const override { return length; }
};

//: objects_in_shared: threads=64, expect=[2*(63 - i) if (63 - i) % 2 else 63 - i for i in range(64)],
//: plants=["race|uninitialised"]
KERNEL(objects_in_shared) {
  __shared__ alignas(8) char memory[64][sizeof(Box)];
  const int t = threadIdx.x;
  if (t % 2)
    new (memory[t]) Box(in[t], 2);
  else
    new (memory[t]) Line(in[t]);
  UNLESS(1) __syncthreads();
  out[t] = reinterpret_cast<const Shape*>(memory[63 - t])->area();
}

//: stack_machine: threads=64, expect=[(i + 3) * (i - 1) for i in range(64)], plants=["out of bounds"]
KERNEL(stack_machine) {
  int stack[8], top = 0;
  const char program[] = {'v', '3', '+', 'v', '1', '-', '*'};
  for (const char c : program) {
    if (c == 'v')
      stack[top++] = in[threadIdx.x];
    else if (c >= '0' && c <= '9')
      stack[top++] = c - '0';
    else {
      const int b = stack[--top], a = stack[--top];
      stack[top++] = c == '+' ? a + b : c == '-' ? a - b : a * b;
    }
  }
  IF(1) for (int i = 0; i < n * 4096; ++i) stack[i] += i;
  out[threadIdx.x] = stack[0];
}

//: needles: threads=32, expect=[(i * 5 % 16) * 2 for i in range(32)]
KERNEL(needles) {  // searches a table of constants
  const int table[16] = {0, 1, 4, 9, 16, 25, 36, 49, 64, 81, 100, 121, 144, 169, 196, 225};
  const int i = in[threadIdx.x] * 5 % 16, key = i * i;
  int low = 0, high = 15;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (table[middle] < key)
      low = middle + 1;
    else
      high = middle;
  }
  out[threadIdx.x] = 2 * low;
}

struct Big {
  int head, body[12];
  char tail;
};
__device__ __noinline__ Big made(int seed) {
  Big b;
  b.head = seed;
  for (int i = 0; i < 12; ++i) b.body[i] = seed + i;
  b.tail = 3;
  return b;
}
__device__ __noinline__ int summed(Big b) {
  int sum = b.head + b.tail;
  for (int v : b.body) sum += v;
  return sum;
}

//: structs_by_value: threads=32, expect=[13 * i + 66 + 3 for i in range(32)], plants=["race"]
KERNEL(structs_by_value) {
  __shared__ Big big[32];
  big[threadIdx.x] = made(in[threadIdx.x]);
  UNLESS(1) __syncwarp();
  const int from = plant == 1 ? threadIdx.x ^ 1 : threadIdx.x;
  out[threadIdx.x] = summed(big[from]);
}

template <class... T>
__device__ int total(T... values) {
  return (0 + ... + values);
}

//: lambdas_and_packs: threads=32, expect=[6 * i + 10 for i in range(32)]
KERNEL(lambdas_and_packs) {
  const int v = in[threadIdx.x];
  auto scaled = [v](int by) { return v * by; };
  out[threadIdx.x] = total(scaled(1), scaled(2), scaled(3), 10);
}

//: memory_of_the_stack: threads=32, expect=[sum(range(i + 1)) for i in range(32)]
KERNEL(memory_of_the_stack) {
  const int count = in[threadIdx.x] + 1;
  int* values = static_cast<int*>(alloca(count * sizeof(int)));
  for (int i = 0; i < count; ++i) values[i] = i;
  int sum = 0;
  for (int i = count - 1; i >= 0; --i) sum += values[i];
  out[threadIdx.x] = sum;
}

//: many_cases: threads=64, expect=[(3, 5*i, i + 9, i ^ 21, i << 2, i | 64, 77, -i, i * i)[i % 9] for i in
//: range(64)]
KERNEL(many_cases) {
  const int v = in[threadIdx.x];
  int r;
  switch (v % 9) {
    case 0:
      r = 3;
      break;
    case 1:
      r = 5 * v;
      break;
    case 2:
      r = v + 9;
      break;
    case 3:
      r = v ^ 21;
      break;
    case 4:
      r = v << 2;
      break;
    case 5:
      r = v | 64;
      break;
    case 6:
      r = 77;
      break;
    case 7:
      r = -v;
      break;
    default:
      r = v * v;
  }
  out[threadIdx.x] = r;
}

//: wide_integers: threads=32, expect=[((i * 0x9e3779b97f4a7c15 % 2**64) // (i + 3) ^ (i * 0x9e3779b97f4a7c15
//: % 2**64) % (i + 7)) & 0x7fffffff for i in range(32)]
KERNEL(wide_integers) {
  const uint64_t v = in[threadIdx.x] * 0x9e3779b97f4a7c15ull;
  out[threadIdx.x] = static_cast<int>((v / (threadIdx.x + 3) ^ v % (threadIdx.x + 7)) & 0x7fffffff);
}

//: bits_of_words: threads=64, expect=[bits(i) for i in range(64)]
KERNEL(bits_of_words) {
  const unsigned v = in[threadIdx.x] * 2654435761u;
  out[threadIdx.x] = __clz(v | 1) + 3 * __popc(v) + 5 * __ffs(v | 0x80000000u) + (__brev(v) >> 27) +
                     (__byte_perm(v, v, 0x0123) & 0xff);
}

//: brain_floats: threads=64, expect=[(63 - i) % 8 * 3 for i in range(64)], plants=["race"]
KERNEL(brain_floats) {
  __shared__ __nv_bfloat16 s[64];
  s[threadIdx.x] = __float2bfloat16(in[threadIdx.x] % 8);
  UNLESS(1) __syncthreads();
  out[threadIdx.x] = static_cast<int>(__bfloat162float(__hmul(s[63 - threadIdx.x], __float2bfloat16(3))));
}

//: rounded_ways: threads=32, expect=rounded()
KERNEL(rounded_ways) {
  const float x = in[threadIdx.x] * 0.75f - 8;
  out[threadIdx.x] =
      __float2int_rn(x) + 100 * __float2int_rz(x) + 10000 * __float2int_ru(x) + 1000000 * __float2int_rd(x);
}

//: complex_numbers: threads=32, expect=[i * i - 4 + 1000 * (4 * i) for i in range(32)]
KERNEL(complex_numbers) {
  const cuda::std::complex<float> z(in[threadIdx.x], 2);
  const auto square = z * z;
  out[threadIdx.x] = static_cast<int>(square.real()) + 1000 * static_cast<int>(square.imag());
}

__device__ __noinline__ cuda::std::optional<int> halved(int v) {
  return v % 2 ? cuda::std::nullopt : cuda::std::optional<int>(v / 2);
}
//: standard_types: threads=64, expect=[(i + i // 2 if i % 2 == 0 else -1) + 3 * i for i in range(64)]
KERNEL(standard_types) {
  const int v = in[threadIdx.x];
  cuda::std::array<int, 3> three{v, v, v};
  int sum = 0;
  for (int x : cuda::std::span<int>(three.data(), 3)) sum += x;
  const auto half = halved(v);
  const auto [first, second] = cuda::std::make_tuple(half ? v + *half : -1, sum);
  out[threadIdx.x] = first + second;
}

struct Pair {
  short a;
  unsigned char b;
};
__constant__ Pair pairs[3] = {{-5, 200}, {300, 1}, {7, 9}};
__device__ const double thirds[2] = {1.0 / 3, 2.0 / 3};
__device__ int counter = 40;

//: tables_of_the_module: threads=32, expect=[(195, 301, 16)[i % 3] + (100, 200)[i % 2] // 3 for i in
//: range(32)] + [0]*32 + [72]
KERNEL(tables_of_the_module) {
  const int v = in[threadIdx.x];
  const Pair p = pairs[v % 3];
  out[threadIdx.x] = p.a + p.b + static_cast<int>(thirds[v % 2] * 100);
  atomicAdd(&counter, 1);
  __syncthreads();
  if (threadIdx.x == 0) out[64] = atomicAdd(&counter, 0);
}

//: early_out_of_loops: threads=64, expect=[collatz(i + 1) for i in range(64)], plants=["race"]
KERNEL(early_out_of_loops) {
  __shared__ int s[64];
  int v = in[threadIdx.x] + 1, steps = 0;
  while (true) {
    if (v == 1) break;
    if (v % 2 == 0) {
      v /= 2;
      ++steps;
      continue;
    }
    v = 3 * v + 1;
    ++steps;
  }
  s[63 - threadIdx.x] = steps;
  UNLESS(1) __syncthreads();
  out[threadIdx.x] = s[63 - threadIdx.x];
  IF(1) out[threadIdx.x] = s[threadIdx.x];
}

//: grid_of_three: threads=[4, 2, 2], grid=[2, 2, 2], expect=[i for i in range(128)]
KERNEL(grid_of_three) {
  const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * 16 + thread] = in[block * 16 + thread];
}

using namespace nvcuda;

//: product_by_wmma: kept=True, threads=32, expect=[sum((y*16 + k) % 3 * ((k*16 + x) % 4) for k in range(16))
//: for y in range(16) for x in range(16)], plants=["race"]
KERNEL(product_by_wmma) {
  __shared__ alignas(32) __nv_bfloat16 a[256], b[256];
  __shared__ alignas(32) float c[256];
  for (int i = threadIdx.x; i < 256; i += 32)
    a[i] = __float2bfloat16(in[i] % 3), b[i] = __float2bfloat16(in[i] % 4);
  UNLESS(1) __syncwarp();
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < 256; i += 32) out[i] = static_cast<int>(c[i]);
}

//: clocks_go_on: threads=32, expect=[1]*32
KERNEL(clocks_go_on) {
  const long long before = clock64();
  __nanosleep(100);
  out[threadIdx.x] = clock64() >= before && __isGlobal(out);
}

//: heap_of_lists: threads=32, expect=[3 * i for i in range(32)]
KERNEL(heap_of_lists) {
  struct Node {
    int value;
    Node* next;
  };
  Node* head = nullptr;
  for (int i = 0; i < 3; ++i) head = new Node{in[threadIdx.x], head};
  int sum = 0;
  while (head) {
    sum += head->value;
    Node* was = head;
    head = head->next;
    delete was;
  }
  out[threadIdx.x] = sum;
}

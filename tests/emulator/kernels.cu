// Small CUDA C++ kernels that nvcc compiles for the emulator's tests.
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_pipeline.h>

#include <cassert>
#include <cstdint>
#include <cstdio>
#include <cuda/barrier>
#include <cuda/ptx>

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

extern "C" __global__ void saxpy(float* y, const float* x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void block_sum(float* out, const float* x, int n) {
  __shared__ float warps[32];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0;
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
  }
}

extern "C" __global__ void warp_scan(int* x) {
  int lane = threadIdx.x % 32, v = x[threadIdx.x];
  for (int d = 1; d < 32; d *= 2) {
    int other = __shfl_up_sync(~0u, v, d);
    if (lane >= d) v += other;
  }
  x[threadIdx.x] = v;
}

extern "C" __global__ void histogram(unsigned* bins, const unsigned char* x, int n) {
  __shared__ unsigned mine[256];
  mine[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&mine[x[i]], 1u);
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}

extern "C" __global__ void transpose(float* out, const float* in, int n) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x % 32, y = blockIdx.y * 32 + threadIdx.x / 32;
  for (int r = 0; r < 32; r += 8) tile[threadIdx.x / 32 + r][threadIdx.x % 32] = in[(y + r) * n + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x % 32;
  y = blockIdx.x * 32 + threadIdx.x / 32;
  for (int r = 0; r < 32; r += 8) out[(y + r) * n + x] = tile[threadIdx.x % 32][threadIdx.x / 32 + r];
}

// Two halves of the block pass a buffer back and forth through two cuda::barriers.
extern "C" __global__ void hand_over(int* out, int rounds) {
  using barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ alignas(8) char storage[2 * sizeof(barrier)];
  barrier* bars = reinterpret_cast<barrier*>(storage);
  __shared__ int buffer[128];
  if (threadIdx.x == 0) {
    init(&bars[0], blockDim.x);
    init(&bars[1], blockDim.x);
  }
  __syncthreads();
  const int half = blockDim.x / 2;
  if (threadIdx.x < half) {
    for (int r = 0; r < rounds; ++r) {
      bars[0].arrive_and_wait();
      buffer[threadIdx.x] = r * 1000 + threadIdx.x;
      (void)bars[1].arrive();
    }
  } else {
    int sum = 0;
    (void)bars[0].arrive();
    for (int r = 0; r < rounds; ++r) {
      bars[1].arrive_and_wait();
      sum += buffer[half - 1 - (threadIdx.x - half)];
      if (r + 1 < rounds) (void)bars[0].arrive();
    }
    out[threadIdx.x - half] = sum;
  }
}

// One 1-D bulk copy in and one bulk copy out, with cuda::ptx.
extern "C" __global__ void bulk_scale(float* out, const float* in, float factor) {
  __shared__ alignas(128) float data[1024];
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&bar, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, sizeof(data));
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, data, in + blockIdx.x * 1024, sizeof(data),
                       &bar);
  }
  while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {
  }
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) data[i] *= factor;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out + blockIdx.x * 1024, data, sizeof(data));
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
  }
}

// 2-D tensor copies of a 32 x 32 tile, which is transposed in place.
struct alignas(64) Map {
  char bytes[128];
};
extern "C" __global__ void tensor_transpose(const __grid_constant__ Map in, const __grid_constant__ Map out) {
  __shared__ alignas(128) float a[32][32];
  __shared__ alignas(128) float b[32][32];
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&bar, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    int32_t at[2] = {int(blockIdx.x) * 32, int(blockIdx.y) * 32};
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, sizeof(a));
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, a, &in, at, &bar);
  }
  while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {
  }
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) b[i % 32][i / 32] = a[i / 32][i % 32];
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    int32_t at[2] = {int(blockIdx.y) * 32, int(blockIdx.x) * 32};
    ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &out, at, b);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
  }
}

// Every CTA of a cluster of 4 adds up the values of all CTAs.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_sum(int* out) {
  __shared__ int mine;
  cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x == 0) mine = blockIdx.x + 1;
  cluster.sync();
  if (threadIdx.x == 0) {
    int sum = 0;
    for (unsigned r = 0; r < cluster.num_blocks(); ++r) sum += *cluster.map_shared_rank(&mine, r);
    out[blockIdx.x] = sum;
  }
  cluster.sync();
}

extern "C" __global__ void copy_async(int* out, const int* in) {
  __shared__ alignas(16) int data[512];
  __pipeline_memcpy_async(&data[threadIdx.x * 4], &in[threadIdx.x * 4], 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  for (int i = threadIdx.x; i < 512; i += blockDim.x) out[i] = data[511 - i];
}

__device__ __noinline__ float pick(int how, float x) {
  switch (how) {
    case 0:
      return sinf(x * 100.0f);
    case 1:
      return expf(x);
    case 2:
      return logf(x + 2);
    case 3:
      return x / 3.0f;
    case 4:
      return sqrtf(x * x + 1);
    case 5:
      return tanhf(x);
    case 6:
      return powf(x * x + 0.5f, 1.5f);
    default:
      return __fdividef(x, 7.0f);
  }
}
extern "C" __global__ void functions(float* out, const float* in) {
  int i = threadIdx.x;
  float v[4];
  for (int k = 0; k < 4; ++k) v[k] = pick((i + k) % 8, in[i]);
  out[i] = v[0] + v[i % 4] + (i % 3 ? pick(i % 8, in[i] * 0.5f) : 0.0f);
}

__device__ unsigned arrived;
extern "C" __global__ void last_block(unsigned long long* out, const unsigned* in,
                                      unsigned long long* partial, int n) {
  __shared__ unsigned long long sum;
  __shared__ bool last;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&sum, (unsigned long long)in[i]);
  __syncthreads();
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(&arrived, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    unsigned long long all = 0;
    for (unsigned b = 0; b < gridDim.x; ++b)
      all += reinterpret_cast<volatile unsigned long long*>(partial)[b];
    *out = all;
  }
}

// The second half of the grid waits for the first through global memory.
extern "C" __global__ void wait_for_flag(int* out, int* flag) {
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) {
      while (atomicAdd(flag, 0) != (int)gridDim.x - 1) {
      }
      out[0] = 42;
    }
  } else if (threadIdx.x == 0) {
    atomicAdd(flag, 1);
  }
}

extern "C" __global__ void small_floats(unsigned* out, const float* in) {
  float x = in[threadIdx.x], y = in[threadIdx.x + 1];
  __half2 h = __floats2half2_rn(x, y);
  __nv_bfloat162 b = __floats2bfloat162_rn(x, y);
  __half2 s = __hadd2(__hmul2(h, h), __float2half2_rn(0.25f));
  __half2 f = __hfma2(h, h, s);
  unsigned char e = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3),
                g = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2);
  unsigned* o = out + 5 * threadIdx.x;
  o[0] = *reinterpret_cast<unsigned*>(&h);
  o[1] = *reinterpret_cast<unsigned*>(&b);
  o[2] = *reinterpret_cast<unsigned*>(&s);
  o[3] = *reinterpret_cast<unsigned*>(&f);
  o[4] = e | g << 8;
}

extern "C" __global__ void lanes_alike(unsigned* out, const unsigned* in) {
  unsigned v = in[threadIdx.x];
  unsigned same = __match_any_sync(~0u, v), odd = __ballot_sync(~0u, v & 1), sum = __reduce_add_sync(~0u, v);
  out[threadIdx.x] =
      same ^ (odd * 3) ^ (sum << 7) ^ __popc(same) ^ __brev(v) ^ __clz(v + 1) ^ __byte_perm(v, odd, 0x5410);
}

extern "C" __global__ void wide_integers(long long* out, const long long* in) {
  long long a = in[2 * threadIdx.x], b = in[2 * threadIdx.x + 1];
  out[threadIdx.x] = a / b + a % b * 3 + __mul64hi(a, b) + (unsigned long long)a / (unsigned)(b | 1) +
                     (long long)((double)a * 0.5);
}

// Lanes of one warp wait for each other, which requires forward progress on both sides of a branch.
extern "C" __global__ void lane_chain(int* out) {
  __shared__ volatile int turn;
  if (threadIdx.x == 0) turn = 0;
  __syncthreads();
  bool done = false;
  while (!done) {
    if (turn == (int)threadIdx.x) {
      out[threadIdx.x] = turn * 10;
      turn = threadIdx.x + 1;
      done = true;
    }
  }
}

extern "C" __global__ void say(int n) {
  if (threadIdx.x == 3)
    printf("%d bottles, %s, %5.2f, %llx, %c%%\n", n, "hanging", 1.5, 0x123456789abcull, 'x');
  assert(n < 100);
}

// Each kernel shows an idiom of CUDA C++ in a few lines.
#include "kernels.h"

using namespace nvcuda;

//: block_reduce: threads=128, expect=[8128], plants=["race", "race"]
KERNEL(block_reduce) {
  __shared__ int s[128];
  int t = threadIdx.x;
  s[t] = in[t];
  UNLESS(2) __syncthreads();
  for (int d = 64; d > 0; d >>= 1) {
    if (t < d) s[t] += s[t + d];
    UNLESS(1) __syncthreads();
  }
  if (t == 0) out[0] = s[0];
}

//: warp_reduce: threads=32, expect=[496]
KERNEL(warp_reduce) {
  int v = in[threadIdx.x];
  for (int d = 16; d; d >>= 1) v += __shfl_down_sync(~0u, v, d);
  if (threadIdx.x == 0) out[0] = v;
}

//: two_stage: threads=128, expect=[8128], plants=["race"]
KERNEL(two_stage) {
  __shared__ int w[4];
  int t = threadIdx.x, v = in[t];
  for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
  if (t % 32 == 0) w[t / 32] = v;
  UNLESS(1) __syncthreads();
  if (t < 32) {
    v = t < 4 ? w[t] : 0;
    for (int d = 2; d; d >>= 1) v += __shfl_down_sync(~0u, v, d);
    if (t == 0) out[0] = v;
  }
}

//: early_return: threads=128, expect=[99-i for i in range(100)], plants=["race"]
KERNEL(early_return) {
  int i = threadIdx.x;
  if (i >= 100) return;
  __shared__ int s[128];
  s[i] = in[i];
  UNLESS(1) __syncthreads();
  out[i] = s[99 - i];
}

//: early_return_warp: threads=32, expect=[10]*20
KERNEL(early_return_warp) {
  int i = threadIdx.x;
  if (i >= 20) return;
  int v = in[i];
  unsigned m = __ballot_sync(0xfffff, v & 1);
  out[i] = __popc(m);
}

//: spin_lock: threads=64, expect=[64]
__device__ int lock;
__device__ int count;
KERNEL(spin_lock) {
  bool done = false;
  while (!done) {
    if (atomicCAS(&lock, 0, 1) == 0) {
      __threadfence();
      int c = *(volatile int*)&count;
      *(volatile int*)&count = c + 1;
      __threadfence();
      atomicExch(&lock, 0);
      done = true;
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) out[0] = *(volatile int*)&count;
}

//: spin_lock2: kept=True, threads=64, expect=[64], plants=["race"]
KERNEL(spin_lock2) {
  __shared__ int lock, count;
  if (threadIdx.x == 0) {
    lock = 0;
    count = 0;
  }
  __syncthreads();
  UNLESS(1) while (atomicCAS(&lock, 0, 1) != 0);
  __threadfence_block();
  count++;
  __threadfence_block();
  atomicExch(&lock, 0);
  __syncthreads();
  if (threadIdx.x == 0) out[0] = count;
}

//: half_warps: threads=64, expect=[120+256*(i//16) for i in range(64)]
KERNEL(half_warps) {
  int t = threadIdx.x;
  unsigned m = (t % 32) < 16 ? 0xffffu : 0xffff0000u;
  int v = in[t];
  for (int d = 8; d; d >>= 1) v += __shfl_xor_sync(m, v, d);
  out[t] = v;
}

//: scan_block: threads=128, expect=[i*(i+1)//2 for i in range(128)], plants=["race"]
KERNEL(scan_block) {
  __shared__ int s[2][128];
  int t = threadIdx.x, p = 0;
  s[0][t] = in[t];
  __syncthreads();
  for (int d = 1; d < 128; d <<= 1) {
    s[1 - p][t] = s[p][t] + (t >= d ? s[p][t - d] : 0);
    p = 1 - p;
    UNLESS(1) __syncthreads();
  }
  out[t] = s[p][t];
}

//: warp_scan_shared: threads=32, expect=[i*(i+1)//2 for i in range(32)], plants=["race", "race", "race"]
KERNEL(warp_scan_shared) {
  __shared__ int s[32];
  int t = threadIdx.x;
  s[t] = in[t];
  UNLESS(3) __syncwarp();
  for (int d = 1; d < 32; d <<= 1) {
    int v = t >= d ? s[t - d] : 0;
    UNLESS(2) __syncwarp();
    s[t] += v;
    UNLESS(1) __syncwarp();
  }
  out[t] = s[t];
}

//: warp_exchange: threads=128, expect=[i^1 for i in range(128)], plants=["race"]
KERNEL(warp_exchange) {
  __shared__ int s[128];
  int t = threadIdx.x;
  s[t] = in[t];
  UNLESS(1) __syncwarp();
  out[t] = s[t ^ 1];
}

//: lane0_writes: threads=128, expect=[3*(i//32) for i in range(128)], plants=["race"]
KERNEL(lane0_writes) {
  __shared__ int s[4];
  int t = threadIdx.x, w = t / 32;
  if (t % 32 == 0) s[w] = in[w] * 3;
  UNLESS(1) __syncwarp();
  out[t] = s[w];
}

//: histogram: threads=128, expect=[8]*16, plants=["race", "race"]
KERNEL(histogram) {
  __shared__ int h[16];
  int t = threadIdx.x;
  if (t < 16) h[t] = 0;
  UNLESS(1) __syncthreads();
  atomicAdd(&h[in[t] % 16], 1);
  UNLESS(2) __syncthreads();
  if (t < 16) out[t] = h[t];
}

//: histogram_all_zero: threads=128, expect=[8]*16
KERNEL(histogram_all_zero) {
  __shared__ int h[16];
  int t = threadIdx.x;
  h[t % 16] = 0;
  __syncthreads();
  atomicAdd(&h[in[t] % 16], 1);
  __syncthreads();
  if (t < 16) out[t] = h[t];
}

//: transpose: threads=256, expect=[(i%16)*16+i//16 for i in range(256)], plants=["race"]
KERNEL(transpose) {
  __shared__ int s[16][17];
  int x = threadIdx.x % 16, y = threadIdx.x / 16;
  s[y][x] = in[y * 16 + x];
  UNLESS(1) __syncthreads();
  out[y * 16 + x] = s[x][y];
}

//: stencil: threads=128, expect=[1]+[3*i for i in range(1,128)], plants=["race", "out of bounds"]
KERNEL(stencil) {
  __shared__ int s[130];
  int t = threadIdx.x;
  s[t + 1] = in[t];
  if (t == 0) s[0] = 0;
  if (t == 127) s[(plant == 2 ? 13000000 : 129)] = in[128];
  UNLESS(1) __syncthreads();
  out[t] = s[t] + s[t + 1] + s[t + 2];
}

//: cg_tile: threads=64, expect=[28+64*(i//8) for i in range(64)]
KERNEL(cg_tile) {
  auto b = cg::this_thread_block();
  auto t8 = cg::tiled_partition<8>(b);
  int v = in[threadIdx.x];
  v = cg::reduce(t8, v, cg::plus<int>());
  out[threadIdx.x] = v;
}

//: cg_scan: threads=64, expect=[1+i%16 for i in range(64)]
KERNEL(cg_scan) {
  auto b = cg::this_thread_block();
  auto t = cg::tiled_partition<16>(b);
  out[threadIdx.x] = cg::inclusive_scan(t, 1);
}

//: cg_coalesced: threads=32, expect=[int(i%3==0) for i in range(32)]
KERNEL(cg_coalesced) {
  int t = threadIdx.x;
  out[t] = 0;
  if (in[t] % 3 == 0) {
    auto g = cg::coalesced_threads();
    out[t] = g.size() > 0 && g.thread_rank() < g.size();
  }
}

//: aggregated: threads=128, expect=[64]
__device__ int c2;
__device__ int agg(int* p) {
  auto g = cg::coalesced_threads();
  int r;
  if (g.thread_rank() == 0) r = atomicAdd(p, g.size());
  r = g.shfl(r, 0) + g.thread_rank();
  return r;
}
KERNEL(aggregated) {
  int t = threadIdx.x;
  if (in[t] % 2) agg(&c2);
  __syncthreads();
  if (t == 0) out[0] = *(volatile int*)&c2;
}

//: labeled: threads=64, expect=[8]*64
KERNEL(labeled) {
  auto w = cg::tiled_partition<32>(cg::this_thread_block());
  auto g = cg::labeled_partition(w, in[threadIdx.x] % 4);
  out[threadIdx.x] = g.size();
}

//: match_any: threads=32, expect=[7 if i%5<2 else 6 for i in range(32)]
KERNEL(match_any) {
  int key = in[threadIdx.x] % 5;
  unsigned m = __match_any_sync(~0u, key);
  int r = __reduce_add_sync(m, 1);
  out[threadIdx.x] = r;
}

//: barrier_tokens: threads=128, expect=[129-i for i in range(128)], plants=["race", "mbarrier",
//: "arrivals|deadlock"]
KERNEL(barrier_tokens) {
  __shared__ cuda::barrier<cuda::thread_scope_block> b;
  __shared__ int s[128];
  int t = threadIdx.x;
  if (t == 0) init(&b, (plant == 3 ? 129 : 128));
  UNLESS(2) __syncthreads();
  for (int r = 0; r < 3; ++r) {
    s[t] = in[t] + r;
    auto tok = b.arrive();
    b.wait(std::move(tok));
    out[t] = s[127 - t];
    UNLESS(1) b.arrive_and_wait();
  }
}

//: producer_consumer: threads=128, expect=[67-i for i in range(64)], plants=["race", "race"]
KERNEL(producer_consumer) {
  using B = cuda::barrier<cuda::thread_scope_block>;
  __shared__ B bar[4];
  __shared__ int s[2][64];
  auto blk = cg::this_thread_block();
  int t = threadIdx.x;
  if (t < 4) init(bar + t, 128);
  __syncthreads();
  if (t < 64) {
    for (int i = 0; i < 5; ++i) {
      UNLESS(1) bar[i % 2].arrive_and_wait();
      IF(1)(void) bar[i % 2].arrive();
      s[i % 2][t] = in[t] + i;
      (void)bar[2 + i % 2].arrive();
    }
  } else {
    (void)bar[0].arrive();
    (void)bar[1].arrive();
    for (int i = 0; i < 5; ++i) {
      UNLESS(2) bar[2 + i % 2].arrive_and_wait();
      IF(2)(void) bar[2 + i % 2].arrive();
      out[t - 64] = s[i % 2][63 - (t - 64)];
      (void)bar[i % 2].arrive();
    }
  }
}

//: block_copy: threads=128, expect=[127-i for i in range(128)], plants=["race"]
KERNEL(block_copy) {
  __shared__ alignas(16) int s[128];
  __shared__ cuda::barrier<cuda::thread_scope_block> b;
  auto blk = cg::this_thread_block();
  if (threadIdx.x == 0) init(&b, 128);
  __syncthreads();
  cuda::memcpy_async(blk, s, in, cuda::aligned_size_t<16>(512), b);
  UNLESS(1) b.arrive_and_wait();
  IF(1)(void) b.arrive();
  out[threadIdx.x] = s[127 - threadIdx.x];
}

//: two_copies_ahead: threads=128, expect=[127-i+255-i for i in range(128)], plants=["race", "race"]
KERNEL(two_copies_ahead) {
  __shared__ alignas(16) int s[2][128];
  auto p = cuda::make_pipeline();
  int t = threadIdx.x;
  p.producer_acquire();
  cuda::memcpy_async(&s[0][t], &in[t], 4, p);
  p.producer_commit();
  p.producer_acquire();
  cuda::memcpy_async(&s[1][t], &in[t + 128], 4, p);
  p.producer_commit();
  UNLESS(1) cuda::pipeline_consumer_wait_prior<1>(p);
  UNLESS(2) __syncthreads();
  int a = s[0][127 - t];
  p.consumer_release();
  cuda::pipeline_consumer_wait_prior<0>(p);
  __syncthreads();
  out[t] = a + s[1][127 - t];
  p.consumer_release();
}

//: cp_async_intrinsics: threads=128, expect=[127-i for i in range(128)], plants=["race", "race"]
KERNEL(cp_async_intrinsics) {
  __shared__ int s[128];
  int t = threadIdx.x;
  __pipeline_memcpy_async(&s[t], &in[t], 4);
  __pipeline_commit();
  UNLESS(1) __pipeline_wait_prior(0);
  UNLESS(2) __syncthreads();
  out[t] = s[127 - t];
}

//: recursion: threads=64, expect=[[0,1,1,2,3,5,8,13,21,34,55,89][i%12] for i in range(64)]
__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
KERNEL(recursion) { out[threadIdx.x] = fib(in[threadIdx.x] % 12); }

//: quicksort: threads=64, expect=[1]*64
__device__ void qs(int* a, int l, int r) {
  while (l < r) {
    int p = a[(l + r) / 2], i = l, j = r;
    while (i <= j) {
      while (a[i] < p) ++i;
      while (a[j] > p) --j;
      if (i <= j) {
        int x = a[i];
        a[i] = a[j];
        a[j] = x;
        ++i;
        --j;
      }
    }
    qs(a, l, j);
    l = i;
  }
}
KERNEL(quicksort) {
  int a[16];
  for (int i = 0; i < 16; ++i) a[i] = (in[i] * 7 + threadIdx.x * 5) % 31;
  qs(a, 0, 15);
  bool ok = true;
  for (int i = 1; i < 16; ++i) ok &= a[i - 1] <= a[i];
  out[threadIdx.x] = ok;
}

//: virtuals: threads=64, expect=[i+1 if i%2 else 2*i for i in range(64)]
struct S {
  __device__ virtual int f(int x) = 0;
};
struct A : S {
  __device__ int f(int x) override { return x + 1; }
};
struct B : S {
  __device__ int f(int x) override { return x * 2; }
};
KERNEL(virtuals) {
  A a;
  B b;
  S* p = threadIdx.x % 2 ? (S*)&a : (S*)&b;
  out[threadIdx.x] = p->f(in[threadIdx.x]);
}

//: fn_pointers: threads=64, expect=[i*i if i%2 else i+1 for i in range(64)]
__device__ int add1(int x) { return x + 1; }
__device__ int sq(int x) { return x * x; }
__device__ int (*tab[2])(int) = {add1, sq};
KERNEL(fn_pointers) { out[threadIdx.x] = tab[threadIdx.x % 2](in[threadIdx.x]); }

//: heap: threads=64, expect=[i+1 for i in range(64)]
KERNEL(heap) {
  int* p = (int*)malloc(16);
  p[0] = in[threadIdx.x];
  p[1] = p[0] + 1;
  out[threadIdx.x] = p[1];
  free(p);
}

//: int128: threads=64, expect=[ (i*0x123456789abcdef*77)%(i+3)+((i*0x123456789abcdef*77)//(i+3)&0xff) for i
//: in range(64)]
KERNEL(int128) {
  unsigned __int128 a = (unsigned __int128)in[threadIdx.x] * 0x123456789abcdefULL * 77;
  unsigned __int128 b = in[threadIdx.x] + 3;
  out[threadIdx.x] = (int)(a % b) + (int)((a / b) & 0xff);
}

//: padding_struct: threads=64, expect=[3*(63-i)+3 for i in range(64)], plants=["race", "uninitialised"]
struct P {
  char c;
  double d;
  short s;
};
KERNEL(padding_struct) {
  __shared__ P p[64];
  int t = threadIdx.x;
  p[t].c = t;
  p[t].d = t * 2;
  UNLESS(2) p[t].s = 3;
  UNLESS(1) __syncthreads();
  P q = p[63 - t];
  out[t] = q.c + (int)q.d + q.s;
}

//: float4_tail: threads=128, expect=[16*i+6 for i in range(25)], plants=["race", "uninitialised"]
KERNEL(float4_tail) {
  __shared__ __align__(16) int s[128];
  int t = threadIdx.x;
  if (t < 100) s[t] = in[t];
  UNLESS(1) __syncthreads();
  if (t < 32) {
    int4 v = ((int4*)s)[t];
    if (plant == 2 ? 4 * t <= 100 : 4 * t < 100) out[t] = v.x + v.y + v.z + v.w;
  }
}

//: uninit_local: threads=64, expect=list(range(32))
KERNEL(uninit_local) {
  int v;
  if (in[threadIdx.x] < 32) v = in[threadIdx.x];
  if (threadIdx.x < 32) out[threadIdx.x] = v;
}

//: ballot_loop: threads=32, expect=[i%7 for i in range(32)]
KERNEL(ballot_loop) {
  int t = threadIdx.x, v = in[t] % 7, c = 0;
  while (true) {
    unsigned m = __ballot_sync(~0u, v > 0);
    if (!m) break;
    if (v > 0) {
      --v;
      ++c;
    }
  }
  out[t] = c;
}

//: divergent_sync_loop: threads=128, expect=[(lambda j: 6 if j%2 else (12 if j%3 else 0))(i^1) for i in
//: range(128)], plants=["race", "race"]
KERNEL(divergent_sync_loop) {
  __shared__ int s[128];
  int t = threadIdx.x;
  s[t] = 0;
  __syncthreads();
  for (int i = 0; i < 4; ++i) {
    if (t % 2)
      s[t] += i;
    else if (t % 3)
      s[t] += 2 * i;
    UNLESS(1) __syncthreads();
    out[t] = s[t ^ 1];
    UNLESS(2) __syncthreads();
  }
}

//: flag_same_value: threads=128, expect=[1]*128, plants=["race"]
KERNEL(flag_same_value) {
  __shared__ int any;
  if (threadIdx.x == 0) any = 0;
  __syncthreads();
  if (in[threadIdx.x] % 40 == 7) any = 1;
  UNLESS(1) __syncthreads();
  out[threadIdx.x] = any;
}

//: named_barriers: threads=128, expect=[63-i for i in range(64)], plants=["race", "deadlock"]
KERNEL(named_barriers) {
  __shared__ int s[64];
  int t = threadIdx.x;
  if (t < 64) {
    s[t] = in[t];
    UNLESS(2) asm volatile("bar.arrive 1, 128;" ::: "memory");
  } else {
    UNLESS(1) asm volatile("bar.sync 1, 128;" ::: "memory");
    out[t - 64] = s[127 - t];
  }
}

//: grid_last_block: threads=32, grid=8, expect=[255*128], plants=["race"]
__device__ unsigned cnt;
__device__ int part[8];
KERNEL(grid_last_block) {
  __shared__ bool last;
  int t = threadIdx.x;
  int v = in[blockIdx.x * 32 + t];
  v = __reduce_add_sync(~0u, v);
  if (t == 0) {
    part[blockIdx.x] = v;
    __threadfence();
    last = atomicAdd(&cnt, 1) == gridDim.x - 1;
  }
  UNLESS(1) __syncthreads();
  if (last && t == 0) {
    int s = 0;
    for (int i = 0; i < 8; ++i) s += ((volatile int*)part)[i];
    out[0] = s;
  }
}

//: cluster_dsmem: kept=True, threads=32, grid=2, cluster=2, expect=[63-i for i in range(32)]+[31-i for i in
//: range(32)], plants=["race", "exit"]
KERNEL(cluster_dsmem, __cluster_dims__(2, 1, 1)) {
  __shared__ int s[32];
  auto c = cg::this_cluster();
  int t = threadIdx.x;
  s[t] = in[c.block_rank() * 32 + t];
  UNLESS(1) c.sync();
  int* p = c.map_shared_rank(s, 1 - c.block_rank());
  out[blockIdx.x * 32 + t] = p[31 - t];
  UNLESS(2) c.sync();
}

//: any_all: threads=128, expect=[7]*128
KERNEL(any_all) {
  int t = threadIdx.x;
  out[t] = __syncthreads_or(in[t] == 5) + 2 * __syncthreads_and(in[t] < 128) +
           4 * (__syncthreads_count(in[t] < 64) == 64);
}

//: half_products: threads=32, expect=[i*i+i+(1 if i*i+i>3 else 0) for i in range(32)]
KERNEL(half_products) {
  __half2 h = __floats2half2_rn(in[threadIdx.x], 1.5f);
  h = __hfma2(h, h, h);
  out[threadIdx.x] = (int)__low2float(h) + __hgt(__low2half(h), __float2half(3.f));
}

//: warp_specialised: threads=64, expect=[6*496+15*32], plants=["race"]
KERNEL(warp_specialised) {
  __shared__ int q[2][32];
  __shared__ cuda::barrier<cuda::thread_scope_block> full[2], empty[2];
  int t = threadIdx.x;
  if (t < 2) {
    init(&full[t], 33);
    init(&empty[t], 33);
  }
  __syncthreads();
  if (t < 32) {
    for (int i = 0; i < 6; ++i) {
      if (i >= 2) {
        if (t == 0) (void)0;
      }
      {
        auto tok = empty[i % 2].arrive();
        empty[i % 2].wait(std::move(tok));
      }
      q[i % 2][t] = in[t] + i;
      (void)full[i % 2].arrive();
    }
  } else if (t == 32) {
    (void)empty[0].arrive();
    (void)empty[1].arrive();
    int s = 0;
    for (int i = 0; i < 6; ++i) {
      UNLESS(1) full[i % 2].arrive_and_wait();
      IF(1)(void) full[i % 2].arrive();
      for (int j = 0; j < 32; ++j) s += q[i % 2][j];
      (void)empty[i % 2].arrive();
    }
    out[0] = s;
  }
}

//: lane0_waits: threads=64, expect=[63-i for i in range(32)], plants=["race"]
KERNEL(lane0_waits) {
  __shared__ cuda::barrier<cuda::thread_scope_block> b;
  __shared__ int s[32];
  int t = threadIdx.x;
  if (t == 0) init(&b, 32);
  __syncthreads();
  if (t >= 32) {
    s[t - 32] = in[t];
    (void)b.arrive();
  } else {
    if (t == 0) {
      b.wait_parity(false);
    }
    UNLESS(1) __syncwarp();
    out[t] = s[31 - t];
  }
}

//: lane0_arrives: threads=64, expect=[63-i for i in range(32)], plants=["race"]
KERNEL(lane0_arrives) {
  __shared__ cuda::barrier<cuda::thread_scope_block> b;
  __shared__ int s[32];
  int t = threadIdx.x;
  if (t == 0) init(&b, 1);
  __syncthreads();
  if (t >= 32) {
    s[t - 32] = in[t];
    UNLESS(1) __syncwarp();
    if (t == 32) (void)b.arrive();
  } else {
    b.wait_parity(false);
    out[t] = s[31 - t];
  }
}

//: identity_by_wmma: threads=32, expect=[i%7 for i in range(256)]
KERNEL(identity_by_wmma) {
  __shared__ half a[256], b[256];
  __shared__ float c[256];
  int t = threadIdx.x;
  for (int i = t; i < 256; i += 32) {
    a[i] = __int2half_rn(i % 7);
    b[i] = __int2half_rn(i / 16 == i % 16);
  }
  __syncwarp();
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.f);
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = t; i < 256; i += 32) out[i] = (int)c[i];
}

//: bitonic: threads=128, expect=list(range(128)), plants=["race"]
KERNEL(bitonic) {
  __shared__ int s[128];
  int t = threadIdx.x;
  s[t] = (in[t] * 37) % 128;
  __syncthreads();
  for (int k = 2; k <= 128; k <<= 1)
    for (int j = k >> 1; j > 0; j >>= 1) {
      int x = t ^ j;
      if (x > t) {
        bool up = (t & k) == 0;
        if ((s[t] > s[x]) == up) {
          int v = s[t];
          s[t] = s[x];
          s[x] = v;
        }
      }
      UNLESS(1) __syncthreads();
    }
  out[t] = s[t];
}

//: warp_queue_volatile: threads=32, expect=[ (i+i+8+i+16+i+24) if i<8 else 0 for i in range(32)]
KERNEL(warp_queue_volatile) {
  volatile __shared__ int s[32];
  int t = threadIdx.x;
  s[t] = in[t];
  __syncwarp();
  if (t < 16) {
    s[t] += s[t + 16];
  }
  __syncwarp();
  if (t < 8) s[t] += s[t + 8];
  __syncwarp();
  out[t] = t < 8 ? s[t] : 0;
}

//: divergent_syncthreads: threads=128, expect=[127-i for i in range(128)], plants=["divergence"]
KERNEL(divergent_syncthreads) {
  __shared__ int s[128];
  int t = threadIdx.x;
  s[t] = in[t];
  if (t < (plant == 1 ? 16 : 64)) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  out[t] = s[127 - t];
}

//: radix_pass: threads=128, expect=[i for d in range(4) for i in range(128) if i*5 % 4 == d],
//: plants=["race|uninitialised", "race"]
KERNEL(radix_pass) {
  __shared__ int c[4][128], base[4];
  int t = threadIdx.x, d = (in[t] * 5) % 4;
  for (int k = 0; k < 4; ++k) c[k][t] = (k == d);
  __syncthreads();
  for (int o = 1; o < 128; o <<= 1) {
    int v[4];
    for (int k = 0; k < 4; ++k) v[k] = t >= o ? c[k][t - o] : 0;
    UNLESS(2) __syncthreads();
    for (int k = 0; k < 4; ++k) c[k][t] += v[k];
    __syncthreads();
  }
  if (t == 0) {
    int s = 0;
    for (int k = 0; k < 4; ++k) {
      base[k] = s;
      s += c[k][127];
    }
  }
  UNLESS(1) __syncthreads();
  out[base[d] + c[d][t] - 1] = in[t];
}

//: matmul_tiled: threads=256, expect=[sum((y*32 + k) % 256 * ((k*16 + x) % 256) for k in range(32)) for y in
//: range(16) for x in range(16)], plants=["race", "race"]
KERNEL(matmul_tiled) {
  __shared__ int a[16][16], b[16][16];
  int x = threadIdx.x % 16, y = threadIdx.x / 16, s = 0;
  for (int k = 0; k < 2; ++k) {
    a[y][x] = in[(y * 32 + k * 16 + x) % 256];
    b[y][x] = in[((k * 16 + y) * 16 + x) % 256];
    UNLESS(2) __syncthreads();
    for (int i = 0; i < 16; ++i) s += a[y][i] * b[i][x];
    UNLESS(1) __syncthreads();
  }
  out[y * 16 + x] = s;
}

//: double_buffer: threads=64, expect=[4*(63-i)+64*6 for i in range(64)], plants=["race"]
KERNEL(double_buffer) {
  __shared__ int s[2][64];
  int t = threadIdx.x, acc = 0;
  s[0][t] = in[t];
  for (int k = 0; k < 4; ++k) {
    UNLESS(1) __syncthreads();
    if (k < 3) s[(k + 1) % 2][t] = in[t + 64 * (k + 1)];
    acc += s[k % 2][63 - t];
  }
  out[t] = acc;
}

//: lookback: threads=32, grid=8, expect=[sum(range(32*i)) for i in range(8)]
__device__ volatile int st[8];
__device__ volatile int vals[8];
KERNEL(lookback) {
  int b = blockIdx.x, t = threadIdx.x;
  int v = __reduce_add_sync(~0u, in[b * 32 + t]);
  if (t == 0) {
    int p = 0;
    if (b > 0) {
      while (st[b - 1] == 0)
        ;
      __threadfence();
      p = vals[b - 1];
    }
    vals[b] = p + v;
    __threadfence();
    st[b] = 1;
    out[b] = p;
  }
}

//: ticket: threads=64, expect=[2016], plants=["race"]
KERNEL(ticket) {
  __shared__ unsigned next, now;
  __shared__ int sum;
  if (threadIdx.x == 0) {
    next = now = 0;
    sum = 0;
  }
  __syncthreads();
  unsigned my = atomicAdd(&next, 1);
  UNLESS(1) while (atomicAdd(&now, 0) != my);
  sum += in[threadIdx.x];
  __threadfence_block();
  atomicAdd(&now, 1);
  __syncthreads();
  if (threadIdx.x == 0) out[0] = sum;
}

//: cuda_atomic_ref: threads=64, expect=[7], plants=["race"]
KERNEL(cuda_atomic_ref) {
  __shared__ int f, d;
  int t = threadIdx.x;
  if (t == 0) f = 0;
  __syncthreads();
  cuda::atomic_ref<int, cuda::thread_scope_block> a(f);
  if (t == 32) {
    d = in[7];
    a.store(1, cuda::memory_order_release);
  }
  if (t == 0) {
    UNLESS(1) while (a.load(cuda::memory_order_acquire) == 0);
    out[0] = d;
  }
}

//: semaphore_grid: threads=32, grid=6, expect=[((((0*3+1)*3+2)*3+3)*3+4)*3+5]
__device__ int turn;
KERNEL(semaphore_grid) {
  if (threadIdx.x == 0) {
    while (atomicAdd(&turn, 0) != blockIdx.x) __nanosleep(20);
    out[0] = out[0] * 3 + blockIdx.x;
    __threadfence();
    atomicAdd(&turn, 1);
  }
}

//: cg_grid_like: threads=32, grid=4, expect=[i%32 for i in range(128)]
__device__ unsigned arr;
KERNEL(cg_grid_like) {
  out[blockIdx.x * 32 + threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(&arr, 1);
    while (*(volatile unsigned*)&arr < gridDim.x)
      ;
    __threadfence();
  }
  __syncthreads();
  int o = (blockIdx.x + 1) % gridDim.x;
  int v = ((volatile int*)out)[o * 32 + threadIdx.x];
  if (v < 0) out[0] = v;
}

//: early_exit_loop: threads=32, expect=tripled()
KERNEL(early_exit_loop) {
  int t = threadIdx.x, v = in[t], c = 0;
  for (int i = 0; i < 64; ++i) {
    if (v % 7 == 3) break;
    v = v * 3 + 1;
    ++c;
    __syncwarp(__activemask());
  }
  out[t] = c < 64;
}

//: switch_div: threads=128, expect=[(lambda j:[1,j,j*j,9 if j>64 else -1,-1][j%5])((i+1)%128) for i in
//: range(128)], plants=["race", "uninitialised"]
KERNEL(switch_div) {
  __shared__ int s[128];
  int t = threadIdx.x;
  switch (in[t] % 5) {
    case 0:
      s[t] = 1;
      break;
    case 1:
      s[t] = t;
      break;
    case 2:
      s[t] = t * t;
      break;
    case 3:
      if (t > 64) {
        s[t] = 9;
        break;
      }
    default:
      UNLESS(2) s[t] = -1;
  }
  UNLESS(1) __syncthreads();
  out[t] = s[(t + 1) % 128];
}

//: goto_irreducible: threads=32, expect=[1]*32
KERNEL(goto_irreducible) {
  int t = threadIdx.x, v = in[t], c = 0;
  if (v % 2) goto b;
a:
  v -= 3;
  ++c;
b:
  v -= 1;
  ++c;
  if (v > 0 && c < 40) goto a;
  out[t] = __ballot_sync(~0u, 1) == ~0u;
}

//: shfl_up_scan_seg: threads=64, expect=[i%8+1 for i in range(64)]
KERNEL(shfl_up_scan_seg) {
  int t = threadIdx.x, l = t % 8, v = 1;
  for (int d = 1; d < 8; d <<= 1) {
    int u = __shfl_up_sync(~0u, v, d, 8);
    if (l >= d) v += u;
  }
  out[t] = v;
}

//: shfl_var_src: threads=32, expect=[2*((i*7)%32) for i in range(32)]
KERNEL(shfl_var_src) {
  int t = threadIdx.x;
  out[t] = __shfl_sync(~0u, in[t] * 2, (t * 7) % 32);
}

//: partial_warp_block: threads=50, expect=[49-i for i in range(50)], plants=["race"]
KERNEL(partial_warp_block) {
  __shared__ int s[50];
  int t = threadIdx.x;
  s[t] = in[t];
  UNLESS(1) __syncthreads();
  out[t] = s[49 - t] + __popc(__activemask()) * 0;
}

//: block3d: threads=[4,4,4], expect=[i+i//16 for i in range(64)]
KERNEL(block3d) {
  int t = threadIdx.x + 4 * (threadIdx.y + 4 * threadIdx.z);
  out[t] = in[t] + threadIdx.z;
}

//: byte_shared: threads=128, expect=[127-i for i in range(128)], plants=["race"]
KERNEL(byte_shared) {
  __shared__ unsigned char s[128];
  int t = threadIdx.x;
  s[t] = in[t];
  UNLESS(1) __syncthreads();
  out[t] = s[127 - t];
}

//: short_pairs: threads=128, expect=[4*i+1 for i in range(64)], plants=["race"]
KERNEL(short_pairs) {
  __shared__ short2 s[64];
  int t = threadIdx.x;
  ((short*)s)[t] = in[t];
  UNLESS(1) __syncthreads();
  if (t < 64) out[t] = s[t].x + s[t].y;
}

//: dynamic_smem: threads=128, dynamic=512, expect=[127-i for i in range(128)], plants=["race", "out of
//: bounds"]
KERNEL(dynamic_smem) {
  extern __shared__ int s[];
  int t = threadIdx.x;
  s[plant == 2 ? 2 * t : t] = in[t];
  UNLESS(1) __syncthreads();
  out[t] = s[127 - t];
}

//: const_table: threads=64, expect=[[3,1,4,1][i%4] for i in range(64)]
__constant__ int digits[4] = {3, 1, 4, 1};
KERNEL(const_table) { out[threadIdx.x] = digits[in[threadIdx.x] % 4]; }

//: local_array: threads=32, expect=[sum(i*((j*i)%8) for j in range(8)) for i in range(32)], plants=["out of
//: bounds"]
KERNEL(local_array) {
  int a[8];
  int t = threadIdx.x;
  for (int i = 0; i < 8; ++i) a[i] = t * i;
  int s = 0;
  for (int i = 0; i < 8; ++i) s += a[(i * in[t]) % (plant == 1 ? 8000 : 8)];
  out[t] = s;
}

//: double_math: threads=32, expect=[int(i**.5*10+i*i) for i in range(32)]
KERNEL(double_math) {
  double x = in[threadIdx.x];
  out[threadIdx.x] = (int)(sqrt(x) * 10 + sin(x) * 0 + pow(x, 2));
}

//: memcpy_struct: threads=32, expect=[11*i for i in range(32)]
struct Q {
  int a;
  char pad;
  long long b;
};
__device__ __noinline__ Q make(int t) {
  Q q;
  q.a = t;
  q.b = t * 10;
  return q;
}
KERNEL(memcpy_struct) {
  Q q = make(in[threadIdx.x]);
  Q r = q;
  out[threadIdx.x] = r.a + (int)r.b;
}

//: optional_value: threads=32, expect=[i if i%2 else -1 for i in range(32)]
__device__ __noinline__ bool get(int t, int* v) {
  if (t % 2) {
    *v = t;
    return true;
  }
  return false;
}
KERNEL(optional_value) {
  int v;
  int t = threadIdx.x;
  bool h = get(in[t], &v);
  out[t] = h ? v : -1;
}

//: warp_vote_exit: threads=32, expect=[8]*32
KERNEL(warp_vote_exit) {
  int t = threadIdx.x;
  for (int i = 0;; ++i) {
    bool done = in[t] <= i * 4;
    if (__all_sync(~0u, done)) {
      out[t] = i;
      return;
    }
  }
}

//: producer_lane: threads=32, expect=[33-i for i in range(32)], plants=["race", "race"]
KERNEL(producer_lane) {
  __shared__ int s[32];
  int t = threadIdx.x;
  for (int r = 0; r < 3; ++r) {
    if (t == r)
      for (int i = 0; i < 32; ++i) s[i] = in[i] + r;
    UNLESS(2) __syncwarp();
    out[t] = s[31 - t];
    UNLESS(1) __syncwarp();
  }
}

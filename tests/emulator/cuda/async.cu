// These kernels use copies and tensor cores that run in parallel with the threads: cuda::barrier,
// cuda::pipeline, cp.async, bulk copies, and wgmma.
#include "kernels.h"

using Tokens = Barrier::arrival_token;

//: ring_of_copies: threads=64, expect=[sum(64*k + 63 - i for k in range(8)) for i in range(64)],
//: plants=["race", "race"]
KERNEL(ring_of_copies) {
  __shared__ alignas(16) int s[2][64];
  __shared__ Barrier full[2], empty[2];
  const int t = threadIdx.x;
  if (t < 2) init(&full[t], 64), init(&empty[t], 64);
  __syncthreads();
  auto copy = [&](int k) { cuda::memcpy_async(&s[k % 2][t], &in[64 * k + t], sizeof(int), full[k % 2]); };
  copy(0), copy(1);
  int sum = 0;
  for (int k = 0; k < 8; ++k) {
    UNLESS(1) full[k % 2].arrive_and_wait();
    IF(1)(void) full[k % 2].arrive();
    sum += s[k % 2][63 - t];
    UNLESS(2) empty[k % 2].arrive_and_wait();
    IF(2)(void) empty[k % 2].arrive();
    if (k + 2 < 8) copy(k + 2);
  }
  out[t] = sum;
}

//: block_pipeline: threads=64, expect=[sum(64*k + 63 - i for k in range(6)) for i in range(64)],
//: plants=["race", "race"]
KERNEL(block_pipeline) {
  __shared__ alignas(16) int s[2][64];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  int sum = 0;
  auto copy = [&](int k) {
    pipe.producer_acquire();
    cuda::memcpy_async(block, s[plant == 2 ? 0 : k % 2], in + 64 * k, cuda::aligned_size_t<16>(256), pipe);
    pipe.producer_commit();
  };
  copy(0), copy(1);
  for (int k = 0; k < 6; ++k) {
    UNLESS(1) pipe.consumer_wait();
    sum += s[plant == 2 ? 0 : k % 2][63 - threadIdx.x];
    pipe.consumer_release();
    if (k + 2 < 6) copy(k + 2);
  }
  out[threadIdx.x] = sum;
}

//: pipeline_of_roles: threads=128, expect=[sum(64*k + 63 - i for k in range(6)) for i in range(64)],
//: plants=["race"]
KERNEL(pipeline_of_roles) {
  __shared__ alignas(16) int s[2][64];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  const auto role = threadIdx.x < 64 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
  auto pipe = cuda::make_pipeline(block, &state, role);
  if (role == cuda::pipeline_role::producer) {
    for (int k = 0; k < 6; ++k) {
      pipe.producer_acquire();
      cuda::memcpy_async(&s[k % 2][threadIdx.x], &in[64 * k + threadIdx.x], sizeof(int), pipe);
      pipe.producer_commit();
    }
  } else {
    const int t = threadIdx.x - 64;
    int sum = 0;
    for (int k = 0; k < 6; ++k) {
      UNLESS(1) pipe.consumer_wait();
      sum += s[k % 2][63 - t];
      pipe.consumer_release();
    }
    out[t] = sum;
  }
}

//: bulk_by_barrier: threads=128, expect=[511 - i for i in range(512)], plants=["bytes|deadlock", "race"]
KERNEL(bulk_by_barrier) {
  __shared__ alignas(128) int s[512];
  __shared__ Barrier barrier;
  if (threadIdx.x == 0) {
    init(&barrier, blockDim.x);
    ptx::fence_proxy_async(ptx::space_shared);
  }
  __syncthreads();
  Tokens token;
  if (threadIdx.x == 0) {
    cuda::device::memcpy_async_tx(s, in, cuda::aligned_size_t<16>(sizeof(s)), barrier);
    token = cuda::device::barrier_arrive_tx(barrier, 1, plant == 1 ? sizeof(s) + 16 : sizeof(s));
  } else {
    token = barrier.arrive();
  }
  UNLESS(2) barrier.wait(std::move(token));
  for (int i = threadIdx.x; i < 512; i += 128) out[i] = s[511 - i];
}

//: bulk_out: kept=True, threads=64, expect=[3 * (i % 64) + i // 64 for i in range(256)],
//: plants=["fence.proxy", "race", "race|exit", "race|fence.proxy"]
KERNEL(bulk_out) {
  __shared__ alignas(16) int s[64];
  const int t = threadIdx.x;
  for (int k = 0; k < 4; ++k) {
    s[t] = 3 * in[t] + k;
    UNLESS(1) ptx::fence_proxy_async(ptx::space_shared);
    UNLESS(4) __syncthreads();
    if (t == 0) {
      ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out + 64 * k, s, 256u);
      ptx::cp_async_bulk_commit_group();
      if (plant != 2 && plant != 3 || (plant == 3 && k < 3))
        ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    }
    __syncthreads();
  }
}

//: bulk_reduce: threads=32, grid=4, expect=[4*i + 6 for i in range(32)], plants=["fence.proxy"]
KERNEL(bulk_reduce) {
  __shared__ alignas(16) int s[32];
  s[threadIdx.x] = in[threadIdx.x] + blockIdx.x;
  UNLESS(1) ptx::fence_proxy_async(ptx::space_shared);
  __syncwarp();
  if (threadIdx.x == 0) {
    ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, out, s, 128u);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
  }
}

//: groups_of_cp_async: threads=64, expect=[sum((256*k + 4*(63 - i) + 3 if k < 3 else 0) for k in range(4))
//: for i in range(64)], plants=["race", "race"]
KERNEL(groups_of_cp_async) {
  __shared__ int4 s[3][64];
  const int t = threadIdx.x;
  auto copy = [&](int k) {
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&s[k % 3][t]));
    const int bytes = k < 3 ? 16 : 0;  // copies after the last stage store zeros
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(in + 256 * k + 4 * t),
                 "r"(bytes)
                 : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  copy(0), copy(1);
  int sum = 0;
  for (int k = 0; k < 4; ++k) {
    if (k < 3)
      asm volatile("cp.async.wait_group %0;" ::"n"(plant == 1 ? 2 : 1) : "memory");
    else
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    sum += s[k % 3][63 - t].w;
    if (k + 2 < 4) copy(plant == 2 ? k + 3 : k + 2);
    IF(2) if (k == 2) copy(3);
  }
  out[t] = sum;
}

//: parities: kept=True, threads=64, expect=[4 * (i % 32) + 6 for i in range(32)], plants=["race|deadlock",
//: "misuse|init", "arrivals|phase|race|deadlock"]
KERNEL(parities) {
  __shared__ uint64_t bar[2];
  __shared__ int slot[32];
  const int t = threadIdx.x, lane = t % 32;
  if (t == 0) ptx::mbarrier_init(&bar[0], 32), ptx::mbarrier_init(&bar[1], plant == 3 ? 16 : 32);
  UNLESS(2) __syncthreads();
  int sum = 0;
  for (int k = 0; k < 4; ++k) {
    if (t < 32) {
      if (k > 0)
        while (!ptx::mbarrier_try_wait_parity(&bar[1], (k - 1) % 2))
          ;
      slot[31 - lane] = in[31 - lane] + k;
      ptx::mbarrier_arrive(&bar[0]);
    } else {
      while (!ptx::mbarrier_try_wait_parity(&bar[0], plant == 1 ? (k + 1) % 2 : k % 2))
        ;
      sum += slot[lane];
      ptx::mbarrier_arrive(&bar[1]);
    }
  }
  if (t >= 32) out[lane] = sum;
}

//: copies_arrive: threads=64, expect=[63 - i for i in range(64)], plants=["deadlock", "arrivals|race"]
KERNEL(copies_arrive) {
  __shared__ uint64_t bar;
  __shared__ int s[64];
  const int t = threadIdx.x;
  if (t == 0) ptx::mbarrier_init(&bar, plant == 1 ? 65 : plant == 2 ? 32 : 64);
  __syncthreads();
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&s[t])),
                 at = static_cast<unsigned>(__cvta_generic_to_shared(&bar));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(in + t) : "memory");
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(at) : "memory");
  while (!ptx::mbarrier_try_wait_parity(&bar, 0))
    ;
  out[t] = s[63 - t];
}

//: named_turns: threads=64, expect=[sum(2*(31 - i) + k for k in range(4)) for i in range(32)],
//: plants=["race", "deadlock"]
KERNEL(named_turns) {
  __shared__ int slot[32];
  const int t = threadIdx.x, lane = t % 32;
  auto sync = [](int id) { asm volatile("barrier.sync %0, 64;" ::"r"(id) : "memory"); };
  auto arrive = [](int id) { asm volatile("barrier.arrive %0, 64;" ::"r"(id) : "memory"); };
  if (t < 32) {
    for (int k = 0; k < 4; ++k) {
      if (k > 0) sync(2);
      slot[lane] = 2 * in[lane] + k;
      arrive(plant == 2 && k == 3 ? 3 : 1);
    }
  } else {
    int sum = 0;
    for (int k = 0; k < 4; ++k) {
      sync(1);
      if (plant == 1 && k < 3) arrive(2);
      sum += slot[31 - lane];
      if (plant != 1 && k < 3) arrive(2);
    }
    out[lane] = sum;
  }
}

struct Doubled {
  int* value;
  __device__ void operator()() const { *value *= 2; }
};

//: completed_by_function: threads=64, expect=[128]*64, plants=["race"]
KERNEL(completed_by_function) {
  __shared__ int value;
  __shared__ alignas(cuda::barrier<cuda::thread_scope_block, Doubled>) char
      memory[sizeof(cuda::barrier<cuda::thread_scope_block, Doubled>)];
  auto* barrier = reinterpret_cast<cuda::barrier<cuda::thread_scope_block, Doubled>*>(memory);
  if (threadIdx.x == 0) {
    value = 0;
    new (barrier) cuda::barrier<cuda::thread_scope_block, Doubled>(64, Doubled{&value});
  }
  __syncthreads();
  atomicAdd(&value, 1);
  UNLESS(1) barrier->arrive_and_wait();
  IF(1)(void) barrier->arrive();
  out[threadIdx.x] = value;
}

//: latched: kept=True, threads=96, expect=[2*(31 - i) for i in range(32)], plants=["race"]
KERNEL(latched) {
  __shared__ cuda::latch<cuda::thread_scope_block>* latch;
  __shared__ alignas(
      cuda::latch<cuda::thread_scope_block>) char memory[sizeof(cuda::latch<cuda::thread_scope_block>)];
  __shared__ int s[64];
  const int t = threadIdx.x;
  if (t == 0) latch = new (memory) cuda::latch<cuda::thread_scope_block>(64);
  __syncthreads();
  if (t < 64) {
    s[t] = in[t % 32];
    latch->count_down();
  } else {
    UNLESS(1) latch->wait();
    out[t - 64] = s[95 - t] + s[95 - t + 32];
  }
}

//: dropped_out: threads=64, expect=[3*(61 - i) if i < 62 else 0 for i in range(64)], plants=["race"]
KERNEL(dropped_out) {
  __shared__ Barrier barrier;
  __shared__ int s[64];
  const int t = threadIdx.x;
  if (t == 0) init(&barrier, 64);
  __syncthreads();
  if (t >= 62) {
    barrier.arrive_and_drop();
    return;
  }
  barrier.arrive_and_wait();
  int sum = 0;
  for (int k = 0; k < 3; ++k) {
    s[t] = in[t];
    barrier.arrive_and_wait();
    sum += s[61 - t];
    UNLESS(1) barrier.arrive_and_wait();
    IF(1) s[t] = k;
  }
  out[t] = sum;
}

__device__ inline unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

//: product_of_matrices: kept=True, threads=32, expect=[sum((y*16 + k) % 5 * ((x*16 + k) % 3) for k in
//: range(16)) for y in range(16) for x in range(8)], plants=["race", "divergence|undefined|deadlock"]
KERNEL(product_of_matrices) {  // uses ldmatrix and mma.sync
  __shared__ alignas(16) __half a[16][16], b[8][16];
  const int lane = threadIdx.x;
  for (int i = lane; i < 256; i += 32) a[i / 16][i % 16] = __int2half_rn(in[i] % 5);
  for (int i = lane; i < 128; i += 32) b[i / 16][i % 16] = __int2half_rn(in[i] % 3);
  UNLESS(1) __syncwarp();
  unsigned fa[4], fb[2];
  float d[4] = {0, 0, 0, 0};
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
               : "r"(shared_address(&a[lane % 16][lane / 16 * 8])));
  if (plant != 2 || lane < 16)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(fb[0]), "=r"(fb[1])
                 : "r"(shared_address(&b[lane % 8][lane / 8 % 2 * 8])));
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, "
      "%1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
  for (int i = 0; i < 4; ++i) out[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = static_cast<int>(d[i]);
}

//: stored_matrices: kept=True, threads=32, expect=[i % 8 + 8 * (i // 8) for i in range(64)], plants=["race"]
KERNEL(stored_matrices) {  // uses stmatrix
  __shared__ alignas(16) __half s[8][8];
  const int lane = threadIdx.x;
  const __half2 pair = __floats2half2_rn(in[2 * lane], in[2 * lane + 1]);
  const unsigned bits = *reinterpret_cast<const unsigned*>(&pair);
  asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(shared_address(s[lane % 8])),
               "r"(bits)
               : "memory");
  UNLESS(1) __syncwarp();
  for (int i = lane; i < 64; i += 32) out[i] = __half2int_rn(s[i % 64 / 8][i % 8]);
}

//: warpgroup_product: kept=True, optimised=True, threads=128, expect=[sum((m + k) % 5 * ((n + k) % 3) for k
//: in range(16)) for m in range(64) for n in range(8)], plants=["fence.proxy", "wgmma in flight",
//: "wgmma.fence", "race|fence.proxy", "race|wgmma in flight"]
KERNEL(warpgroup_product) {
  __shared__ alignas(128) __half a[64 * 16], b[8 * 16];
  const int t = threadIdx.x;
  // Without a swizzle, each block of 8 x 8 elements is contiguous. The blocks of A and of B are ordered by
  // rows, then by k.
  for (int i = t; i < 64 * 16; i += 128) {
    const int m = i / 16, k = i % 16;
    a[(m / 8 * 2 + k / 8) * 64 + m % 8 * 8 + k % 8] = __int2half_rn((m + k) % 5);
  }
  if (t < 128) {
    const int row = t / 16, k = t % 16;
    b[k / 8 * 64 + row * 8 + k % 8] = __int2half_rn((row + k) % 3);
  }
  UNLESS(1) ptx::fence_proxy_async(ptx::space_shared);
  UNLESS(4) __syncthreads();
  auto descriptor = [](const void* p, unsigned leading, unsigned stride) {
    return uint64_t{shared_address(p) >> 4 & 0x3fff} | uint64_t{leading >> 4} << 16 |
           uint64_t{stride >> 4} << 32;
  };
  float d[4] = {0, 0, 0, 0};
  for (float& v : d) asm volatile("" : "+f"(v)::"memory");  // keeps the zeros before the fence
  UNLESS(3) asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "l"(descriptor(a, 128, 256)), "l"(descriptor(b, 128, 256))
               : "memory");
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  UNLESS(2) if (plant != 5) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  IF(5) a[t] = __int2half_rn(1);
  const int row = t / 32 * 16 + t % 32 / 4;
  for (int i = 0; i < 4; ++i) out[(row + i / 2 * 8) * 8 + t % 4 * 2 + i % 2] = static_cast<int>(d[i]);
  IF(5) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

//: remote_stores: kept=True, threads=32, grid=2, cluster=2, expect=[10*(1 - b) + i for b in range(2) for i in
//: range(32)], plants=["race|uninitialised", "bytes"]
KERNEL(remote_stores) {  // st.async stores into the other CTA
  __shared__ uint64_t bar;
  __shared__ int inbox[32];
  auto cluster = cg::this_cluster();
  const int t = threadIdx.x, rank = cluster.block_rank();
  if (t == 0) {
    ptx::mbarrier_init(&bar, 1);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar,
                                   plant == 2 ? 132u : 128u);
  }
  cluster.sync();
  ptx::st_async(cluster.map_shared_rank(inbox, rank ^ 1) + t, 10 * rank + in[t],
                cluster.map_shared_rank(&bar, rank ^ 1));
  UNLESS(1) while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &bar, 0));
  out[rank * 32 + t] = inbox[t];
  IF(1) while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &bar, 0));
  cluster.sync();
}

//: peer_by_bulk: kept=True, threads=64, grid=2, cluster=2, expect=[100*(1 - b) + 3*i for b in range(2) for i
//: in range(64)], plants=["fence.proxy", "race|uninitialised", "exit"]
KERNEL(peer_by_bulk) {  // a bulk copy goes from a CTA's shared memory to the other CTA's
  __shared__ alignas(16) int mine[64];
  __shared__ alignas(16) int inbox[64];
  __shared__ uint64_t bar;
  auto cluster = cg::this_cluster();
  const int t = threadIdx.x, rank = cluster.block_rank();
  if (t == 0) {
    ptx::mbarrier_init(&bar, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, 256u);
  }
  mine[t] = 100 * rank + 3 * in[t];
  UNLESS(1) ptx::fence_proxy_async(ptx::space_shared);
  cluster.sync();
  if (t == 0)
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_shared, cluster.map_shared_rank(inbox, rank ^ 1), mine,
                       256u, cluster.map_shared_rank(&bar, rank ^ 1));
  UNLESS(2) while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &bar, 0));
  out[rank * 64 + t] = inbox[t];
  IF(2) while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &bar, 0));
  UNLESS(3) cluster.sync();
}

//: multicast_bulk: kept=True, threads=32, grid=2, cluster=2, expect=[31 - i for i in range(32)]*2,
//: plants=["bytes", "race|uninitialised|init|misuse"]
KERNEL(multicast_bulk) {
  __shared__ alignas(16) int s[32];
  __shared__ uint64_t bar;
  auto cluster = cg::this_cluster();
  const int t = threadIdx.x;
  if (t == 0) {
    ptx::mbarrier_init(&bar, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar,
                                   plant == 1 && cluster.block_rank() ? 64u : 128u);
  }
  UNLESS(2) cluster.sync();
  if (cluster.block_rank() == 0 && t == 0)
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s, in, 128u, &bar, static_cast<uint16_t>(3));
  while (!ptx::mbarrier_try_wait_parity(&bar, 0))
    ;
  out[cluster.block_rank() * 32 + t] = s[31 - t];
  cluster.sync();
}

//: remote_arrivals: kept=True, threads=32, grid=2, cluster=2, expect=[0]*32 + [2*i for i in range(32)],
//: plants=["race|uninitialised|fence.proxy", "deadlock"]
KERNEL(remote_arrivals) {  // the first CTA writes into the second and arrives at its barrier
  __shared__ int inbox[32];
  __shared__ uint64_t bar;
  auto cluster = cg::this_cluster();
  const int t = threadIdx.x, rank = cluster.block_rank();
  if (t == 0) ptx::mbarrier_init(&bar, plant == 2 ? 33 : 32);
  cluster.sync();
  if (rank == 0) {
    cluster.map_shared_rank(inbox, 1)[t] = 2 * in[t];
    ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cluster, ptx::space_cluster,
                         cluster.map_shared_rank(&bar, 1));
  } else {
    UNLESS(1) while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &bar, 0));
    out[32 + t] = inbox[t];
  }
  cluster.sync();
}

//: registers_of_roles: kept=True, threads=256, expect=[sum(127 - i + k for k in range(3)) for i in
//: range(128)], plants=["race", "setmaxnreg"]
KERNEL(registers_of_roles, __launch_bounds__(256, 1)) {
  __shared__ int s[128];
  __shared__ Barrier full, empty;
  const int t = threadIdx.x;
  if (t == 0) init(&full, 256), init(&empty, 256);
  __syncthreads();
  if (t < 128) {
    if (plant != 2 || t >= 32) asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    for (int k = 0; k < 3; ++k) {
      s[t] = in[t] + k;
      (void)full.arrive();
      UNLESS(1) empty.arrive_and_wait();
      IF(1)(void) empty.arrive();
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    int sum = 0;
    for (int k = 0; k < 3; ++k) {
      full.arrive_and_wait();
      sum += s[255 - t];
      (void)empty.arrive();
    }
    out[t - 128] = sum;
  }
}

// These kernels use cuda::ptx functions, so that nvcc compiles them to PTX with barriers, bulk copies, tensor
// copies and clusters.
#include <cstdint>
#include <cuda/ptx>

namespace ptx = cuda::ptx;

// A ring of bulk copies, with a producer warp and consumers that add up the data that it loads.
template <int Stages, int Bytes>
__global__ void __launch_bounds__(160) ring(float* out, const float* in, int steps) {
  __shared__ alignas(128) float tile[Stages][Bytes / 4];
  __shared__ uint64_t full[Stages], empty[Stages];
  if (threadIdx.x == 0) {
    for (int s = 0; s < Stages; ++s) {
      ptx::mbarrier_init(&full[s], 1);
      ptx::mbarrier_init(&empty[s], 128);
    }
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::fence_proxy_async(ptx::space_shared);
  }
  __syncthreads();
  int s = 0;
  uint32_t parity = 0;
  if (threadIdx.x >= 128) {
    if (threadIdx.x == 128)
      for (int i = 0; i < steps; ++i) {
        while (!ptx::mbarrier_try_wait_parity(&empty[s], parity ^ 1)) {
        }
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full[s], Bytes);
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile[s], in + i * (Bytes / 4), Bytes,
                           &full[s]);
        if (++s == Stages) s = 0, parity ^= 1;
      }
  } else {
    float sum = 0;
    for (int i = 0; i < steps; ++i) {
      while (!ptx::mbarrier_try_wait_parity(&full[s], parity, 1000)) {
      }
      for (int j = threadIdx.x; j < Bytes / 4; j += 128) sum += tile[s][j];
      ptx::mbarrier_arrive(&empty[s]);
      if (++s == Stages) s = 0, parity ^= 1;
    }
    out[blockIdx.x * 128 + threadIdx.x] = sum;
  }
}
template __global__ void ring<2, 1024>(float*, const float*, int);
template __global__ void ring<4, 4096>(float*, const float*, int);
template __global__ void ring<7, 2048>(float*, const float*, int);

struct alignas(64) Map {
  int4 words[8];
};
struct Maps {
  Map in, out;
};

// A box that TMA loads and stores, with or without adding to memory.
template <int Rank, bool Multicast, bool Adds>
__global__ void __launch_bounds__(128) box(const __grid_constant__ Maps maps, int x, int y) {
  __shared__ alignas(1024) float tile[4096];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();
  int32_t at[Rank];
  for (int d = 0; d < Rank; ++d) at[d] = d == 0 ? x : d == 1 ? y : static_cast<int>(blockIdx.z);
  if (threadIdx.x == 0) {
    if constexpr (Multicast)
      ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, &maps.in, at, &full,
                                uint16_t{3});
    else
      ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, &maps.in, at, &full);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, sizeof(tile));
  }
  while (!ptx::mbarrier_try_wait_parity(&full, 0)) {
  }
  for (int i = threadIdx.x; i < 4096; i += 128) tile[i] *= 2;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    if constexpr (Adds)
      ptx::cp_reduce_async_bulk_tensor(ptx::space_global, ptx::space_shared, ptx::op_add, &maps.out, at,
                                       tile);
    else
      ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &maps.out, at, tile);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>{});
  }
}
template __global__ void box<1, false, false>(const __grid_constant__ Maps, int, int);
template __global__ void box<2, false, true>(const __grid_constant__ Maps, int, int);
template __global__ void box<2, true, false>(const __grid_constant__ Maps, int, int);
template __global__ void box<3, true, true>(const __grid_constant__ Maps, int, int);
template __global__ void box<4, false, false>(const __grid_constant__ Maps, int, int);
template __global__ void box<5, false, true>(const __grid_constant__ Maps, int, int);

// Shared memory of the neighbour in a cluster, which is written with and without a barrier that counts the
// writes.
__global__ void __cluster_dims__(2, 1, 1) neighbours(int* out, int value) {
  __shared__ int mine[128];
  __shared__ uint64_t arrived;
  if (threadIdx.x == 0) ptx::mbarrier_init(&arrived, 1);
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  int* theirs = static_cast<int*>(__cluster_map_shared_rank(mine, rank ^ 1));
  uint64_t* barrier = static_cast<uint64_t*>(__cluster_map_shared_rank(&arrived, rank ^ 1));
  if (threadIdx.x == 0)
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cluster, ptx::space_shared, &arrived, 512);
  ptx::st_async(theirs + threadIdx.x, value, barrier);
  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &arrived, 0)) {
  }
  out[blockIdx.x * 128 + threadIdx.x] = mine[threadIdx.x];
  if (threadIdx.x == 0) ptx::red_async(ptx::op_add, theirs, 1, barrier);
  ptx::barrier_cluster_arrive(ptx::sem_release);
  ptx::barrier_cluster_wait(ptx::sem_acquire);
}

// Products of a warpgroup, with descriptors that threads compute.
__global__ void __launch_bounds__(128) products(float* out, int steps) {
  __shared__ alignas(1024) char tiles[4][16384];
  float sums[4] = {};
  for (int i = 0; i < steps; ++i) {
    const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(tiles[i % 4]));
    const uint64_t descriptor =
        (uint64_t{1} << 62) | (uint64_t{64} << 32) | (uint64_t{1} << 16) | ((at >> 4) & 0x3fff);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int k = 0; k < 4; ++k)
      asm volatile(
          "{ .reg .pred p; setp.ne.b32 p, %6, 0;\n"
          "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0; }"
          : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
          : "l"(descriptor + 2 * k), "l"(descriptor + 512 + 2 * k), "r"(i + k));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = sums[i];
}

// Various instructions of one thread.
__global__ void odds(uint32_t* out, uint64_t* global, int4* map) {
  __shared__ uint64_t barrier;
  __shared__ alignas(128) int4 copy[8];
  ptx::mbarrier_init(&barrier, blockDim.x);
  const uint64_t token = ptx::mbarrier_arrive(&barrier);
  ptx::mbarrier_arrive_no_complete(&barrier, 1);
  while (!ptx::mbarrier_test_wait(&barrier, token)) {
  }
  ptx::mbarrier_expect_tx(ptx::sem_relaxed, ptx::scope_cta, ptx::space_shared, &barrier, 16);
  ptx::fence_proxy_alias();
  ptx::fence(ptx::sem_acq_rel, ptx::scope_gpu);
  ptx::fence(ptx::sem_sc, ptx::scope_sys);
  ptx::fence_proxy_tensormap_generic(ptx::sem_release, ptx::scope_gpu);
  ptx::fence_proxy_tensormap_generic(ptx::sem_acquire, ptx::scope_gpu, map, ptx::n32_t<128>{});
  ptx::tensormap_replace_global_address(ptx::space_shared, copy, global);
  ptx::tensormap_cp_fenceproxy(ptx::sem_release, ptx::scope_gpu, map, copy, ptx::n32_t<128>{});
  ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, global,
                            reinterpret_cast<uint64_t*>(copy), 64);
  ptx::cp_async_bulk_commit_group();
  ptx::cp_async_bulk_wait_group(ptx::n32_t<0>{});
  out[0] = ptx::get_sreg_smid() + ptx::get_sreg_laneid() + ptx::get_sreg_cluster_ctarank() +
           ptx::getctarank(ptx::space_cluster, &barrier);
  asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(global[0]));
}

// These kernels use cooperative groups: tiles, coalesced threads, blocks, clusters and the grid.
#include "kernels.h"

//: tiles_of_four: threads=64, expect=[(i // 4)*4 + (i + 1) % 4 for i in range(64)], plants=["race"]
KERNEL(tiles_of_four) {
  __shared__ int s[64];
  auto tile = cg::tiled_partition<4>(cg::this_thread_block());
  int* mine = s + tile.meta_group_rank() * 4;
  mine[tile.thread_rank()] = in[threadIdx.x];
  UNLESS(1) tile.sync();
  out[threadIdx.x] = mine[(tile.thread_rank() + 1) % 4];
}

//: append_coalesced: threads=128, expect=[0]*512 + [sum(1 for i in range(128) if i % 5 < 2)], plants=["race"]
KERNEL(append_coalesced) {
  __shared__ int count, list[128];
  const int t = threadIdx.x;
  if (t == 0) count = 0;
  UNLESS(1) __syncthreads();
  if (in[t] % 5 < 2) {
    auto group = cg::coalesced_threads();
    int at;
    if (group.thread_rank() == 0) at = atomicAdd(&count, group.size());
    at = group.shfl(at, 0) + group.thread_rank();
    list[at] = 1;
  }
  __syncthreads();
  if (t < count && list[t]) atomicAdd(&out[512], 1);
}

//: two_parts: threads=32, expect=[sum(k for k in range(32) if k % 3 == 0) if i % 3 == 0 else sum(k for k in
//: range(32) if k % 3) for i in range(32)]
KERNEL(two_parts) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  auto part = cg::binary_partition(warp, in[threadIdx.x] % 3 == 0);
  out[threadIdx.x] = cg::reduce(part, in[threadIdx.x], cg::plus<int>());
}

//: split_arrival: threads=128, expect=[2*(127 - i) + 1 for i in range(128)], plants=["race"]
KERNEL(split_arrival) {
  __shared__ int s[128];
  auto block = cg::this_thread_block();
  const int t = threadIdx.x;
  s[t] = in[t];
  auto token = block.barrier_arrive();
  const int own = in[t] * 0 + 1;
  UNLESS(1) block.barrier_wait(std::move(token));
  out[t] = 2 * s[127 - t] + own;
}

//: group_copies: threads=64, expect=[255 - i for i in range(256)], plants=["race"]
KERNEL(group_copies) {
  __shared__ alignas(16) int s[256];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, s, in, sizeof(s));
  UNLESS(1) cg::wait(block);
  for (int i = threadIdx.x; i < 256; i += 64) out[i] = s[255 - i];
}

//: group_copies_ahead: kept=True, threads=32, expect=[sum(64*k + 63 - i for k in range(4)) for i in
//: range(64)], plants=["race", "race"]
KERNEL(group_copies_ahead) {
  __shared__ alignas(16) int s[2][64];
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  int sums[2] = {0, 0};
  cg::memcpy_async(warp, s[0], in, sizeof(s[0]));
  for (int k = 0; k < 4; ++k) {
    if (k < 3) {
      cg::memcpy_async(warp, s[(k + 1) % 2], in + 64 * (k + 1), sizeof(s[0]));
      UNLESS(1) cg::wait_prior<1>(warp);
    } else {
      cg::wait(warp);
    }
    for (int j = 0; j < 2; ++j) sums[j] += s[k % 2][63 - j * 32 - warp.thread_rank()];
    UNLESS(2) warp.sync();
  }
  for (int j = 0; j < 2; ++j) out[j * 32 + warp.thread_rank()] = sums[j];
}

//: scans_of_tiles: threads=64, expect=[sum(range(i // 16 * 16, i)) for i in range(64)]
KERNEL(scans_of_tiles) {
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  out[threadIdx.x] = cg::exclusive_scan(tile, in[threadIdx.x], cg::plus<int>());
}

//: tile_of_two_warps: kept=True, threads=128, expect=[64 * (i // 64) + 63 - i % 64 for i in range(128)],
//: plants=["race"]
KERNEL(tile_of_two_warps) {
  __shared__ cg::block_tile_memory<128> memory;
  __shared__ int s[128];
  auto block = cg::this_thread_block(memory);
  auto tile = cg::tiled_partition<64>(block);
  s[threadIdx.x] = in[threadIdx.x];
  UNLESS(1) tile.sync();
  out[threadIdx.x] = s[threadIdx.x / 64 * 64 + 63 - tile.thread_rank()];
}

//: sum_of_two_warps: threads=128, expect=[sum(range(i // 64 * 64, i // 64 * 64 + 64)) for i in range(128)]
KERNEL(sum_of_two_warps) {
  __shared__ cg::block_tile_memory<128> memory;
  auto tile = cg::tiled_partition<64>(cg::this_thread_block(memory));
  out[threadIdx.x] = cg::reduce(tile, in[threadIdx.x], cg::plus<int>());
}

//: invoked_by_one: threads=64, expect=[7 + i // 32 for i in range(64)], plants=["race"]
KERNEL(invoked_by_one) {
  __shared__ int s[2];
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  cg::invoke_one(warp, [&] { s[warp.meta_group_rank()] = 7 + in[warp.meta_group_rank()]; });
  UNLESS(1) warp.sync();
  out[threadIdx.x] = s[warp.meta_group_rank()];
}

//: whole_grid: kept=True, threads=64, grid=4, cooperative=True, expect=[(i + 64) % 256 + 1 for i in
//: range(256)]
KERNEL(whole_grid) {
  auto grid = cg::this_grid();
  const int i = grid.thread_rank();
  out[256 + i] = in[i] + 1;
  grid.sync();
  const int v = out[256 + (i + 64) % 256];
  grid.sync();
  out[256 + i] = 0;
  out[i] = v;
}

//: cluster_histogram: threads=64, grid=4, cluster=4, expect=[64]*16, plants=["race|uninitialised",
//: "race|exit"]
KERNEL(cluster_histogram) {
  __shared__ int bins[4];
  auto cluster = cg::this_cluster();
  const int t = threadIdx.x;
  if (t < 4) bins[t] = 0;
  UNLESS(1) cluster.sync();
  IF(1) __syncthreads();
  for (int k = 0; k < 4; ++k) {
    const int bin = in[blockIdx.x * 256 + k * 64 + t] % 16;
    atomicAdd(cluster.map_shared_rank(bins, bin / 4) + bin % 4, 1);
  }
  UNLESS(2) cluster.sync();
  if (t < 4) out[blockIdx.x * 4 + t] = bins[t];
}

//: cluster_ring: kept=True, threads=32, grid=4, cluster=4, expect=[32*((b + 3) % 4) + i for b in range(4) for
//: i in range(32)], plants=["race|uninitialised", "exit"]
KERNEL(cluster_ring) {
  __shared__ int inbox[32];
  auto cluster = cg::this_cluster();
  const unsigned rank = cluster.block_rank();
  IF(2) inbox[threadIdx.x] = 32 * ((rank + 3) % 4) + threadIdx.x;
  cluster.sync();
  cluster.map_shared_rank(inbox, (rank + 1) % 4)[threadIdx.x] = in[32 * rank + threadIdx.x];
  if constexpr (plant == 2) {
    out[32 * rank + threadIdx.x] = 0;
    return;
  }
  auto token = cluster.barrier_arrive();
  UNLESS(1) cluster.barrier_wait(std::move(token));
  out[32 * rank + threadIdx.x] = inbox[threadIdx.x];
  IF(1) cluster.barrier_wait(std::move(token));
}

//: cluster_broadcast: threads=64, grid=2, cluster=2, expect=[3*(63 - i) for i in range(64)]*2,
//: plants=["exit", "race|uninitialised"]
KERNEL(cluster_broadcast) {
  __shared__ int table[64];
  auto cluster = cg::this_cluster();
  if (cluster.block_rank() == 0) table[threadIdx.x] = 3 * in[threadIdx.x];
  UNLESS(2) cluster.sync();
  const int v = cluster.map_shared_rank(table, 0)[63 - threadIdx.x];
  UNLESS(1) cluster.sync();
  out[blockIdx.x * 64 + threadIdx.x] = v;
}

//: cluster_halo: threads=64, grid=2, cluster=2, expect=[(i + (i + 1) % 128) for i in range(128)],
//: plants=["race"]
KERNEL(cluster_halo) {
  __shared__ int s[64];
  auto cluster = cg::this_cluster();
  const unsigned rank = cluster.block_rank();
  s[threadIdx.x] = in[64 * rank + threadIdx.x];
  cluster.sync();
  const int right = threadIdx.x < 63 ? s[threadIdx.x + 1] : *cluster.map_shared_rank(s, rank ^ 1);
  UNLESS(1) cluster.sync();
  s[threadIdx.x] += right;
  cluster.sync();
  out[64 * rank + threadIdx.x] = s[threadIdx.x];
}

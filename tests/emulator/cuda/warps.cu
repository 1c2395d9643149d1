// In these kernels, the lanes of a warp exchange values, vote, and synchronize with masks.
#include "kernels.h"

//: sort_by_shuffles: threads=64, expect=sorted((i*29) % 32 for i in range(32)) + [32 + k for k in range(32)],
//: plants=["divergence"]
KERNEL(sort_by_shuffles) {
  const int t = threadIdx.x, lane = t % 32;
  int v = t < 32 ? in[t] * 29 % 32 : 32 + in[t] * 11 % 32;
  for (int k = 2; k <= 32; k *= 2)
    for (int j = k / 2; j > 0; j /= 2) {
      const unsigned mask = plant == 1 && j == 4 ? 0xffffu : ~0u;
      const int other = __shfl_xor_sync(mask, v, j);
      const bool low = !(lane & j), up = !(lane & k);
      v = low == up ? min(v, other) : max(v, other);
    }
  out[t] = v;
}

//: transpose_in_registers: threads=32, expect=[(i % 32)*32 + i // 32 for i in range(1024)]
KERNEL(transpose_in_registers) {
  const int lane = threadIdx.x;
  int row[32];
  for (int i = 0; i < 32; ++i) row[i] = in[lane * 32 + i];
  for (int j = 16; j > 0; j /= 2)
    for (int i = 0; i < 32; ++i)
      if (!(i & j)) {
        const int send = lane & j ? row[i] : row[i | j];
        const int got = __shfl_xor_sync(~0u, send, j);
        if (lane & j)
          row[i] = got;
        else
          row[i | j] = got;
      }
  for (int i = 0; i < 32; ++i) out[lane * 32 + i] = row[i];
}

//: greatest_and_where: threads=128, expect=[v for w in range(4) for v in (max((32*w+k)*37 % 101 for k in
//: range(32)), 32*w + max(range(32), key=lambda k: (32*w+k)*37 % 101))]
KERNEL(greatest_and_where) {
  const int t = threadIdx.x, v = in[t] * 37 % 101;
  const unsigned most = __reduce_max_sync(~0u, static_cast<unsigned>(v));
  const unsigned holders = __ballot_sync(~0u, v == static_cast<int>(most));
  int uniform;
  __match_all_sync(~0u, most, &uniform);
  if (t % 32 == 0) {
    out[t / 16] = uniform ? static_cast<int>(most) : -1;
    out[t / 16 + 1] = t + __ffs(holders) - 1;
  }
}

//: ranks_by_ballot: threads=96, expect=[bin(sum(1 << k for k in range(i % 32) if (i // 32 * 32 + k) % 3 ==
//: 0)).count("1") for i in range(96)]
KERNEL(ranks_by_ballot) {
  unsigned below;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
  out[threadIdx.x] = __popc(__ballot_sync(~0u, in[threadIdx.x] % 3 == 0) & below);
}

//: sums_by_key: threads=128, expect=[sum(i for i in range(128) if i*7 % 6 == k) for k in range(6)],
//: plants=["race"]
KERNEL(sums_by_key) {
  __shared__ int sums[6];
  const int t = threadIdx.x, key = in[t] * 7 % 6;
  if (t < 6) sums[t] = 0;
  __syncthreads();
  const unsigned peers = __match_any_sync(~0u, key);
  const int sum = __reduce_add_sync(peers, in[t]);
  if (t % 32 == __ffs(peers) - 1) {
    IF(1) sums[key] += sum;
    UNLESS(1) atomicAdd(&sums[key], sum);
  }
  __syncthreads();
  if (t < 6) out[t] = sums[t];
}

//: wide_shuffles: threads=32, expect=[(31 - i) + 5 + (31 - i) // 2 for i in range(32)]
KERNEL(wide_shuffles) {
  const int lane = threadIdx.x;
  const long long wide = (static_cast<long long>(in[lane]) << 40) + 5;
  const double half = in[lane] * 0.5;
  const long long got = __shfl_sync(~0u, wide, 31 - lane);
  out[lane] = static_cast<int>(got >> 40) + static_cast<int>(got & 0xffff) +
              static_cast<int>(__shfl_sync(~0u, half, 31 - lane));
}

//: halves_apart: kept=True, threads=32, expect=[(15 - i)*3 for i in range(16)] + [(47 - i)*2 for i in
//: range(16, 32)], plants=["race", "race"]
KERNEL(halves_apart) {
  __shared__ int s[32];
  const int lane = threadIdx.x;
  if (lane < 16) {
    s[lane] = in[lane] * 3;
    UNLESS(1) __syncwarp(0x0000ffffu);
    out[lane] = s[15 - lane];
  } else {
    s[lane] = in[lane] * 2;
    UNLESS(2) __syncwarp(0xffff0000u);
    out[lane] = s[47 - lane];
  }
}

//: lanes_in_turn: threads=32, expect=[sum(range(i + 1)) for i in range(32)], plants=["race"]
KERNEL(lanes_in_turn) {
  __shared__ int total;
  const int lane = threadIdx.x;
  if (lane == 0) total = 0;
  __syncwarp();
  for (int turn = 0; turn < 32; ++turn) {
    if (lane == turn) out[lane] = total += in[lane];
    UNLESS(1) __syncwarp();
  }
}

//: shrinking_group: threads=32, expect=[i % 6 for i in range(32)]
KERNEL(shrinking_group) {
  const int lane = threadIdx.x;
  int left = in[lane] % 6, rounds = 0;
  unsigned active = __ballot_sync(~0u, left > 0);
  while (left > 0) {
    rounds += __shfl_sync(active, 1, __ffs(active) - 1);
    --left;
    active = __ballot_sync(active, left > 0);
  }
  out[lane] = rounds;
}

//: one_elected: threads=96, expect=[100 + i // 32 for i in range(96)], plants=["race"]
KERNEL(one_elected) {
  __shared__ int s[3];
  const int t = threadIdx.x;
  unsigned elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
  if (elected) s[t / 32] = 100 + in[t / 32];
  UNLESS(1) __syncwarp();
  out[t] = s[t / 32];
}

//: reversed_by_volatile: threads=32, expect=[sum(range(i + 1)) for i in range(32)], plants=["race"]
KERNEL(reversed_by_volatile) {
  __shared__ int s[64];
  const int lane = threadIdx.x;
  s[lane] = 0;
  int* mine = s + 32 + lane;
  *mine = in[lane];
  __syncwarp();
  for (int d = 1; d < 32; d *= 2) {
    const int left = mine[-d];
    UNLESS(1) __syncwarp();
    *mine += left;
    __syncwarp();
  }
  out[lane] = *mine;
}

//: branches_meet: threads=64, expect=[((i + 1) % 32 + i // 32 * 32) * (3 if (i + 1) % 2 else 2) for i in
//: range(64)], plants=["race"]
KERNEL(branches_meet) {
  __shared__ int s[64];
  const int t = threadIdx.x;
  if (t % 2)
    s[t] = in[t] * 3;
  else
    s[t] = in[t] * 2;
  UNLESS(1) __syncwarp();
  const int from = t / 32 * 32 + (t + 1) % 32;
  out[t] = s[from];
}

//: flags_between_lanes: kept=True, threads=32, expect=[0] + list(range(31)), plants=["race"]
KERNEL(flags_between_lanes) {  // each lane waits for the previous one, which requires independent lanes
  __shared__ int value[32], ready[32];
  const int lane = threadIdx.x;
  ready[lane] = 0;
  __syncwarp();
  cuda::atomic_ref<int, cuda::thread_scope_block> mine(ready[lane]);
  int got = 0;
  if (lane > 0) {
    cuda::atomic_ref<int, cuda::thread_scope_block> before(ready[lane - 1]);
    UNLESS(1) while (before.load(cuda::memory_order_acquire) == 0);
    got = value[lane - 1];
  }
  value[lane] = in[lane];
  mine.store(1, cuda::memory_order_release);
  out[lane] = got;
}

//: masks_of_a_loop: threads=64, expect=[sum(1 for k in range(8) if (i // 32 * 32 + k) >= 0 and i % 32 >= k)
//: for i in range(64)], plants=["divergence|deadlock"]
KERNEL(masks_of_a_loop) {
  const int lane = threadIdx.x % 32;
  int count = 0;
  for (int k = 0; k < 8; ++k) {
    const unsigned mask = ~0u << k;
    if (lane >= k) count += __popc(__ballot_sync(plant == 1 ? mask >> 1 | 1u : mask, 1)) == 32 - k;
  }
  out[threadIdx.x] = count;
}

//: votes_of_a_block: threads=128, expect=[1 + 2 + 64 * 4] * 128, plants=["divergence|deadlock"]
KERNEL(votes_of_a_block) {
  const int t = threadIdx.x;
  const int any = __any_sync(plant == 1 ? 0xffffu : ~0u, in[t] % 32 == 17),
            all = __all_sync(~0u, in[t] < 128);
  out[t] = any + 2 * all + 4 * __syncthreads_count(in[t] % 2);
}

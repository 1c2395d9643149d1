// These kernels are algorithms in which the threads of a block communicate through shared memory.
#include "kernels.h"

//: sum_strided: threads=256, grid=2, expect=[sum(i for i in range(4096) if i // 256 % 2 == b) for b in
//: range(2)], plants=["race", "race"]
KERNEL(sum_strided) {
  __shared__ int part[256];
  const int t = threadIdx.x;
  int sum = 0;
  for (int i = blockIdx.x * blockDim.x + t; i < 4096; i += gridDim.x * blockDim.x) sum += in[i];
  part[t] = sum;
  UNLESS(1) __syncthreads();
  if (t < 128) part[t] += part[t + 128];
  __syncthreads();
  if (t < 64) part[t] += part[t + 64];
  __syncthreads();
  if (t < 32) {
    part[t] += part[t + 32];
    UNLESS(2) __syncwarp();
    int v = part[t];
    IF(2) v = part[t ^ 1];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(~0u, v, d);
    if (t == 0) out[blockIdx.x] = v;
  }
}

//: scan_blelloch: threads=64, expect=[i*(i-1)//2 for i in range(128)], plants=["race", "race"]
KERNEL(scan_blelloch) {
  __shared__ int s[128];
  const int t = threadIdx.x;
  s[2 * t] = in[2 * t], s[2 * t + 1] = in[2 * t + 1];
  int offset = 1;
  for (int d = 64; d > 0; d >>= 1) {
    UNLESS(1) __syncthreads();
    if (t < d) s[offset * (2 * t + 2) - 1] += s[offset * (2 * t + 1) - 1];
    offset *= 2;
  }
  if (t == 0) s[127] = 0;
  for (int d = 1; d < 128; d *= 2) {
    offset >>= 1;
    UNLESS(2) __syncthreads();
    if (t < d) {
      const int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1, was = s[a];
      s[a] = s[b];
      s[b] += was;
    }
  }
  __syncthreads();
  out[2 * t] = s[2 * t], out[2 * t + 1] = s[2 * t + 1];
}

//: transpose_rows: threads=[32, 8], grid=1, expect=[(i % 32)*32+i//32 for i in range(1024)], plants=["race"]
KERNEL(transpose_rows) {
  __shared__ int tile[32][33];
  for (int r = threadIdx.y; r < 32; r += 8) tile[r][threadIdx.x] = in[r * 32 + threadIdx.x];
  UNLESS(1) __syncthreads();
  for (int r = threadIdx.y; r < 32; r += 8) out[r * 32 + threadIdx.x] = tile[threadIdx.x][r];
}

//: histogram_of_warps: kept=True, threads=128, expect=[256 if i < 16 else 0 for i in range(32)],
//: plants=["race", "race", "race"]
KERNEL(histogram_of_warps) {
  __shared__ int bins[4][16];
  const int t = threadIdx.x, warp = t / 32, lane = t % 32;
  if (lane < 16) bins[warp][lane] = 0;
  UNLESS(1) __syncwarp();
  for (int i = t; i < 4096; i += 128) {
    int* bin = &bins[warp][in[i] * 5 % 16];
    IF(2)++* bin;
    UNLESS(2) atomicAdd(bin, 1);
  }
  UNLESS(3) __syncthreads();
  if (t < 16) out[t] = bins[0][t] + bins[1][t] + bins[2][t] + bins[3][t];
}

//: stencil_halo: threads=[16, 16], expect=[(i // 16 + 1) * 64 + i % 16 + 1 for i in range(256)],
//: plants=["race", "uninitialised", "out of bounds|race|uninitialised"]
KERNEL(stencil_halo) {
  __shared__ int s[18][18];
  const int x = threadIdx.x, y = threadIdx.y, width = 64;
  auto load = [&](int r, int c) { s[r][c] = in[r * width + c]; };
  load(y + 1, x + 1);
  UNLESS(2) if (y == 0) load(0, x + 1), load(17, x + 1);
  IF(2) if (y == 0) load(0, x + 1);
  if (x == 0) load(y + 1, 0), load(y + 1, 17);
  UNLESS(1) __syncthreads();
  const int below = plant == 3 ? y + 20 : y + 2;
  out[y * 16 + x] = s[y][x + 1] + s[below][x + 1] + s[y + 1][x] + s[y + 1][x + 2] - 3 * s[y + 1][x + 1];
}

//: heat_in_turns: threads=64, expect=heat(64, 10), plants=["race", "uninitialised|race"]
KERNEL(heat_in_turns) {
  __shared__ int now[66], next[66];
  const int t = threadIdx.x + 1;
  now[t] = in[t] * 64;
  if (t == 1) {
    now[0] = next[0] = 0;
    now[65] = 4096;
    UNLESS(2) next[65] = 4096;
  }
  __syncthreads();
  int *from = now, *to = next;
  for (int step = 0; step < 10; ++step) {
    to[t] = (from[t - 1] + from[t + 1]) / 2;
    UNLESS(1) __syncthreads();
    int* was = from;
    from = to;
    to = was;
  }
  out[t - 1] = from[t];
}

//: odd_even_sort: threads=64, expect=list(range(128)), plants=["race"]
KERNEL(odd_even_sort) {
  __shared__ int s[128];
  const int t = threadIdx.x;
  s[t] = in[(t * 53) % 128], s[t + 64] = in[((t + 64) * 53) % 128];
  for (int round = 0; round < 128; ++round) {
    UNLESS(1) __syncthreads();
    const int a = 2 * t + round % 2;
    if (a + 1 < 128 && s[a] > s[a + 1]) {
      const int was = s[a];
      s[a] = s[a + 1];
      s[a + 1] = was;
    }
  }
  __syncthreads();
  out[t] = s[t], out[t + 64] = s[t + 64];
}

//: counting_sort: threads=128, expect=[k for k in range(8) for i in range(128) if i*3 % 8 == k],
//: plants=["race", "race"]
KERNEL(counting_sort) {
  __shared__ int count[8], begin[9], sorted[128];
  const int t = threadIdx.x, key = in[t] * 3 % 8;
  if (t < 8) count[t] = 0;
  __syncthreads();
  atomicAdd(&count[key], 1);
  UNLESS(1) __syncthreads();
  if (t == 0) {
    begin[0] = 0;
    for (int k = 0; k < 8; ++k) begin[k + 1] = begin[k] + count[k];
  }
  __syncthreads();
  sorted[atomicAdd(&begin[key], 1)] = key;
  UNLESS(2) __syncthreads();
  out[t] = sorted[t];
}

//: life_torus: threads=[16, 16], expect=life(16, 4), plants=["race", "race"]
KERNEL(life_torus) {
  __shared__ bool world[2][16][16];
  const int x = threadIdx.x, y = threadIdx.y;
  world[0][y][x] = in[y * 16 + x] * 7 % 5 < 2;
  __syncthreads();
  for (int step = 0; step < 4; ++step) {
    auto& from = world[step % 2];
    auto& to = world[plant == 2 ? step % 2 : (step + 1) % 2];
    int near = 0;
    for (int dy = -1; dy <= 1; ++dy)
      for (int dx = -1; dx <= 1; ++dx)
        if (dx || dy) near += from[(y + dy) & 15][(x + dx) & 15];
    to[y][x] = near == 3 || (near == 2 && from[y][x]);
    UNLESS(1) __syncthreads();
  }
  out[y * 16 + x] = world[0][y][x];
}

__constant__ int weights[5] = {1, 4, 6, 4, 1};

//: convolve_separable: threads=[16, 16], expect=convolve(), plants=["race", "race"]
KERNEL(convolve_separable) {
  __shared__ int rows[20][16], input[20][20];
  const int t = threadIdx.y * 16 + threadIdx.x;
  for (int i = t; i < 400; i += 256) input[i / 20][i % 20] = in[i] % 11;
  UNLESS(1) __syncthreads();
  for (int i = t; i < 320; i += 256) {
    int sum = 0;
    for (int k = 0; k < 5; ++k) sum += weights[k] * input[i / 16][i % 16 + k];
    rows[i / 16][i % 16] = sum;
  }
  UNLESS(2) __syncthreads();
  int sum = 0;
  for (int k = 0; k < 5; ++k) sum += weights[k] * rows[threadIdx.y + k][threadIdx.x];
  out[t] = sum;
}

//: compact_stream: threads=128, expect=[i for i in range(128) if i % 3 == 1] + [0]*100, plants=["race",
//: "race"]
KERNEL(compact_stream) {
  __shared__ int counts[4], kept[128], total;
  const int t = threadIdx.x, warp = t / 32, lane = t % 32, v = in[t];
  const bool keep = v % 3 == 1;
  const unsigned ballot = __ballot_sync(~0u, keep);
  if (lane == 0) counts[warp] = __popc(ballot);
  UNLESS(1) __syncthreads();
  int at = __popc(ballot & ((1u << lane) - 1));
  for (int w = 0; w < warp; ++w) at += counts[w];
  if (keep) kept[at] = v;
  if (t == 127) total = at + keep;
  UNLESS(2) __syncthreads();
  if (t < total) out[t] = kept[t];
}

//: relax_until_still: threads=64, expect=[0]*64, plants=["race"]
KERNEL(relax_until_still) {
  __shared__ int distance[64];
  const int t = threadIdx.x;
  distance[t] = t == 0 ? 0 : 1000;
  __syncthreads();
  for (;;) {
    const int left = distance[(t + 63) % 64], mine = distance[t];
    UNLESS(1) __syncthreads();
    const bool better = left + 1 < mine;
    if (better) distance[t] = left + 1;
    if (!__syncthreads_or(better)) break;
  }
  out[t] = distance[t] - t;
}

//: frontier_bfs: threads=64, expect=[(i+1).bit_length()-1 for i in range(64)], plants=["race", "race"]
KERNEL(frontier_bfs) {
  __shared__ int level[64], queue[2][64], length[2];
  const int t = threadIdx.x;
  level[t] = -1;
  if (t == 0) queue[0][0] = 0, length[0] = 1, length[1] = 0;
  UNLESS(1) __syncthreads();
  if (t == 32) level[0] = 0;
  __syncthreads();
  int depth = 0;
  for (int now = 0; length[now] > 0; now ^= 1) {
    const int size = length[now];
    if (t < size)
      for (int child = 2 * queue[now][t] + 1; child <= 2 * queue[now][t] + 2; ++child)
        if (child < 64 && atomicCAS(&level[child], -1, depth + 1) == -1)
          queue[now ^ 1][atomicAdd(&length[now ^ 1], 1)] = child;
    UNLESS(2) __syncthreads();
    if (t == 0) length[now] = 0;
    __syncthreads();
    ++depth;
  }
  out[t] = level[t];
}

//: labels_meet: threads=128, expect=[(i // 8) * 8 for i in range(128)], plants=["race"]
KERNEL(labels_meet) {
  __shared__ int label[128];
  __shared__ int changed;
  const int t = threadIdx.x;
  label[t] = in[t];
  do {
    __syncthreads();
    if (t == 0) changed = 0;
    UNLESS(1) __syncthreads();
    const int other = t ^ 1, far = (t & ~7) | ((t + 2) & 7);
    for (int with : {other, far}) {
      const int theirs = atomicAdd(&label[with], 0);
      if (atomicMin(&label[t], theirs) > theirs) atomicExch(&changed, 1);
    }
    __syncthreads();
  } while (changed);
  out[t] = label[t];
}

//: eliminate: threads=[8, 8], expect=[8 if i % 9 == 0 else 0 for i in range(64)], plants=["race", "race"]
KERNEL(eliminate) {  // reduces a lower triangular matrix with a diagonal of 8 to its diagonal
  __shared__ float a[8][8];
  const int x = threadIdx.x, y = threadIdx.y;
  a[y][x] = x == y ? 8 : x < y ? in[y * 8 + x] % 4 : 0;
  UNLESS(1) __syncthreads();
  for (int k = 0; k < 8; ++k) {
    const float factor = y > k ? a[y][k] / a[k][k] : 0, above = a[k][x];
    UNLESS(2) __syncthreads();
    if (y > k) a[y][x] -= factor * above;
    __syncthreads();
  }
  out[y * 8 + x] = static_cast<int>(a[y][x]);
}

//: walsh_hadamard: threads=64, expect=walsh(128), plants=["race"]
KERNEL(walsh_hadamard) {
  __shared__ int s[128];
  const int t = threadIdx.x;
  s[t] = in[t] % 9, s[t + 64] = in[t + 64] % 9;
  for (int half = 1; half < 128; half *= 2) {
    UNLESS(1) __syncthreads();
    const int a = t / half * 2 * half + t % half, b = a + half;
    const int x = s[a], y = s[b];
    s[a] = x + y, s[b] = x - y;
  }
  __syncthreads();
  out[t] = s[t], out[t + 64] = s[t + 64];
}

//: shortest_paths: threads=[16, 16], expect=[min((i % 16 - i // 16) % 16, 16) for i in range(256)],
//: plants=["race"]
KERNEL(shortest_paths) {
  __shared__ int d[16][16];
  const int x = threadIdx.x, y = threadIdx.y;
  d[y][x] = x == y ? 0 : x == (y + 1) % 16 ? 1 : 1000;
  for (int k = 0; k < 16; ++k) {
    UNLESS(1) __syncthreads();
    const int by = d[y][k] + d[k][x];
    if (by < d[y][x]) d[y][x] = by;
  }
  out[y * 16 + x] = d[y][x];
}

//: parts_of_dynamic: threads=64, dynamic=64*4+64*2+64, expect=[2*(63-i)+(63-i)+((63-i) & 127) for i in
//: range(64)], plants=["race", "out of bounds"]
KERNEL(parts_of_dynamic) {
  extern __shared__ char memory[];
  int* words = reinterpret_cast<int*>(memory);
  short* halves = reinterpret_cast<short*>(words + (plant == 1 ? 32 : 64));
  char* bytes = reinterpret_cast<char*>(halves + (plant == 2 ? 96 : 64));
  const int t = threadIdx.x;
  words[t] = 2 * in[t], halves[t] = in[t], bytes[t] = in[t];
  __syncthreads();
  out[t] = words[63 - t] + halves[63 - t] + bytes[63 - t];
}

//: bytes_as_words: threads=64, expect=[0x01010101*(4*i) + 0x03020100 for i in range(16)], plants=["race",
//: "misaligned"]
KERNEL(bytes_as_words) {
  __shared__ alignas(4) unsigned char bytes[64 + 4];
  const int t = threadIdx.x;
  bytes[t] = in[t];
  UNLESS(1) __syncthreads();
  if (t < 16) out[t] = reinterpret_cast<int*>(bytes + (plant == 2 ? 1 : 0))[t];
}

//: vectors_backwards: threads=64, expect=[255-i for i in range(256)], plants=["race", "misaligned"]
KERNEL(vectors_backwards) {
  __shared__ int4 s[65];
  const int t = threadIdx.x;
  int4* to = reinterpret_cast<int4*>(reinterpret_cast<char*>(s) + (plant == 2 ? 8 : 0));
  to[t] = reinterpret_cast<const int4*>(in)[t];
  UNLESS(1) __syncthreads();
  const int4 v = to[63 - t];
  reinterpret_cast<int4*>(out)[t] = {v.w, v.z, v.y, v.x};
}

//: trips_of_a_block: kept=True, threads=128, grid=3, expect=[sum((127-t) + k for k in range(b+2)) for b in
//: range(3) for t in range(128)], plants=["divergence|deadlock", "race"]
KERNEL(trips_of_a_block) {
  __shared__ int s[128];
  const int t = threadIdx.x, trips = blockIdx.x + 2;
  int sum = 0;
  for (int k = 0; k < trips; ++k) {
    s[t] = in[t] + k;
    if (plant != 1 || t % 32 < 16 || k > 0) __syncthreads();
    sum += s[127 - t];
    UNLESS(2) __syncthreads();
  }
  out[blockIdx.x * 128 + t] = sum;
}

//: tail_of_a_block: threads=72, expect=[71-i for i in range(72)] + [sum(range(72))], plants=["race",
//: "divergence|undefined|deadlock"]
KERNEL(tail_of_a_block) {
  __shared__ int s[72], sums[3];
  const int t = threadIdx.x, lane = t % 32;
  s[t] = in[t];
  UNLESS(1) __syncthreads();
  out[t] = s[71 - t];
  const unsigned mask = plant == 2 ? ~0u >> 31 : t < 64 ? ~0u : 0xffu;
  int v = s[t];
  if (t < 64)
    for (int d = 16; d; d /= 2) v += __shfl_xor_sync(mask, v, d);
  else
    for (int d = 4; d; d /= 2) v += __shfl_xor_sync(mask, v, d);
  if (lane == 0) sums[t / 32] = v;
  __syncthreads();
  if (t == 0) out[72] = sums[0] + sums[1] + sums[2];
}

//: queue_of_work: threads=64, grid=2, expect=[3*i for i in range(512)] + [0]*511 + [2], plants=["race",
//: "race"]
__device__ int next_item;
KERNEL(queue_of_work) {
  __shared__ int item;
  for (;;) {
    if (threadIdx.x == 0) item = atomicAdd(&next_item, 1);
    UNLESS(1) __syncthreads();
    const int mine = item;
    UNLESS(2) __syncthreads();
    if (mine >= 8) break;
    out[mine * 64 + threadIdx.x] = 3 * in[mine * 64 + threadIdx.x];
  }
  if (threadIdx.x == 0) atomicAdd(&out[1023], 1);
}

//: tiles_of_floats: threads=[16, 16], expect=product(16, 48), plants=["race", "race"]
KERNEL(tiles_of_floats) {
  __shared__ float a[2][16][17], b[2][16][16];
  const int x = threadIdx.x, y = threadIdx.y;
  auto load = [&](int k) {
    a[k % 2][y][x] = in[(y * 48 + k * 16 + x) % 7];
    b[k % 2][y][x] = in[((k * 16 + y) * 16 + x) % 5];
  };
  float sum = 0;
  load(0);
  for (int k = 0; k < 3; ++k) {
    UNLESS(1) __syncthreads();
    if (k < 2) load(plant == 2 ? k + 2 : k + 1);
    for (int i = 0; i < 16; ++i) sum += a[k % 2][y][i] * b[k % 2][i][x];
  }
  out[y * 16 + x] = static_cast<int>(sum);
}

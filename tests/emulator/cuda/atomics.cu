// These kernels use atomic operations, locks, queues and flags.
#include "kernels.h"

//: operations: threads=64, expect=[2016, 64, 0, 63, 63, 0, 0, 4, 32, 96, 128], plants=["race"]
KERNEL(operations) {
  __shared__ int s[8];
  __shared__ unsigned long long wide;
  __shared__ float sum;
  __shared__ double precise;
  const int t = threadIdx.x, v = in[t];
  if (t < 8) s[t] = t == 2 ? 1000 : t == 4 ? 63 : 0;
  if (t == 0) wide = 0, sum = 0, precise = 0;
  UNLESS(1) __syncthreads();
  atomicAdd(&s[0], v);
  atomicInc(reinterpret_cast<unsigned*>(&s[1]), 1000);
  atomicMin(&s[2], v);
  atomicMax(&s[3], v);
  atomicOr(&s[5], v & 0);
  atomicXor(&s[6], v);
  atomicDec(reinterpret_cast<unsigned*>(&s[7]), 4);
  atomicAnd(&s[4], v | 63);
  atomicAdd(&wide, 0x80000000ull);
  atomicAdd(&sum, 1.5f);
  atomicAdd(&precise, 2.0);
  __syncthreads();
  if (t < 8) out[t] = t == 7 ? 4 : s[t];
  if (t == 0)
    out[8] = static_cast<int>(wide >> 32), out[9] = static_cast<int>(sum),
    out[10] = static_cast<int>(precise);
}

//: lock_by_flag: kept=True, threads=96, expect=[96, 4560], plants=["race", "race"]
KERNEL(lock_by_flag) {
  __shared__ cuda::std::aligned_storage_t<4, 4> memory;
  __shared__ int count, sum;
  auto& flag = *reinterpret_cast<cuda::atomic<int, cuda::thread_scope_block>*>(&memory);
  if (threadIdx.x == 0) flag.store(0, cuda::memory_order_relaxed), count = sum = 0;
  __syncthreads();
  bool done = false;
  while (!done) {
    int expected = 0;
    if (flag.compare_exchange_strong(expected, 1,
                                     plant == 1 ? cuda::memory_order_relaxed : cuda::memory_order_acquire,
                                     cuda::memory_order_relaxed)) {
      ++count, sum += in[threadIdx.x];
      flag.store(0, plant == 2 ? cuda::memory_order_relaxed : cuda::memory_order_release);
      done = true;
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) out[0] = count, out[1] = sum;
}

//: lock_in_line: threads=32, expect=[32], plants=["race"]
KERNEL(lock_in_line) {  // each waiting thread polls its own place (MCS)
  __shared__ int tail, next[32], locked[32], count;
  const int t = threadIdx.x;
  if (t == 0) tail = -1, count = 0;
  next[t] = -1, locked[t] = 1;
  __syncthreads();
  using Word = cuda::atomic_ref<int, cuda::thread_scope_block>;
  const int before = Word(tail).exchange(t, cuda::memory_order_acq_rel);
  if (before >= 0) {
    Word(next[before]).store(t, cuda::memory_order_release);
    UNLESS(1) while (Word(locked[t]).load(cuda::memory_order_acquire));
  }
  ++count;
  int me = t;
  if (!Word(tail).compare_exchange_strong(me, -1, cuda::memory_order_acq_rel)) {
    int after;
    while ((after = Word(next[t]).load(cuda::memory_order_acquire)) < 0)
      ;
    Word(locked[after]).store(0, cuda::memory_order_release);
  }
  __syncthreads();
  if (t == 0) out[0] = count;
}

//: queue_of_one_each: kept=True, threads=64, expect=[3 * i for i in range(40)], plants=["race", "race"]
KERNEL(queue_of_one_each) {  // a ring between one producer and one consumer
  __shared__ int ring[4], head, tail;
  if (threadIdx.x == 0) head = tail = 0;
  __syncthreads();
  using Word = cuda::atomic_ref<int, cuda::thread_scope_block>;
  if (threadIdx.x == 0) {
    for (int i = 0; i < 40; ++i) {
      UNLESS(2) while (i - Word(tail).load(cuda::memory_order_acquire) >= 4);
      ring[i % 4] = 3 * in[i];
      Word(head).store(i + 1, plant == 1 ? cuda::memory_order_relaxed : cuda::memory_order_release);
    }
  } else if (threadIdx.x == 32) {
    for (int i = 0; i < 40; ++i) {
      while (Word(head).load(cuda::memory_order_acquire) <= i)
        ;
      out[i] = ring[i % 4];
      Word(tail).store(i + 1, cuda::memory_order_release);
    }
  }
}

//: hash_table: threads=64, expect=[i * i for i in range(64)], plants=["race", "race"]
KERNEL(hash_table) {
  __shared__ int keys[128], values[128];
  const int t = threadIdx.x, key = in[t] * 7 + 1;
  for (int i = t; i < 128; i += 64) keys[i] = 0;
  UNLESS(1) __syncthreads();
  int at = key * 31 % 128;
  while (atomicCAS(&keys[at], 0, key) != 0) at = (at + 1) % 128;
  values[at] = t * t;
  UNLESS(2) __syncthreads();
  const int other = (63 - t) * 7 + 1;
  at = other * 31 % 128;
  while (keys[at] != other) at = (at + 1) % 128;
  out[63 - t] = values[at];
}

__device__ int messages[4], arrived[4];

//: message_of_a_block: threads=32, grid=4, expect=[0, 100, 201, 303]
KERNEL(message_of_a_block) {
  const int b = blockIdx.x;
  if (threadIdx.x == 0) {
    int got = 0;
    if (b > 0) {
      while (atomicAdd(&arrived[b - 1], 0) == 0) __nanosleep(50);
      __threadfence();
      got = *const_cast<volatile int*>(&messages[b - 1]) + 100;
    }
    messages[b] = got + (b > 1 ? b - 1 : 0);
    __threadfence();
    atomicExch(&arrived[b], 1);
    out[b] = b > 1 ? got + (b - 1) : got;
  }
}

//: spun_on_by_volatile: threads=64, expect=[5]*32, plants=["race"]
KERNEL(spun_on_by_volatile) {
  __shared__ int data;
  __shared__ volatile int flag;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x == 32) {
    data = in[5];
    __threadfence_block();
    flag = 1;
  }
  if (threadIdx.x < 32) {
    UNLESS(1) while (flag == 0);
    __threadfence_block();
    out[threadIdx.x] = data;
  }
}

//: pairs_of_halves: threads=64, expect=[64, 128, 64, 128], plants=["race"]
KERNEL(pairs_of_halves) {
  __shared__ __half2 sum;
  __shared__ __nv_bfloat162 brain;
  if (threadIdx.x == 0) sum = __floats2half2_rn(0, 0), brain = __floats2bfloat162_rn(0, 0);
  UNLESS(1) __syncthreads();
  atomicAdd(&sum, __floats2half2_rn(1, 2));
  atomicAdd(&brain, __floats2bfloat162_rn(1, 2));
  __syncthreads();
  if (threadIdx.x == 0)
    out[0] = __half2int_rn(sum.x), out[1] = __half2int_rn(sum.y),
    out[2] = static_cast<int>(__bfloat162float(brain.x)),
    out[3] = static_cast<int>(__bfloat162float(brain.y));
}

//: one_of_two_or_both: threads=64, expect=[1]
KERNEL(one_of_two_or_both) {  // with two stores before two loads, seq_cst makes at least one load see a 1
  __shared__ int x, y, r0, r1;
  if (threadIdx.x == 0) x = y = 0;
  __syncthreads();
  using Word = cuda::atomic_ref<int, cuda::thread_scope_block>;
  if (threadIdx.x == 0) Word(x).store(1), r0 = Word(y).load();
  if (threadIdx.x == 32) Word(y).store(1), r1 = Word(x).load();
  __syncthreads();
  if (threadIdx.x == 0) out[0] = r0 + r1 >= 1;
}

//: list_of_nodes: threads=64, expect=[64, 2016], plants=["race"]
KERNEL(list_of_nodes) {  // one thread empties a stack without a lock
  __shared__ int head, next[64], value[64];
  const int t = threadIdx.x;
  if (t == 0) head = -1;
  __syncthreads();
  value[t] = in[t];
  int was = atomicAdd(&head, 0);
  for (;;) {
    next[t] = was;
    const int seen = atomicCAS(&head, was, t);
    if (seen == was) break;
    was = seen;
  }
  UNLESS(1) __syncthreads();
  if (t == 0) {
    int count = 0, sum = 0;
    for (int i = head; i >= 0; i = next[i]) ++count, sum += value[i];
    out[0] = count, out[1] = sum;
  }
}

//: words_of_64: kept=True, optimised=True, threads=96, expect=[96*95//2, 96], plants=["race", "race"]
KERNEL(words_of_64) {  // a loop of compare-and-swap increments two counts in one 64-bit word
  __shared__ unsigned long long both;
  const int t = threadIdx.x;
  if (t == 0) both = 0;
  __syncthreads();
  unsigned long long seen = both, old;  // a guess, which the first swap confirms or corrects
  IF(1) both = seen + (static_cast<unsigned long long>(in[t]) << 32) + 1;
  IF(2) if (seen > 1000000) return;
  UNLESS(1) do {
    old = seen;
    seen = atomicCAS(&both, old, old + (static_cast<unsigned long long>(in[t]) << 32) + 1);
  }
  while (seen != old)
    ;
  __syncthreads();
  if (t == 0) out[0] = static_cast<int>(both >> 32), out[1] = static_cast<int>(both);
}

//: sums_of_doubles: optimised=True, threads=64, expect=[2*sum(range(k, 64, 4)) for k in range(4)],
//: plants=["race"]
KERNEL(sums_of_doubles) {  // the addition of doubles in CUDA's guide
  __shared__ double sums[4];
  const int t = threadIdx.x;
  if (t < 4) sums[t] = 0;
  UNLESS(1) __syncthreads();
  auto* word = reinterpret_cast<unsigned long long*>(&sums[t % 4]);
  for (int k = 0; k < 2; ++k) {
    unsigned long long old = *word, assumed;
    do {
      assumed = old;
      old = atomicCAS(word, assumed, __double_as_longlong(__longlong_as_double(assumed) + in[t]));
    } while (assumed != old);
  }
  __syncthreads();
  if (t < 4) out[t] = static_cast<int>(sums[t]);
}

//: own_barrier: kept=True, threads=128, expect=[3*i + 2 for i in range(127, -1, -1)], plants=["race", "race"]
KERNEL(own_barrier) {  // a barrier made of counters, as programs often wrote it
  __shared__ int s[128], arrived;
  const int t = threadIdx.x;
  if (t == 0) arrived = 0;
  __syncthreads();
  for (int round = 1; round <= 3; ++round) {
    s[t] = round * in[t] + 2;
    UNLESS(1) __syncwarp();
    __threadfence_block();
    if (t % 32 == 0) {
      atomicAdd(&arrived, 1);
      UNLESS(2) while (atomicAdd(&arrived, 0) < 4 * (2 * round - 1)) {}
      __threadfence_block();
    }
    __syncwarp();
    const int v = s[127 - t];
    __syncwarp();
    __threadfence_block();
    if (t % 32 == 0) {
      atomicAdd(&arrived, 1);
      while (atomicAdd(&arrived, 0) < 8 * round) {
      }
      __threadfence_block();
    }
    __syncwarp();
    out[t] = v;
  }
}

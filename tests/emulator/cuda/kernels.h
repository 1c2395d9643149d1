// Code that the kernels in this folder share. Each kernel is a template over the fault that is planted in it.
// The value 0 means that there is no fault, and that the kernel is correct.
#pragma once

#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

#include <cstdint>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/pipeline>
#include <cuda/ptx>
#include <cuda/semaphore>
#include <cuda/std/array>
#include <cuda/std/complex>
#include <cuda/std/optional>
#include <cuda/std/span>
#include <cuda/std/tuple>

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

// `in` holds 4096 elements 0, 1, 2, ..., and `out` holds 1024 zeros.
#define KERNEL(name, ...) \
  template <int plant>    \
  __global__ void __VA_ARGS__ name(int* out, const int* in, int n)

// UNLESS omits the following statement if the fault is planted, and IF includes it only then.
#define UNLESS(fault) if constexpr (plant != fault)
#define IF(fault) if constexpr (plant == fault)

using Barrier = cuda::barrier<cuda::thread_scope_block>;

/* Measures the host's cost of a call from C, in microseconds, for calls.py. The kernel of the product is
 * already compiled. */
#include <stddef.h>
#include <time.h>

#include "ptxb.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* Returns the microseconds of a call for bf16 matrices of `size` x `size` elements without gaps. A negative
 * result means failure. */
double c_calls(ptxb_device* device, void* a, void* b, void* d, int64_t size, int count) {
  int64_t shape[2] = {size, size}, strides[2] = {size, 1};
  ptxb_tensor t[3];
  void* const data[3] = {a, b, d};
  for (int i = 0; i < 3; ++i) {
    const ptxb_tensor one = {data[i], {2, 0}, 2, {PTXB_BFLOAT, 16, 1}, shape, strides, 0};
    t[i] = one;
  }
  ptxb_matmul p = PTXB_MATMUL_INIT;
  p.a = &t[0], p.b = &t[1], p.d = &t[2];
  size_t bytes;
  const double begin = now();
  for (int i = 0; i < count; ++i)
    if (ptxb_matmul_workspace(device, &p, &bytes) || ptxb_matmul_run(device, &p, NULL, 0, NULL)) return -1;
  return (now() - begin) / count;
}

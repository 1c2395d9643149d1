/* Computes D = A B from C, bf16 into f32, on a GPU or, if there is none, on the emulator. */
#include <ptxbuilder/ptxb.h>
#include <stdio.h>
#include <stdlib.h>

enum { M = 100, N = 40, K = 64 };

static void must(int status) {
  if (status == PTXB_OK) return;
  fprintf(stderr, "%s\n", ptxb_error());
  exit(1);
}

/* Returns a row-major matrix without gaps, on the device. */
static ptxb_tensor matrix(ptxb_device* device, ptxb_dtype dtype, int64_t* shape) {
  ptxb_tensor t = {0};
  t.ndim = 2;
  t.dtype = dtype;
  t.shape = shape;
  must(ptxb_allocate(device, (size_t)(shape[0] * shape[1]) * dtype.bits / 8, &t.data));
  return t;
}

int main(void) {
  static uint16_t a[M * K], b[K * N];
  static float d[M * N];
  const ptxb_dtype bf16 = {PTXB_BFLOAT, 16, 1}, f32 = {PTXB_FLOAT, 32, 1};
  int64_t shape_a[] = {M, K}, shape_b[] = {K, N}, shape_d[] = {M, N}; /* outermost dimension first */
  int i;
  ptxb_device* device;
  must(ptxb_open("auto", &device));
  ptxb_tensor A = matrix(device, bf16, shape_a), B = matrix(device, bf16, shape_b),
              D = matrix(device, f32, shape_d);
  for (i = 0; i < M * K; ++i) a[i] = 0x3f80; /* 1 */
  for (i = 0; i < K * N; ++i) b[i] = 0x4000; /* 2 */
  must(ptxb_copy_in(device, A.data, a, sizeof a));
  must(ptxb_copy_in(device, B.data, b, sizeof b));

  ptxb_matmul product = PTXB_MATMUL_INIT;
  size_t bytes;
  void* workspace = NULL;
  product.a = &A, product.b = &B, product.d = &D;
  must(ptxb_matmul_workspace(device, &product, &bytes)); /* compiles the kernel */
  if (bytes) must(ptxb_allocate(device, bytes, &workspace));
  must(ptxb_matmul_run(device, &product, workspace, bytes, PTXB_OWN_STREAM));
  must(ptxb_wait(device, PTXB_OWN_STREAM, 60000));
  must(ptxb_copy_out(device, d, D.data, sizeof d));
  printf("D[0][0] = %g, D[%d][%d] = %g, expected %d\n", d[0], M - 1, N - 1, d[M * N - 1], 2 * K);
  ptxb_close(device);
  return 0;
}

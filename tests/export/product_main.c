/* Launches an exported matrix product of bf16, D = A B^T, and compares it with a sum in double:
 * product_main SEED MxNxK... With WITH_SIZES, the kernel has the parameters M and N in addition to K. */
#include "bf16.h"
#include "product.h"

static void run(size_t m, size_t n, size_t k) {
  uint16_t *a = filled(m * k), *b = filled(n * k), *d = filled(m * n);
  const product_A_tensor A = {upload(a, m * k * 2), {k, m}, {k * 2}};
  const product_B_tensor B = {upload(b, n * k * 2), {k, n}, {k * 2}};
  const product_D_tensor D = {upload(d, m * n * 2), {n, m}, {n * 2}};
  size_t i, j, l;
  int status;
#ifdef WITH_SIZES
  status = product_launch(&A, &B, &D, (uint32_t)m, (uint32_t)n, (uint32_t)k, NULL, NULL);
#else
  status = product_launch(&A, &B, &D, (uint32_t)k, NULL, NULL);
#endif
  must(!status, product_error());
  download(d, D.data, m * n * 2);
  for (i = 0; i < m; ++i)
    for (j = 0; j < n; ++j) {
      double sum = 0, all = 0, error;
      for (l = 0; l < k; ++l) {
        const double term = of_bf16(a[i * k + l]) * of_bf16(b[j * k + l]);
        sum += term;
        all += term < 0 ? -term : term;
      }
      error = of_bf16(d[i * n + j]) - sum;
      error = error < 0 ? -error : error;
      must(error <= (sum < 0 ? -sum : sum) / 250 + all / 1e5, "an element is wrong");
    }
  printf("%lux%lux%lu by %s: all are right\n", (unsigned long)m, (unsigned long)n, (unsigned long)k,
         last_kernel());
  free(a), free(b), free(d);
}

int main(int argc, char** argv) {
  int i;
  must(argc > 2, "product_main SEED MxNxK...");
  open_device();
  srand((unsigned)atoi(argv[1]));
  for (i = 2; i < argc; ++i) {
    unsigned long m, n, k;
    must(sscanf(argv[i], "%lux%lux%lu", &m, &n, &k) == 3, argv[i]);
    run(m, n, k);
  }
  return 0;
}

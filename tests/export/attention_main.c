/* Launches an exported causal attention with bf16, 64 columns and two heads per key head, and compares O
 * and lse with sums in double: attention_main SEED QUERIESxKEYSxHEADSxBATCHES... */
#include <math.h>

#include "attention.h"
#include "bf16.h"

enum { COLUMNS = 64, GROUP = 2 };

/* Returns the index of an element's row in [batch][row][head][column]. */
static size_t at(size_t batch, size_t row, size_t head, size_t rows, size_t heads) {
  return ((batch * rows + row) * heads + head) * COLUMNS;
}
#define TENSOR(data, rows, heads, batches)                                                     \
  {                                                                                            \
    upload(data, (rows) * (heads) * (batches)*COLUMNS * 2), {COLUMNS, rows, heads, batches}, { \
      (heads) * COLUMNS * 2, COLUMNS * 2, (rows) * (heads)*COLUMNS * 2                         \
    }                                                                                          \
  }

static void run(size_t queries, size_t keys, size_t heads, size_t batches) {
  const size_t shared = heads / GROUP, of_q = queries * heads * batches * COLUMNS,
               of_k = keys * shared * batches * COLUMNS;
  uint16_t *q = filled(of_q), *k = filled(of_k), *v = filled(of_k), *o = filled(of_q);
  float* lse = (float*)calloc(queries * heads * batches, sizeof *lse);
  double* weights = (double*)calloc(keys, sizeof *weights);
  const attention_Q_tensor Q = TENSOR(q, queries, heads, batches);
  const attention_K_tensor K = TENSOR(k, keys, shared, batches);
  const attention_V_tensor V = TENSOR(v, keys, shared, batches);
  const attention_O_tensor O = TENSOR(o, queries, heads, batches);
  float* const on_lse = (float*)upload(lse, queries * heads * batches * sizeof *lse);
  const int32_t visible = (int32_t)keys - (int32_t)queries + 1; /* the last query sees all keys */
  const float scale = 0.375f;
  size_t b, h, i, j, c;
  must(!attention_launch(&Q, &K, &V, &O, on_lse, (uint32_t)queries, (uint32_t)keys, (uint32_t)heads,
                         (uint32_t)batches, GROUP, scale, visible, 3, NULL, NULL),
       attention_error());
  download(o, O.data, of_q * 2);
  download(lse, on_lse, queries * heads * batches * sizeof *lse);
  for (b = 0; b < batches; ++b)
    for (h = 0; h < heads; ++h)
      for (i = 0; i < queries; ++i) {
        const size_t seen = i + keys - queries + 1;
        double greatest = -INFINITY, sum = 0;
        for (j = 0; j < seen; ++j) {
          double dot = 0;
          for (c = 0; c < COLUMNS; ++c)
            dot += of_bf16(q[at(b, i, h, queries, heads) + c]) *
                   of_bf16(k[at(b, j, h / GROUP, keys, shared) + c]);
          weights[j] = scale * dot;
          if (weights[j] > greatest) greatest = weights[j];
        }
        for (j = 0; j < seen; ++j) sum += weights[j] = exp(weights[j] - greatest);
        must(fabs(lse[(b * heads + h) * queries + i] - (greatest + log(sum))) < 1e-4, "a logarithm is wrong");
        for (c = 0; c < COLUMNS; ++c) {
          double value = 0, all = 0, error;
          for (j = 0; j < seen; ++j) {
            const double term = weights[j] / sum * of_bf16(v[at(b, j, h / GROUP, keys, shared) + c]);
            value += term, all += fabs(term);
          }
          error = fabs(of_bf16(o[at(b, i, h, queries, heads) + c]) - value);
          must(error <= all / 100, "an element is wrong");
        }
      }
  printf("%lux%lux%lux%lu by %s: all are right\n", (unsigned long)queries, (unsigned long)keys,
         (unsigned long)heads, (unsigned long)batches, last_kernel());
  free(q), free(k), free(v), free(o), free(lse), free(weights);
}

int main(int argc, char** argv) {
  int i;
  must(argc > 2, "attention_main SEED QUERIESxKEYSxHEADSxBATCHES...");
  open_device();
  srand((unsigned)atoi(argv[1]));
  for (i = 2; i < argc; ++i) {
    unsigned long q, k, h, b;
    must(sscanf(argv[i], "%lux%lux%lux%lu", &q, &k, &h, &b) == 4, argv[i]);
    run(q, k, h, b);
  }
  return 0;
}

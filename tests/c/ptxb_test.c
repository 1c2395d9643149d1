/* Tests the C interface from C11: products of strided tensors, attention, kernels from LLVM IR and from an
 * image with its sidecar, several threads, and the messages about mistakes. Usage: `ptxb_test [DEVICE]`;
 * the default device is the emulator. */
#include "kernels/c/ptxb.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

#define CHECK(condition)                                                                       \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      printf("%s:%d: %s is false; error: %s\n", __FILE__, __LINE__, #condition, ptxb_error()); \
      ++failures;                                                                              \
    }                                                                                          \
  } while (0)
#define OK(call) CHECK((call) == PTXB_OK)
#define FAILS(expected, call, words)                                                                        \
  do {                                                                                                      \
    const int got = (call);                                                                                 \
    if (got != (expected) || !strstr(ptxb_error(), words)) {                                                \
      printf("%s:%d: status %d, \"%s\" instead of \"%s\"\n", __FILE__, __LINE__, got, ptxb_error(), words); \
      ++failures;                                                                                           \
    }                                                                                                       \
  } while (0)
#define REFUSED(call, words) FAILS(PTXB_INVALID_ARGUMENT, call, words)

static ptxb_device* device;

static uint16_t bf16_of(float value) { /* exact for small integers */
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)(bits >> 16);
}
static float f32_of(uint16_t bits) {
  const uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

static float f32_of_e4m3(uint8_t bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  if ((bits & 127) == 127) return NAN;
  const double size = exponent ? ldexp(8 + mantissa, exponent - 10) : ldexp(mantissa, -9);
  return (float)(bits & 128 ? -size : size);
}
static uint8_t e4m3_of(float value) { /* 0 if e4m3 cannot represent the value exactly */
  for (int bits = 0; bits < 256; ++bits)
    if (f32_of_e4m3((uint8_t)bits) == value) return (uint8_t)bits;
  return 0;
}

/* A two-dimensional tensor in its own device memory, with its values on the host. */
typedef struct Matrix {
  ptxb_tensor tensor;
  int64_t shape[2], strides[2];
  size_t bytes;
  void* host;
} Matrix;

static void make(Matrix* m, ptxb_dtype type, int64_t rows, int64_t columns, int64_t row_stride,
                 int64_t column_stride, uint64_t offset) {
  const size_t size = type.bits / 8;
  memset(m, 0, sizeof *m);
  m->shape[0] = rows, m->shape[1] = columns;
  m->strides[0] = row_stride, m->strides[1] = column_stride;
  m->bytes = offset + size * (size_t)((rows - 1) * row_stride + (columns - 1) * column_stride + 1);
  m->host = malloc(m->bytes);
  memset(m->host, 0xff, m->bytes);
  m->tensor.ndim = 2;
  m->tensor.dtype = type;
  m->tensor.shape = m->shape;
  m->tensor.strides = m->strides;
  m->tensor.byte_offset = offset;
  OK(ptxb_allocate(device, m->bytes, &m->tensor.data));
}
static void* at(const Matrix* m, int64_t i, int64_t j) {
  return (char*)m->host + m->tensor.byte_offset +
         (size_t)(i * m->strides[0] + j * m->strides[1]) * (m->tensor.dtype.bits / 8u);
}
static void fill(Matrix* m, unsigned* seed) {
  for (int64_t i = 0; i < m->shape[0]; ++i)
    for (int64_t j = 0; j < m->shape[1]; ++j) {
      *seed = *seed * 1664525u + 1013904223u;
      const float value = (float)((int)(*seed >> 24) % 9 - 4);
      const uint16_t bits = bf16_of(value);
      const uint8_t narrow = e4m3_of(value);
      if (m->tensor.dtype.bits == 8)
        memcpy(at(m, i, j), &narrow, sizeof narrow);
      else if (m->tensor.dtype.bits == 16)
        memcpy(at(m, i, j), &bits, sizeof bits);
      else
        memcpy(at(m, i, j), &value, sizeof value);
    }
  OK(ptxb_copy_in(device, m->tensor.data, m->host, m->bytes));
}
static float value(const Matrix* m, int64_t i, int64_t j) {
  float wide;
  uint16_t narrow;
  if (m->tensor.dtype.bits == 8) return f32_of_e4m3(*(uint8_t*)at(m, i, j));
  if (m->tensor.dtype.bits == 16) {
    memcpy(&narrow, at(m, i, j), sizeof narrow);
    return f32_of(narrow);
  }
  memcpy(&wide, at(m, i, j), sizeof wide);
  return wide;
}
static void discard(Matrix* m) {
  OK(ptxb_free(device, m->tensor.data));
  free(m->host);
}

static const ptxb_dtype bf16 = {PTXB_BFLOAT, 16, 1}, f32 = {PTXB_FLOAT, 32, 1}, e4m3 = {PTXB_E4M3, 8, 1};

/* Returns the number of wrong elements of one product. A and B have the given strides, and D and the
 * workspace are poisoned. */
static int wrong_of(int64_t m, int64_t n, int64_t k, int a_along_m, int b_along_n, uint64_t offset,
                    int epilogue, unsigned seed) {
  Matrix a, b, c, d, bias;
  int wrong = 0;
  make(&a, bf16, m, k, a_along_m ? 1 : k + 8, a_along_m ? m + 8 : 1, offset);
  make(&b, bf16, k, n, b_along_n ? n + 8 : 1, b_along_n ? 1 : k + 8, 0);
  make(&c, f32, m, n, n + 3, 1, 0);
  make(&d, f32, m, n, n + 4, 1, 0);
  make(&bias, f32, 1, n, n, 1, 0);
  Matrix* inputs[] = {&a, &b, &c, &bias};
  for (int i = 0; i < 4; ++i) fill(inputs[i], &seed);
  OK(ptxb_copy_in(device, d.tensor.data, d.host, d.bytes));
  ptxb_matmul p = PTXB_MATMUL_INIT;
  p.a = &a.tensor, p.b = &b.tensor, p.d = &d.tensor;
  if (epilogue) {
    p.c = &c.tensor, p.beta = 2, p.alpha = 0.5f;
    bias.tensor.ndim = 1, bias.tensor.shape = &bias.shape[1], bias.tensor.strides = NULL;
    p.bias = &bias.tensor;
    p.activation = PTXB_RELU;
  }
  size_t bytes = 0;
  void* workspace = NULL;
  OK(ptxb_matmul_workspace(device, &p, &bytes));
  CHECK((bytes > 0) == (offset % 16 != 0));
  if (bytes) {
    OK(ptxb_allocate(device, bytes, &workspace));
    REFUSED(ptxb_matmul_run(device, &p, workspace, bytes - 1, PTXB_OWN_STREAM), "needs a workspace of");
  }
  OK(ptxb_matmul_run(device, &p, workspace, bytes, PTXB_OWN_STREAM));
  OK(ptxb_wait(device, PTXB_OWN_STREAM, 60000));
  OK(ptxb_copy_out(device, d.host, d.tensor.data, d.bytes));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += (double)value(&a, i, l) * value(&b, l, j);
      if (epilogue) {
        sum = 0.5 * sum + 2 * value(&c, i, j) + value(&bias, 0, j);
        if (sum < 0) sum = 0;
      }
      wrong += !((double)value(&d, i, j) == sum);
    }
  if (workspace) OK(ptxb_free(device, workspace));
  discard(&a), discard(&b), discard(&c), discard(&d), discard(&bias);
  return wrong;
}

/* Runs p, whose structs the caller has filled, and counts the wrong elements of D = alpha A B. */
static int wrong_again(const ptxb_matmul* p, const Matrix* a, const Matrix* b, Matrix* d) {
  int wrong = 0;
  memset(d->host, 0xff, d->bytes);
  OK(ptxb_copy_in(device, d->tensor.data, d->host, d->bytes));
  OK(ptxb_matmul_run(device, p, NULL, 0, PTXB_OWN_STREAM));
  OK(ptxb_wait(device, PTXB_OWN_STREAM, 60000));
  OK(ptxb_copy_out(device, d->host, d->tensor.data, d->bytes));
  for (int64_t i = 0; i < d->shape[0]; ++i)
    for (int64_t j = 0; j < d->shape[1]; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < a->shape[1]; ++l) sum += (double)value(a, i, l) * value(b, l, j);
      wrong += !((double)value(d, i, j) == p->alpha * sum);
    }
  return wrong;
}

/* A caller reuses its structs and changes one value in them at a time. Each change must take effect,
 * whether it changes an address or anything else. */
static void check_repeated(unsigned seed) {
  Matrix a, other, b, d;
  make(&a, bf16, 32, 64, 64, 1, 0);
  make(&other, bf16, 32, 64, 64, 1, 0);
  make(&b, bf16, 64, 48, 48, 1, 96);
  make(&d, f32, 32, 48, 48, 1, 0);
  fill(&a, &seed), fill(&other, &seed), fill(&b, &seed);
  ptxb_matmul p = PTXB_MATMUL_INIT;
  p.a = &a.tensor, p.b = &b.tensor, p.d = &d.tensor;
  for (int twice = 0; twice < 2; ++twice) CHECK(wrong_again(&p, &a, &b, &d) == 0);
  p.a = &other.tensor;
  CHECK(wrong_again(&p, &other, &b, &d) == 0);
  void* const data = other.tensor.data;
  other.tensor.data = a.tensor.data;
  CHECK(wrong_again(&p, &a, &b, &d) == 0);
  other.tensor.data = data, p.a = &a.tensor;
  b.tensor.byte_offset = 0, b.shape[0] = a.shape[1] = 32; /* those rows, and the rows before them */
  fill(&b, &seed);
  CHECK(wrong_again(&p, &a, &b, &d) == 0);
  b.strides[0] = 1, b.strides[1] = 32; /* columns instead of rows */
  CHECK(wrong_again(&p, &a, &b, &d) == 0);
  p.alpha = -2;
  CHECK(wrong_again(&p, &a, &b, &d) == 0);
  a.shape[0] = d.shape[0] = 24;
  CHECK(wrong_again(&p, &a, &b, &d) == 0);
  a.tensor.dtype.lanes = 2;
  REFUSED(ptxb_matmul_run(device, &p, NULL, 0, PTXB_OWN_STREAM), "A: its type is not supported");
  a.tensor.dtype.lanes = 1, a.tensor.device.type = 1;
  CHECK(ptxb_matmul_run(device, &p, NULL, 0, PTXB_OWN_STREAM) == PTXB_INVALID_ARGUMENT);
  a.tensor.device.type = 0;
  CHECK(wrong_again(&p, &a, &b, &d) == 0);
  a.tensor.shape = NULL;
  REFUSED(ptxb_matmul_run(device, &p, NULL, 0, PTXB_OWN_STREAM), "A: 2 dimensions, without a shape");
  a.tensor.shape = a.shape;
  CHECK(wrong_again(&p, &a, &b, &d) == 0);
  for (int i = 0; i < 3; ++i) { /* the product is known */
    ptxb_tensor* tensors[] = {&a.tensor, &b.tensor, &d.tensor};
    static const char* const words[] = {"A: data is NULL", "B: data is NULL", "D: data is NULL"};
    void* data = tensors[i]->data;
    tensors[i]->data = NULL;
    REFUSED(ptxb_matmul_run(device, &p, NULL, 0, PTXB_OWN_STREAM), words[i]);
    tensors[i]->data = data;
  }
  CHECK(wrong_again(&p, &a, &b, &d) == 0);
  p.activation = 9;
  REFUSED(ptxb_matmul_run(device, &p, NULL, 0, PTXB_OWN_STREAM), "activation 9 is not a ptxb_activation");
  discard(&a), discard(&other), discard(&b), discard(&d);
}

/* Checks the operations that a product applies after the sum. All inputs are small integers, so that x, the
 * input of the activation, is exact. */
enum { kM = 24, kN = 32, kK = 64 };
typedef struct Epilogue {
  Matrix a, b, c, d, bias, inputs, rows, columns, alpha, d_scale, amax;
  ptxb_matmul p;
} Epilogue;

static void make_epilogue(Epilogue* e, ptxb_dtype in, ptxb_dtype out, int64_t d_columns, unsigned seed) {
  const ptxb_dtype addend = out.bits == 8 ? bf16 : out;
  const ptxb_matmul init = PTXB_MATMUL_INIT;
  make(&e->a, in, kM, kK, kK, 1, 0), make(&e->b, in, kK, kN, 1, kK, 0);
  make(&e->c, addend, kM, kN, kN, 1, 0), make(&e->d, out, kM, d_columns, d_columns + 16, 1, 0);
  make(&e->bias, addend, 1, kN, kN, 1, 0), make(&e->inputs, addend, kM, kN, kN, 1, 0);
  make(&e->rows, f32, kM, 1, 1, 1, 0), make(&e->columns, f32, 1, kN, kN, 1, 0);
  make(&e->alpha, f32, 1, 1, 1, 1, 0), make(&e->d_scale, f32, 1, 1, 1, 1, 0);
  make(&e->amax, f32, 1, 1, 1, 1, 0);
  Matrix* filled[] = {&e->a, &e->b, &e->c, &e->bias, &e->inputs, &e->rows, &e->columns};
  for (int i = 0; i < 7; ++i) fill(filled[i], &seed);
  e->bias.tensor.ndim = 1, e->bias.tensor.shape = &e->bias.shape[1], e->bias.tensor.strides = NULL;
  const float alpha = -0.5f, d_scale = 0.375f, amax = 0;
  OK(ptxb_copy_in(device, e->alpha.tensor.data, &alpha, sizeof alpha));
  OK(ptxb_copy_in(device, e->d_scale.tensor.data, &d_scale, sizeof d_scale));
  OK(ptxb_copy_in(device, e->amax.tensor.data, &amax, sizeof amax));
  e->p = init, e->p.precise = 1;
  e->p.a = &e->a.tensor, e->p.b = &e->b.tensor, e->p.d = &e->d.tensor;
}
static void discard_epilogue(Epilogue* e) {
  Matrix* all[] = {&e->a,    &e->b,       &e->c,     &e->d,       &e->bias, &e->inputs,
                   &e->rows, &e->columns, &e->alpha, &e->d_scale, &e->amax};
  for (int i = 0; i < 11; ++i) discard(all[i]);
}

/* Returns A B with the row and column scales, alpha from memory, beta C and the bias of `p` applied. */
static double x_of(const Epilogue* e, int64_t i, int64_t j) {
  double x = 0;
  for (int64_t l = 0; l < kK; ++l) x += (double)value(&e->a, i, l) * value(&e->b, l, j);
  if (e->p.row_scales) x *= value(&e->rows, i, 0);
  if (e->p.column_scales) x *= value(&e->columns, 0, j);
  if (e->p.alpha_in_memory) x *= -0.5;
  return x + (e->p.c ? e->p.beta * value(&e->c, i, j) : 0) + (e->p.bias ? value(&e->bias, 0, j) : 0);
}
static double y_of(const Epilogue* e, int64_t i, int64_t j) {
  const double x = x_of(e, i, e->p.use == PTXB_GATE ? 2 * j : j);
  const double silu = x / (1 + exp(-x)), relu = x > 0 ? x : 0;
  if (e->p.use == PTXB_GATE) return (e->p.activation == PTXB_SILU ? silu : relu) * x_of(e, i, 2 * j + 1);
  if (e->p.use == PTXB_SLOPE) return value(&e->inputs, i, j) > 0 ? x : 0; /* the slope of relu */
  return e->p.activation == PTXB_RELU ? relu : x;
}
/* Returns whether d is the number of D's type that is nearest to y. For f32 and bf16, it allows for the
 * rounding of silu's arithmetic. */
static int is_rounded(float d, double y, ptxb_dtype type) {
  if (type.bits != 8) return fabs(d - y) <= fabs(y) * (type.bits == 16 ? 0x1.1p-8 : 1e-5) + 1e-5;
  double nearest = INFINITY;
  for (int bits = 0; bits < 256; ++bits) nearest = fmin(nearest, fabs(f32_of_e4m3((uint8_t)bits) - y));
  return fabs(d - y) == nearest;
}

/* Runs the product of `e` on a poisoned D, and counts wrong elements. The amax must be exactly the
 * greatest magnitude. */
static int wrong_epilogue(Epilogue* e) {
  const float none = 0;
  int wrong = 0;
  double greatest = 0;
  size_t bytes = 1;
  memset(e->d.host, 0xff, e->d.bytes);
  OK(ptxb_copy_in(device, e->d.tensor.data, e->d.host, e->d.bytes));
  OK(ptxb_copy_in(device, e->amax.tensor.data, &none, sizeof none));
  OK(ptxb_matmul_workspace(device, &e->p, &bytes));
  CHECK(bytes == 0);
  OK(ptxb_matmul_run(device, &e->p, NULL, 0, PTXB_OWN_STREAM));
  OK(ptxb_wait(device, PTXB_OWN_STREAM, 60000));
  OK(ptxb_copy_out(device, e->d.host, e->d.tensor.data, e->d.bytes));
  OK(ptxb_copy_out(device, e->amax.host, e->amax.tensor.data, e->amax.bytes));
  for (int64_t i = 0; i < e->d.shape[0]; ++i)
    for (int64_t j = 0; j < e->d.shape[1]; ++j) {
      const double y = y_of(e, i, j), scaled = e->p.d_scale ? y * 0.375 : y;
      if (fabs(y) > greatest) greatest = fabs(y);
      wrong += !is_rounded(value(&e->d, i, j), scaled, e->d.tensor.dtype);
    }
  if (e->p.amax)
    wrong +=
        !(fabs(value(&e->amax, 0, 0) - greatest) <= (e->p.activation == PTXB_SILU ? 1e-5 * greatest : 0));
  return wrong;
}

static void check_epilogues(unsigned seed) {
  Epilogue e;
  /* 8-bit floats that are scaled by row and by column give an 8-bit result with a scale and an amax. */
  make_epilogue(&e, e4m3, e4m3, kN, seed);
  CHECK(wrong_epilogue(&e) == 0);
  e.p.row_scales = &e.rows.tensor;
  CHECK(wrong_epilogue(&e) == 0);
  e.p.column_scales = &e.columns.tensor, e.p.d_scale = &e.d_scale.tensor, e.p.amax = &e.amax.tensor;
  CHECK(wrong_epilogue(&e) == 0);
  e.p.bias = &e.bias.tensor, e.p.c = &e.c.tensor, e.p.beta = 2, e.p.activation = PTXB_RELU;
  CHECK(wrong_epilogue(&e) == 0);
  e.rows.tensor.ndim = 1, e.columns.tensor.ndim = 1, e.columns.tensor.shape = &e.columns.shape[1];
  e.columns.tensor.strides = NULL;
  CHECK(wrong_epilogue(&e) == 0);
  e.bias.tensor.dtype = e4m3;
  REFUSED(ptxb_matmul_run(device, &e.p, NULL, 0, PTXB_OWN_STREAM),
          "bias: it is [32] of e4m3, but must be bf16 if D is e4m3");
  discard_epilogue(&e);
  /* The product takes alpha from memory, and is the backward pass through relu. It is then repeated with
   * other inputs of the same form. */
  make_epilogue(&e, bf16, f32, kN, seed + 1);
  e.p.alpha_in_memory = &e.alpha.tensor, e.p.inputs = &e.inputs.tensor;
  e.p.activation = PTXB_RELU, e.p.use = PTXB_SLOPE;
  CHECK(wrong_epilogue(&e) == 0);
  Matrix other;
  make(&other, f32, kM, kN, kN, 1, 0);
  fill(&other, &seed);
  const Matrix inputs = e.inputs;
  e.inputs = other;
  CHECK(wrong_epilogue(&e) == 0);
  e.inputs = inputs;
  CHECK(wrong_epilogue(&e) == 0);
  discard(&other);
  discard_epilogue(&e);
  /* A gate combines each pair of columns into one. */
  make_epilogue(&e, bf16, bf16, kN / 2, seed + 2);
  e.p.activation = PTXB_SILU, e.p.use = PTXB_GATE, e.p.bias = &e.bias.tensor, e.p.amax = &e.amax.tensor;
  CHECK(wrong_epilogue(&e) == 0);
  e.p.activation = PTXB_RELU;
  CHECK(wrong_epilogue(&e) == 0);
  e.p.use = PTXB_VALUE;
  REFUSED(ptxb_matmul_run(device, &e.p, NULL, 0, PTXB_OWN_STREAM), "D and A require [k,n] 1 of 64 x 16");
  discard_epilogue(&e);
}

/* All elements of A and B are 1 in e4m3, so that each sum is a sum of the scales, which are powers of two. */
static void check_block_scales(void) {
  enum { M = 24, N = 136, K = 272, BLOCKS = 3, WIDE = 2 };
  Matrix d;
  make(&d, f32, M, N, N, 1, 0);
  unsigned char ones[N * K];
  float of_a[BLOCKS * M], of_b[WIDE * BLOCKS];
  memset(ones, 0x38, sizeof ones);
  for (int i = 0; i < BLOCKS * M; ++i) of_a[i] = (float)(1 << i % 5);
  for (int i = 0; i < WIDE * BLOCKS; ++i) of_b[i] = (float)(1 << i);
  void *matrix, *scales_of_a, *scales_of_b;
  OK(ptxb_allocate(device, sizeof ones, &matrix));
  OK(ptxb_allocate(device, sizeof of_a, &scales_of_a));
  OK(ptxb_allocate(device, sizeof of_b, &scales_of_b));
  OK(ptxb_copy_in(device, matrix, ones, sizeof ones));
  OK(ptxb_copy_in(device, scales_of_a, of_a, sizeof of_a));
  OK(ptxb_copy_in(device, scales_of_b, of_b, sizeof of_b));
  const ptxb_dtype e4m3 = {PTXB_E4M3, 8, 1};
  int64_t a_shape[2] = {M, K}, b_shape[2] = {K, N}, along_k[2] = {1, K}, a_lines[2] = {BLOCKS, M},
          b_lines[2] = {WIDE, BLOCKS};
  const ptxb_tensor a = {.data = matrix, .ndim = 2, .dtype = e4m3, .shape = a_shape},
                    b = {.data = matrix, .ndim = 2, .dtype = e4m3, .shape = b_shape, .strides = along_k},
                    sa = {.data = scales_of_a, .ndim = 2, .dtype = f32, .shape = a_lines},
                    sb = {.data = scales_of_b, .ndim = 2, .dtype = f32, .shape = b_lines};
  ptxb_matmul p = PTXB_MATMUL_INIT;
  p.a = &a, p.b = &b, p.d = &d.tensor, p.a_scales_1x128 = &sa, p.b_scales_128x128 = &sb;
  size_t bytes;
  OK(ptxb_matmul_workspace(device, &p, &bytes));
  CHECK(bytes > 0); /* TMA cannot load lines of three scales */
  void* workspace;
  OK(ptxb_allocate(device, bytes, &workspace));
  OK(ptxb_matmul_run(device, &p, workspace, bytes, PTXB_OWN_STREAM));
  OK(ptxb_wait(device, PTXB_OWN_STREAM, 60000));
  OK(ptxb_copy_out(device, d.host, d.tensor.data, d.bytes));
  int wrong = 0;
  for (int64_t i = 0; i < M; ++i)
    for (int64_t j = 0; j < N; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < K; ++k) sum += of_a[k / 128 * M + i] * of_b[j / 128 * BLOCKS + k / 128];
      wrong += value(&d, i, j) != sum;
    }
  CHECK(wrong == 0);
  a_lines[0] = 2;
  REFUSED(ptxb_matmul_run(device, &p, workspace, bytes, NULL),
          "a_scales_1x128: it is [2,24] of f32, but must be float32");
  p.a_scales_1x128 = NULL;
  REFUSED(ptxb_matmul_run(device, &p, workspace, bytes, NULL), "only B has block scales");
  OK(ptxb_free(device, matrix));
  OK(ptxb_free(device, scales_of_a));
  OK(ptxb_free(device, scales_of_b));
  OK(ptxb_free(device, workspace));
  discard(&d);
}

/* B, as [n,k], has two nonzero elements in every four consecutive elements of a row. The same matrix then
 * takes the place of A. */
static void check_sparse(void) {
  enum { M = 24, N = 72, K = 100, LINES = 2, WORDS = 256 };
  static uint16_t dense[N * K], back[N * K], values[N * K / 2], x[M * K];
  static int32_t metadata[LINES * WORDS];
  memset(dense, 0, sizeof dense);
  for (int j = 0; j < N; ++j)
    for (int k = 0; k < K; k += 4)
      for (int i = 0; i < 2; ++i)
        dense[j * K + k + (j + k / 4 + i * (1 + j % 3)) % 4] = bf16_of((float)((j + k + i) % 7 - 3));
  for (int i = 0; i < M * K; ++i) x[i] = bf16_of((float)(i % 5 - 2));
  OK(ptxb_compress_2_4(bf16, dense, N, K, 0, values, metadata));
  OK(ptxb_decompress_2_4(bf16, values, metadata, N, K, back));
  CHECK(!memcmp(dense, back, sizeof dense));
  void *of_x, *of_values, *of_metadata, *workspace;
  OK(ptxb_allocate(device, sizeof x, &of_x));
  OK(ptxb_allocate(device, sizeof values, &of_values));
  OK(ptxb_allocate(device, sizeof metadata, &of_metadata));
  OK(ptxb_copy_in(device, of_x, x, sizeof x));
  OK(ptxb_copy_in(device, of_values, values, sizeof values));
  OK(ptxb_copy_in(device, of_metadata, metadata, sizeof metadata));
  for (int is_a = 0; is_a < 2; ++is_a) {
    /* D = X W^T, or its transpose, W X^T. */
    int64_t x_shape[2] = {is_a ? K : M, is_a ? M : K}, x_strides[2] = {is_a ? 1 : K, is_a ? K : 1},
            w_shape[2] = {is_a ? N : K / 2, is_a ? K / 2 : N},
            w_strides[2] = {is_a ? K / 2 : 1, is_a ? 1 : K / 2}, lines[2] = {LINES, WORDS};
    const ptxb_tensor
        dense_side = {.data = of_x, .ndim = 2, .dtype = bf16, .shape = x_shape, .strides = x_strides},
        sparse_side = {.data = of_values, .ndim = 2, .dtype = bf16, .shape = w_shape, .strides = w_strides},
        words = {.data = of_metadata, .ndim = 2, .dtype = {PTXB_INT, 32, 1}, .shape = lines};
    Matrix d;
    make(&d, f32, is_a ? N : M, is_a ? M : N, is_a ? M : N, 1, 0);
    ptxb_matmul p = PTXB_MATMUL_INIT;
    p.a = is_a ? &sparse_side : &dense_side, p.b = is_a ? &dense_side : &sparse_side, p.d = &d.tensor;
    *(is_a ? &p.a_metadata : &p.b_metadata) = &words;
    size_t bytes;
    OK(ptxb_matmul_workspace(device, &p, &bytes));
    CHECK(bytes > 0); /* TMA cannot load rows of 100 bytes */
    OK(ptxb_allocate(device, bytes, &workspace));
    OK(ptxb_matmul_run(device, &p, workspace, bytes, PTXB_OWN_STREAM));
    OK(ptxb_wait(device, PTXB_OWN_STREAM, 60000));
    OK(ptxb_copy_out(device, d.host, d.tensor.data, d.bytes));
    int wrong = 0;
    for (int64_t i = 0; i < M; ++i)
      for (int64_t j = 0; j < N; ++j) {
        float sum = 0;
        for (int64_t k = 0; k < K; ++k) sum += f32_of(x[i * K + k]) * f32_of(dense[j * K + k]);
        wrong += (is_a ? value(&d, j, i) : value(&d, i, j)) != sum;
      }
    CHECK(wrong == 0);
    lines[1] = 128;
    REFUSED(ptxb_matmul_run(device, &p, workspace, bytes, NULL),
            is_a ? "a_metadata: it is [2,128] of s32, but must be int32"
                 : "b_metadata: it is [2,128] of s32, but must be int32");
    *(is_a ? &p.a_metadata : &p.b_metadata) = NULL;
    REFUSED(ptxb_matmul_run(device, &p, workspace, bytes, NULL), "but D and A require [k,n]");
    OK(ptxb_free(device, workspace));
    discard(&d);
  }
  dense[K + 4] = dense[K + 5] = dense[K + 6] = bf16_of(1);
  REFUSED(ptxb_compress_2_4(bf16, dense, N, K, 0, values, metadata),
          "compress_2_4: in row 1, columns 4 to 7, more than two of these four elements are not zero");
  REFUSED(ptxb_compress_2_4(f32, dense, N, K, 0, values, metadata),
          "compress_2_4: the type of the matrix is f32, but only f16");
  REFUSED(ptxb_compress_2_4(bf16, back, N, K, 0, NULL, metadata), "where to put the values is NULL");
  memset(metadata, 0, sizeof metadata);
  REFUSED(ptxb_decompress_2_4(bf16, values, metadata, N, K, back),
          "the metadata of row 0, columns 0 to 3, names element 0 of these four twice");
  OK(ptxb_free(device, of_x));
  OK(ptxb_free(device, of_values));
  OK(ptxb_free(device, of_metadata));
}

/* Weights minus zero points are multiplied by scales that are powers of two, so that sums are exact. */
static void check_packed(unsigned seed) {
  enum { M = 8, N = 72, K = 160, GROUPS = 3, LINES = 2 };
  static uint8_t weights[N * K], zeros[N * GROUPS], back[N * K];
  static float scales[N * GROUPS];
  for (int i = 0; i < N * K; ++i) weights[i] = (uint8_t)((unsigned)i * 7 % 16);
  for (int i = 0; i < N * GROUPS; ++i) zeros[i] = (uint8_t)(i % 5), scales[i] = (float)(1 << i % 3);
  int64_t form, other;
  OK(ptxb_packed_form(PTXB_PACKED_UINT4, 64, f32, &form));
  OK(ptxb_packed_form(PTXB_PACKED_INT8, 0, f32, &other));
  REFUSED(ptxb_packed_form(PTXB_PACKED_UINT4, 48, f32, &form), "groups of 48 values along k");
  REFUSED(ptxb_packed_form(9, 64, f32, &form), "type 9 is not one of weight.def");
  REFUSED(ptxb_packed_form(PTXB_PACKED_UINT4, 64, e4m3, &form), "packed weights: the scales are");
  size_t bytes;
  OK(ptxb_packed_bytes(form, N, K, &bytes));
  REFUSED(ptxb_packed_bytes(3, N, K, &bytes), "packed_form 0x3 is not one");
  void* const packed = malloc(bytes);
  OK(ptxb_pack(form, N, K, weights, scales, zeros, packed));
  REFUSED(ptxb_pack(form, N, K, weights, scales, NULL, packed), "zeros is NULL");
  OK(ptxb_unpack(form, N, K, packed, back, scales, zeros));
  CHECK(memcmp(back, weights, sizeof back) == 0);
  Matrix a, d;
  make(&a, bf16, M, K, K, 1, 0);
  make(&d, f32, M, N, N, 1, 0);
  fill(&a, &seed);
  int64_t shape[2] = {LINES, (int64_t)bytes / LINES};
  ptxb_tensor b = {.ndim = 2, .dtype = {PTXB_UINT, 8, 1}, .shape = shape};
  OK(ptxb_allocate(device, bytes, &b.data));
  OK(ptxb_copy_in(device, b.data, packed, bytes));
  ptxb_matmul p = PTXB_MATMUL_INIT;
  p.a = &a.tensor, p.b = &b, p.d = &d.tensor, p.packed_form = form;
  void* workspace = NULL;
  size_t workspace_bytes;
  OK(ptxb_matmul_workspace(device, &p, &workspace_bytes));
  if (workspace_bytes > 0) OK(ptxb_allocate(device, workspace_bytes, &workspace));
  OK(ptxb_matmul_run(device, &p, workspace, workspace_bytes, PTXB_OWN_STREAM));
  OK(ptxb_wait(device, PTXB_OWN_STREAM, 60000));
  OK(ptxb_copy_out(device, d.host, d.tensor.data, d.bytes));
  int wrong = 0;
  for (int64_t i = 0; i < M; ++i)
    for (int64_t j = 0; j < N; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < K; ++k) {
        const int64_t group = j * GROUPS + k / 64;
        sum += value(&a, i, k) * (float)(weights[j * K + k] - zeros[group]) * scales[group];
      }
      wrong += value(&d, i, j) != sum;
    }
  CHECK(wrong == 0);
  p.packed_form = other; /* the product is known */
  REFUSED(ptxb_matmul_run(device, &p, workspace, workspace_bytes, NULL), "B: 1 batches of 2 x");
  p.packed_form = form, b.dtype.bits = 16;
  REFUSED(ptxb_matmul_run(device, &p, workspace, workspace_bytes, NULL),
          "packed weights must be uint8 without gaps");
  b.dtype.bits = 8;

  /* There are two experts with different weights. */
  enum { FIRST = 3 };
  static const int32_t ends[2] = {FIRST, M};
  static uint8_t more[N * K];
  for (int i = 0; i < N * K; ++i) more[i] = (uint8_t)((unsigned)i * 5 % 16);
  const ptxb_dtype s32 = {PTXB_INT, 32, 1};
  int64_t experts = 2, of_both[3] = {2, LINES, shape[1]};
  ptxb_tensor both = {.ndim = 3, .dtype = b.dtype, .shape = of_both};
  ptxb_tensor of_ends = {.ndim = 1, .dtype = s32, .shape = &experts};
  OK(ptxb_allocate(device, 2 * bytes, &both.data));
  OK(ptxb_allocate(device, sizeof ends, &of_ends.data));
  OK(ptxb_copy_in(device, of_ends.data, ends, sizeof ends));
  OK(ptxb_copy_in(device, both.data, packed, bytes));
  OK(ptxb_pack(form, N, K, more, scales, zeros, packed));
  OK(ptxb_copy_in(device, (char*)both.data + bytes, packed, bytes));
  p.b = &both, p.group_ends = &of_ends;
  OK(ptxb_free(device, workspace));
  workspace = NULL;
  OK(ptxb_matmul_workspace(device, &p, &workspace_bytes));
  if (workspace_bytes > 0) OK(ptxb_allocate(device, workspace_bytes, &workspace));
  OK(ptxb_matmul_run(device, &p, workspace, workspace_bytes, PTXB_OWN_STREAM));
  OK(ptxb_wait(device, PTXB_OWN_STREAM, 60000));
  OK(ptxb_copy_out(device, d.host, d.tensor.data, d.bytes));
  for (int64_t i = 0; i < M; ++i)
    for (int64_t j = 0; j < N; ++j) {
      const uint8_t* const of = i < FIRST ? weights : more;
      float sum = 0;
      for (int64_t k = 0; k < K; ++k) {
        const int64_t group = j * GROUPS + k / 64;
        sum += value(&a, i, k) * (float)(of[j * K + k] - zeros[group]) * scales[group];
      }
      wrong += value(&d, i, j) != sum;
    }
  CHECK(wrong == 0);
  int64_t gaps[3] = {2 * (int64_t)bytes, shape[1], 1};
  both.strides = gaps;
  REFUSED(ptxb_matmul_run(device, &p, workspace, workspace_bytes, NULL),
          "packed weights must be uint8 without gaps");
  OK(ptxb_free(device, both.data));
  OK(ptxb_free(device, of_ends.data));
  p.b = &b, p.group_ends = NULL, shape[1] -= 16;
  REFUSED(ptxb_matmul_run(device, &p, workspace, workspace_bytes, NULL), "[n/64,bytes]");
  OK(ptxb_free(device, b.data));
  OK(ptxb_free(device, workspace));
  discard(&a), discard(&d);
  free(packed);
}

/* Checks a product whose rows are in groups, each with its own matrix of B, and a product whose k is in the
 * same groups. The first group is empty. */
static void check_groups(unsigned seed) {
  enum { M = 40, N = 24, K = 16, GROUPS = 3 };
  static const int32_t ends[GROUPS] = {0, 13, 33};
  Matrix a, b, d, e, by_k;
  make(&a, bf16, M, K, K, 1, 0);
  make(&b, bf16, GROUPS * K, N, N, 1, 0);
  make(&d, f32, M, N, N, 1, 0);
  make(&e, bf16, M, N, N, 1, 0);
  make(&by_k, f32, GROUPS * K, N, N, 1, 0);
  fill(&a, &seed), fill(&b, &seed), fill(&e, &seed);
  void* memory;
  OK(ptxb_allocate(device, sizeof ends, &memory));
  OK(ptxb_copy_in(device, memory, ends, sizeof ends));
  const ptxb_dtype s32 = {PTXB_INT, 32, 1};
  int64_t groups = GROUPS, shape[3] = {GROUPS, K, N}, turned_shape[2] = {K, M}, turned[2] = {1, K};
  ptxb_tensor of_ends = {.data = memory, .ndim = 1, .dtype = s32, .shape = &groups};
  ptxb_tensor of_b = b.tensor, of_a = a.tensor, of_d = by_k.tensor;
  of_b.ndim = of_d.ndim = 3, of_b.shape = of_d.shape = shape, of_b.strides = of_d.strides = NULL;
  of_a.shape = turned_shape, of_a.strides = turned;
  ptxb_matmul p = PTXB_MATMUL_INIT;
  p.a = &a.tensor, p.b = &of_b, p.d = &d.tensor, p.group_ends = &of_ends;
  OK(ptxb_matmul_run(device, &p, NULL, 0, PTXB_OWN_STREAM));
  OK(ptxb_wait(device, PTXB_OWN_STREAM, 60000));
  OK(ptxb_copy_out(device, d.host, d.tensor.data, d.bytes));
  int wrong = 0;
  for (int64_t i = 0; i < M; ++i)
    for (int64_t j = 0; j < N; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < K && i < ends[2]; ++k)
        sum += value(&a, i, k) * value(&b, (i < ends[1] ? 1 : 2) * K + k, j);
      wrong += value(&d, i, j) != sum;
    }
  CHECK(wrong == 0);

  /* Each of two groups holds half of the rows. Only the first counts[g] rows of group g are computed, and
   * the other rows must not change. */
  enum { EACH = M / 2 };
  static const int32_t counts[2] = {7, EACH + 3};
  const float before = value(&d, 7, 0);
  OK(ptxb_copy_in(device, memory, counts, sizeof counts));
  groups = 2, p.group_ends = NULL, p.group_counts = &of_ends, shape[0] = 2;
  OK(ptxb_matmul_run(device, &p, NULL, 0, PTXB_OWN_STREAM));
  OK(ptxb_wait(device, PTXB_OWN_STREAM, 60000));
  OK(ptxb_copy_out(device, d.host, d.tensor.data, d.bytes));
  for (int64_t i = 0; i < M; ++i)
    for (int64_t j = 0; j < N && (i < 7 || i >= EACH); ++j) {
      float sum = 0;
      for (int64_t k = 0; k < K; ++k) sum += value(&a, i, k) * value(&b, i / EACH * K + k, j);
      wrong += value(&d, i, j) != sum;
    }
  CHECK(wrong == 0 && value(&d, 7, 0) == before);
  OK(ptxb_copy_in(device, memory, ends, sizeof ends));
  groups = GROUPS, p.group_ends = &of_ends, p.group_counts = NULL, shape[0] = GROUPS;

  /* The same groups use the matrices of B in a different order. */
  char* const start = b.tensor.data;
  const int64_t first = (int64_t)(uintptr_t)start, one = b.bytes / GROUPS;
  const int64_t starts[GROUPS] = {first, first + 2 * one, first};
  void* places;
  OK(ptxb_allocate(device, sizeof starts, &places));
  OK(ptxb_copy_in(device, places, starts, sizeof starts));
  const ptxb_dtype s64 = {PTXB_INT, 64, 1};
  ptxb_tensor of_starts = {.data = places, .ndim = 1, .dtype = s64, .shape = &groups};
  ptxb_tensor one_of_b = b.tensor;
  int64_t shape_of_one[2] = {K, N};
  one_of_b.data = start + one, one_of_b.shape = shape_of_one, one_of_b.strides = NULL;
  p.b = &one_of_b, p.b_addresses = &of_starts;
  OK(ptxb_matmul_run(device, &p, NULL, 0, PTXB_OWN_STREAM));
  OK(ptxb_wait(device, PTXB_OWN_STREAM, 60000));
  OK(ptxb_copy_out(device, d.host, d.tensor.data, d.bytes));
  for (int64_t i = 0; i < M; ++i)
    for (int64_t j = 0; j < N; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < K && i < ends[2]; ++k)
        sum += value(&a, i, k) * value(&b, (i < ends[1] ? 2 : 0) * K + k, j);
      wrong += value(&d, i, j) != sum;
    }
  CHECK(wrong == 0);
  REFUSED((p.b = &of_b, ptxb_matmul_run(device, &p, NULL, 0, NULL)), "b_addresses: B has 3 dimensions");
  of_starts.dtype = s32;
  REFUSED((p.b = &one_of_b, ptxb_matmul_run(device, &p, NULL, 0, NULL)),
          "b_addresses: it is [3] of s32, but must be int64");
  OK(ptxb_free(device, places));
  p.b = &of_b, p.b_addresses = NULL;

  p.a = &of_a, p.b = &e.tensor, p.d = &of_d;
  OK(ptxb_matmul_run(device, &p, NULL, 0, PTXB_OWN_STREAM));
  OK(ptxb_wait(device, PTXB_OWN_STREAM, 60000));
  OK(ptxb_copy_out(device, by_k.host, by_k.tensor.data, by_k.bytes));
  for (int64_t i = 0; i < GROUPS * K; ++i)
    for (int64_t j = 0; j < N; ++j) {
      float sum = 0;
      const int64_t g = i / K;
      for (int64_t m = g == 0 ? 0 : ends[g - 1]; m < ends[g]; ++m)
        sum += value(&a, m, i % K) * value(&e, m, j);
      wrong += value(&by_k, i, j) != sum;
    }
  CHECK(wrong == 0);
  REFUSED((p.a = &a.tensor, ptxb_matmul_run(device, &p, NULL, 0, NULL)),
          "A: 1 batches of 40 x 16, but D and A require");
  p.a = &a.tensor, p.b = &of_b, p.d = &of_d;
  REFUSED(ptxb_matmul_run(device, &p, NULL, 0, NULL), "group_ends: A, B and D have 2, 3 and 3 dimensions");
  p.d = &d.tensor, groups = 2;
  REFUSED(ptxb_matmul_run(device, &p, NULL, 0, NULL), "group_ends: it is [2] of s32, but must be int32");

  /* Rows of A are taken in reverse order, one of them twice, and two indices are outside A. */
  groups = GROUPS;
  int32_t rows[M];
  for (int i = 0; i < M; ++i) rows[i] = i == 3 ? -1 : i == 7 ? M : i == 9 ? 0 : M - 1 - i;
  void* numbers;
  OK(ptxb_allocate(device, sizeof rows, &numbers));
  OK(ptxb_copy_in(device, numbers, rows, sizeof rows));
  int64_t count = M;
  ptxb_tensor of_rows = {.data = numbers, .ndim = 1, .dtype = s32, .shape = &count};
  p.a_rows = &of_rows;
  OK(ptxb_matmul_run(device, &p, NULL, 0, PTXB_OWN_STREAM));
  OK(ptxb_wait(device, PTXB_OWN_STREAM, 60000));
  OK(ptxb_copy_out(device, d.host, d.tensor.data, d.bytes));
  for (int64_t i = 0; i < M; ++i)
    for (int64_t j = 0; j < N; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < K && i < ends[2] && rows[i] >= 0 && rows[i] < M; ++k)
        sum += value(&a, rows[i], k) * value(&b, (i < ends[1] ? 1 : 2) * K + k, j);
      wrong += value(&d, i, j) != sum;
    }
  CHECK(wrong == 0);

  /* The rows of D are in reverse order too; two of the indices are outside D. */
  rows[9] = -1; /* otherwise, two rows would have the same place in D */
  OK(ptxb_copy_in(device, numbers, rows, sizeof rows));
  p.d_rows = &of_rows;
  OK(ptxb_matmul_run(device, &p, NULL, 0, PTXB_OWN_STREAM));
  OK(ptxb_wait(device, PTXB_OWN_STREAM, 60000));
  OK(ptxb_copy_out(device, d.host, d.tensor.data, d.bytes));
  for (int64_t i = 0; i < M; ++i)
    for (int64_t j = 0; j < N && rows[i] >= 0 && rows[i] < M; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < K && i < ends[2]; ++k)
        sum += value(&a, rows[i], k) * value(&b, (i < ends[1] ? 1 : 2) * K + k, j);
      wrong += value(&d, rows[i], j) != sum;
    }
  CHECK(wrong == 0);

  /* Several rows of the product are added to each of the first rows of D, which are zeros. */
  enum { FEW = 5 };
  for (int i = 0; i < M; ++i) rows[i] = rows[i] < 0 ? -1 : rows[i] % FEW;
  OK(ptxb_copy_in(device, numbers, rows, sizeof rows));
  memset(d.host, 0, d.bytes);
  OK(ptxb_copy_in(device, d.tensor.data, d.host, d.bytes));
  REFUSED((p.add_to_rows = &of_rows, ptxb_matmul_run(device, &p, NULL, 0, NULL)), "d_rows and add_to_rows");
  p.d_rows = NULL;
  OK(ptxb_matmul_run(device, &p, NULL, 0, PTXB_OWN_STREAM));
  OK(ptxb_wait(device, PTXB_OWN_STREAM, 60000));
  OK(ptxb_copy_out(device, d.host, d.tensor.data, d.bytes));
  for (int64_t row = 0; row < M; ++row)
    for (int64_t j = 0; j < N; ++j) {
      float sum = 0;
      for (int64_t i = 0; i < M && i < ends[2]; ++i)
        for (int64_t k = 0; k < K && rows[i] == row; ++k)
          sum += value(&a, rows[i], k) * value(&b, (i < ends[1] ? 1 : 2) * K + k, j);
      wrong += value(&d, row, j) != sum;
    }
  CHECK(wrong == 0);
  p.add_to_rows = NULL;
  count = M - 1;
  REFUSED(ptxb_matmul_run(device, &p, NULL, 0, NULL), "a_rows: it is [39] of s32, but must be int32");
  count = M, of_rows.dtype = f32;
  REFUSED(ptxb_matmul_run(device, &p, NULL, 0, NULL), "a_rows: it is [40] of f32, but must be int32");
  of_rows.dtype = s32, of_d = by_k.tensor, of_d.ndim = 3, of_d.shape = shape, of_d.strides = NULL;
  p.a = &of_a, p.b = &e.tensor, p.d = &of_d;
  REFUSED(ptxb_matmul_run(device, &p, NULL, 0, NULL), "a_rows");
  OK(ptxb_free(device, numbers));
  OK(ptxb_free(device, memory));
  discard(&a), discard(&b), discard(&d), discard(&e), discard(&by_k);
}

static void check_epilogue_mistakes(void) {
  Epilogue e;
  make_epilogue(&e, bf16, bf16, kN, 1);
  const ptxb_matmul good = e.p;
  size_t bytes;
#define MISTAKE(change, words)                                     \
  do {                                                             \
    e.p = good;                                                    \
    change;                                                        \
    REFUSED(ptxb_matmul_workspace(device, &e.p, &bytes), (words)); \
  } while (0)
  MISTAKE(e.p.use = 3, "use 3 is not a ptxb_use");
  MISTAKE(e.p.use = PTXB_GATE,
          "use is PTXB_GATE, but activation is PTXB_NONE: set the activation to which it belongs");
  e.p.activation = PTXB_SILU;
  MISTAKE((e.p.activation = PTXB_SILU, e.p.use = PTXB_GATE),
          "D: it has 32 columns, but a gate of B's 32 columns must have 16");
  MISTAKE((e.p.activation = PTXB_SILU, e.p.use = PTXB_SLOPE), "use is PTXB_SLOPE, but inputs is NULL");
  MISTAKE(e.p.inputs = &e.inputs.tensor, "inputs is given, but use is not PTXB_SLOPE");
  MISTAKE((e.p.activation = PTXB_SILU, e.p.use = PTXB_SLOPE, e.p.inputs = &e.a.tensor),
          "inputs: 1 batches of 24 x 64, but D and A require [m,n] 1 of 24 x 32");
  MISTAKE((e.p.activation = PTXB_SILU, e.p.use = PTXB_SLOPE, e.p.inputs = &e.d.tensor), "D overlaps inputs");
  MISTAKE(e.p.row_scales = &e.columns.tensor,
          "row_scales: it is [1,32] of f32, but must be float32 of [24] or [24,1]");
  MISTAKE(e.p.column_scales = &e.rows.tensor,
          "column_scales: it is [24,1] of f32, but must be float32 of [32] or [1,32]");
  MISTAKE(e.p.column_scales = &e.bias.tensor,
          "column_scales: it is [32] of bf16, but must be float32 of [32] or [1,32]");
  MISTAKE(e.p.alpha_in_memory = &e.rows.tensor,
          "alpha_in_memory: it is [24,1] of f32, but must be one float32, [1]");
  MISTAKE(e.p.d_scale = &e.bias.tensor, "d_scale: it is [32] of bf16, but must be one float32, [1]");
  MISTAKE(e.p.amax = &e.rows.tensor, "amax: it is [24,1] of f32, but must be one float32, [1]");
  e.rows.strides[0] = 2;
  MISTAKE(e.p.row_scales = &e.rows.tensor, "row_scales: it has gaps: make it contiguous");
  void* const amax = e.amax.tensor.data;
  e.rows.strides[0] = 1, e.amax.tensor.data = e.d.tensor.data;
  MISTAKE(e.p.amax = &e.amax.tensor, "D overlaps amax, which is written while D is written");
  e.amax.tensor.data = e.rows.tensor.data;
  MISTAKE((e.p.amax = &e.amax.tensor, e.p.row_scales = &e.rows.tensor),
          "amax overlaps row_scales, which is read while amax is written: give amax memory of its own");
  e.amax.tensor.data = e.a.tensor.data;
  MISTAKE(e.p.amax = &e.amax.tensor, "amax overlaps A");
  e.amax.tensor.data = NULL;
  MISTAKE(e.p.amax = &e.amax.tensor, "amax: data is NULL");
  e.amax.tensor.data = amax;
  void *const rows = e.rows.tensor.data, *const bias = e.bias.tensor.data;
  e.rows.tensor.data = e.bias.tensor.data = NULL;
  MISTAKE(e.p.row_scales = &e.rows.tensor, "row_scales: data is NULL");
  MISTAKE(e.p.bias = &e.bias.tensor, "bias: data is NULL");
  e.rows.tensor.data = rows, e.bias.tensor.data = bias;
  Matrix d;
  make(&d, bf16, kM, kN / 2, kN, 1, 0);
  MISTAKE(
      (e.p.d = &d.tensor, e.p.activation = PTXB_SILU, e.p.use = PTXB_GATE, e.p.c = &e.c.tensor, e.p.beta = 1),
      "a gate cannot be used with beta C");
#undef MISTAKE
  discard(&d);
  discard_epilogue(&e);
}

/* Simulates a program that was built with an older header without `inputs`, so that its struct ends before
 * that field. */
static void check_older_struct(unsigned seed) {
  Epilogue e;
  const size_t before = offsetof(ptxb_matmul, inputs);
  make_epilogue(&e, bf16, f32, kN, seed);
  e.p.size = before;
  unsigned char* older = malloc(sizeof e.p);
  memset(older, 0xa5, sizeof e.p);
  memcpy(older, &e.p, before);
  for (int twice = 0; twice < 2; ++twice) CHECK(wrong_again((const void*)older, &e.a, &e.b, &e.d) == 0);
  e.p.size = sizeof e.p;
  CHECK(wrong_again(&e.p, &e.a, &e.b, &e.d) == 0);
  CHECK(wrong_again((const void*)older, &e.a, &e.b, &e.d) == 0);
  void* exact = malloc(before); /* a sanitizer would report a read beyond the end */
  memcpy(exact, older, before);
  CHECK(wrong_again(exact, &e.a, &e.b, &e.d) == 0);
  free(older), free(exact);
  discard_epilogue(&e);
}

static void* in_thread(void* number) {
  const unsigned i = (unsigned)(uintptr_t)number;
  return (void*)(uintptr_t)wrong_of(40 + 8 * (i % 3), 48, 64, 0, 0, 0, 0, i);
}

/* d[i] = a x[i] + d[i] */
static const char saxpy[] =
    "define ptx_kernel void @saxpy(ptr addrspace(1) %d, ptr addrspace(1) %x, float %a) "
    "\"nvvm.maxntid\"=\"64\" {\n"
    "  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"
    "  %px = getelementptr float, ptr addrspace(1) %x, i32 %i\n"
    "  %pd = getelementptr float, ptr addrspace(1) %d, i32 %i\n"
    "  %vx = load float, ptr addrspace(1) %px\n"
    "  %vd = load float, ptr addrspace(1) %pd\n"
    "  %ax = fmul float %a, %vx\n"
    "  %sum = fadd float %ax, %vd\n"
    "  store float %sum, ptr addrspace(1) %pd\n"
    "  ret void\n"
    "}\n"
    "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n";

static void check_kernels(void) {
  ptxb_kernel *kernel = NULL, *none = NULL;
  OK(ptxb_load_ir(device, saxpy, sizeof saxpy - 1, NULL, &kernel));
  CHECK(strstr(ptxb_kernel_sidecar(kernel), "\"saxpy\""));
  Matrix d, x;
  unsigned seed = 5;
  make(&d, f32, 1, 64, 64, 1, 0);
  make(&x, f32, 1, 64, 64, 1, 0);
  fill(&d, &seed), fill(&x, &seed);
  const uint32_t grid[3] = {1, 1, 1}, no_grid[3] = {0, 0, 0};
  ptxb_argument arguments[] = {ptxb_of_tensor(&d.tensor), ptxb_of_tensor(&x.tensor), ptxb_of_float(3)};
  arguments[2].name = "a";
  OK(ptxb_launch(kernel, grid, arguments, 3, PTXB_OWN_STREAM));
  float wanted[64], got[64];
  for (int i = 0; i < 64; ++i) wanted[i] = 3 * value(&x, 0, i) + value(&d, 0, i);
  OK(ptxb_copy_out(device, got, d.tensor.data, sizeof got));
  CHECK(memcmp(got, wanted, sizeof got) == 0);

  REFUSED(ptxb_launch(kernel, no_grid, arguments, 3, PTXB_OWN_STREAM), "the grid is missing");
  REFUSED(ptxb_launch(kernel, NULL, arguments, 3, PTXB_OWN_STREAM), "the grid is missing");
  REFUSED(ptxb_launch(kernel, grid, arguments, 2, PTXB_OWN_STREAM),
          "kernel 'saxpy' takes 3 arguments, but 2 were given");
  arguments[2].name = "b";
  REFUSED(ptxb_launch(kernel, grid, arguments, 3, PTXB_OWN_STREAM), "the argument is named 'b'");
  arguments[2] = ptxb_of_tensor(&x.tensor);
  REFUSED(ptxb_launch(kernel, grid, arguments, 3, PTXB_OWN_STREAM),
          "parameter 'a' is a scalar, but a tensor was given");
  arguments[2] = ptxb_of_float(3);
  arguments[2].scalar = 99;
  REFUSED(ptxb_launch(kernel, grid, arguments, 3, PTXB_OWN_STREAM),
          "scalar is 99, which is not a ptxb_scalar");
  arguments[2] = ptxb_of_float(3);
  arguments[2].name = "";
  REFUSED(ptxb_launch(kernel, grid, arguments, 3, PTXB_OWN_STREAM), "name is empty; use NULL for no name");
  arguments[2] = ptxb_of_float(3);
  arguments[2].field_count = 5;
  REFUSED(ptxb_launch(kernel, grid, arguments, 3, PTXB_OWN_STREAM), "field_count is 5, but fields is NULL");
  arguments[2] = ptxb_of_float(3);
  arguments[0].bits = 7;
  REFUSED(ptxb_launch(kernel, grid, arguments, 3, PTXB_OWN_STREAM),
          "the bits of a scalar and a tensor are both given");
  arguments[0].bits = 0;
  arguments[2] = ptxb_of_integer(3);
  REFUSED(ptxb_launch(kernel, grid, arguments, 3, PTXB_OWN_STREAM),
          "'a' has type f32, but the integer 3 was given");
  arguments[2] = ptxb_of_float(3);
  arguments[0] = ptxb_of_integer(1);
  REFUSED(ptxb_launch(kernel, grid, arguments, 3, PTXB_OWN_STREAM), "parameter 'd' takes a tensor");
  arguments[0] = ptxb_of_tensor(&d.tensor);
  REFUSED(ptxb_load_ir(device, saxpy, sizeof saxpy - 1, "other", &none),
          "the IR has no kernel 'other'; it has: saxpy");
  FAILS(PTXB_COMPILE, ptxb_load_ir(device, "nonsense", 8, NULL, &none), "the IR:1:1: ");
  CHECK(!strchr(ptxb_error(), '(')); /* names no line of the library's own C++ */
  REFUSED(ptxb_load(device, "/nowhere/saxpy", NULL, &none), "/nowhere/saxpy");
  REFUSED(ptxb_load_image(device, "neither", 7, ptxb_kernel_sidecar(kernel), &none), "");
  REFUSED(ptxb_load_image(device, "x", 1, "{", &none), "the sidecar: line 1, column 2: no JSON");
  CHECK(none == NULL);
  REFUSED(ptxb_copy_in(device, d.tensor.data, NULL, 8), "what is copied is NULL");
  REFUSED(ptxb_copy_out(device, NULL, d.tensor.data, 8), "where to put the copy is NULL");
  REFUSED(ptxb_wait(device, PTXB_OWN_STREAM, -5), "a wait of -5 ms");
  /* A kernel may be freed while its launches are still queued. */
  OK(ptxb_copy_in(device, d.tensor.data, got, sizeof got));
  OK(ptxb_launch(kernel, grid, arguments, 3, PTXB_OWN_STREAM));
  ptxb_kernel_free(kernel);
  ptxb_kernel_free(NULL);
  OK(ptxb_wait(device, PTXB_OWN_STREAM, 10000));
  for (int i = 0; i < 64; ++i) wanted[i] += 3 * value(&x, 0, i);
  OK(ptxb_copy_out(device, got, d.tensor.data, sizeof got));
  CHECK(memcmp(got, wanted, sizeof got) == 0);
  discard(&d), discard(&x);
}

/* d[0] = u + v */
static const char sum[] =
    ".version 8.0\n.target sm_90a\n.address_size 64\n"
    ".visible .entry sum(.param .u64 d, .param .s16 u, .param .f64 v)\n.maxntid 1\n{\n"
    ".reg .b16 %u;\n.reg .b64 %d;\n.reg .f64 %v, %f;\n"
    "ld.param.u64 %d, [d];\nld.param.s16 %u, [u];\nld.param.f64 %v, [v];\n"
    "cvt.rn.f64.s16 %f, %u;\nadd.f64 %f, %f, %v;\nst.global.f64 [%d], %f;\nret;\n}\n";
static const char sum_sidecar[] =
    "{\"format\": 1, \"kernel\": \"sum\", \"target\": \"sm_90a\", \"ptx_version\": 80, \"threads\": 1,"
    "\"cluster\": [1, 1, 1], \"static_shared_bytes\": 0, \"dynamic_shared_bytes\": 0, \"parameters\": ["
    "{\"name\": \"d\", \"kind\": \"pointer\", \"dtype\": \"f64\"},"
    "{\"name\": \"u\", \"kind\": \"scalar\", \"dtype\": \"s16\"},"
    "{\"name\": \"v\", \"kind\": \"scalar\", \"dtype\": \"f64\"}], \"grid\": [\"1\", \"1\", \"1\"]}";

static int is_third(void* count) { return ++*(int*)count == 3; }

static void check_scalars(int is_emulator) {
  ptxb_kernel* kernel = NULL;
  OK(ptxb_load_image(device, sum, sizeof sum - 1, sum_sidecar, &kernel));
  if (!kernel) return;
  Matrix d;
  const ptxb_dtype f64 = {PTXB_FLOAT, 64, 1};
  make(&d, f64, 1, 1, 1, 1, 0);
  ptxb_argument all[] = {ptxb_of_tensor(&d.tensor), ptxb_of_integer(-32768), ptxb_of_float(0.25f)};
  double got = 0;
  OK(ptxb_launch(kernel, NULL, all, 3, PTXB_OWN_STREAM));
  OK(ptxb_copy_out(device, &got, d.tensor.data, sizeof got));
  CHECK(got == -32767.75);
  all[1] = ptxb_of_bits(0xffff);
  OK(ptxb_launch(kernel, NULL, all, 3, PTXB_OWN_STREAM));
  OK(ptxb_copy_out(device, &got, d.tensor.data, sizeof got));
  CHECK(got == -0.75);
  all[1] = ptxb_of_integer(32768);
  REFUSED(ptxb_launch(kernel, NULL, all, 3, PTXB_OWN_STREAM),
          "'u' has type s16, but the integer 32768 was given");
  all[1] = ptxb_of_float(1);
  REFUSED(ptxb_launch(kernel, NULL, all, 3, PTXB_OWN_STREAM), "'u' has type s16, but a float was given");
  if (is_emulator) { /* a million emulated CTAs take longer than 20 ms */
    const uint32_t many[3] = {1000000, 1, 1};
    all[1] = ptxb_of_integer(0);
    OK(ptxb_launch(kernel, many, all, 3, PTXB_OWN_STREAM));
    CHECK(ptxb_wait(device, PTXB_OWN_STREAM, 20) == PTXB_TIMEOUT);
    int asked = 0;
    ptxb_interrupt_by(is_third, &asked);
    OK(ptxb_launch(kernel, many, all, 3, PTXB_OWN_STREAM));
    CHECK(ptxb_wait(device, PTXB_OWN_STREAM, 600000) == PTXB_TIMEOUT && asked == 3);
    CHECK(strstr(ptxb_error(), "kernel sum was interrupted"));
    ptxb_interrupt_by(NULL, NULL);
    OK(ptxb_launch(kernel, NULL, all, 3, PTXB_OWN_STREAM));
    OK(ptxb_wait(device, PTXB_OWN_STREAM, 600000));
    CHECK(asked == 3);
  }
  ptxb_kernel_free(kernel);
  discard(&d);
}

/* s.d[i] = s.a i */
static const char scaled[] =
    ".version 8.0\n.target sm_90a\n.address_size 64\n"
    ".visible .entry scaled(.param .align 8 .b8 s[16])\n.maxntid 64\n{\n"
    ".reg .b32 %i;\n.reg .f32 %a, %f;\n.reg .b64 %d, %o;\n"
    "ld.param.u64 %d, [s];\nld.param.f32 %a, [s+8];\nmov.u32 %i, %tid.x;\n"
    "cvt.rn.f32.u32 %f, %i;\nmul.f32 %f, %f, %a;\nmul.wide.u32 %o, %i, 4;\nadd.s64 %d, %d, %o;\n"
    "st.global.f32 [%d], %f;\nret;\n}\n";
static const char scaled_sidecar[] =
    "{\"format\": 1, \"kernel\": \"scaled\", \"target\": \"sm_90a\", \"ptx_version\": 80, \"threads\": 64,"
    "\"cluster\": [1, 1, 1], \"static_shared_bytes\": 0, \"dynamic_shared_bytes\": 0, \"parameters\": ["
    "{\"name\": \"s\", \"kind\": \"struct\", \"bytes\": 16, \"fields\": ["
    "{\"name\": \"d\", \"kind\": \"pointer\", \"dtype\": \"f32\", \"offset\": 0},"
    "{\"name\": \"a\", \"kind\": \"scalar\", \"dtype\": \"f32\", \"offset\": 8}]}], \"grid\": [\"1\", \"1\", "
    "\"1\"]}";

static void check_structs(void) {
  ptxb_kernel* kernel = NULL;
  OK(ptxb_load_image(device, scaled, sizeof scaled - 1, scaled_sidecar, &kernel));
  if (!kernel) return;
  Matrix d;
  unsigned seed = 6;
  make(&d, f32, 1, 64, 64, 1, 0);
  fill(&d, &seed);
  ptxb_argument fields[] = {ptxb_of_tensor(&d.tensor), ptxb_of_float(0.5f)};
  fields[1].name = "a";
  ptxb_argument all = ptxb_of_struct(fields, 2);
  OK(ptxb_launch(kernel, NULL, &all, 1, PTXB_OWN_STREAM));
  float got[64];
  OK(ptxb_copy_out(device, got, d.tensor.data, sizeof got));
  for (int i = 0; i < 64; ++i) CHECK(got[i] == 0.5f * (float)i);

  fields[1].name = "b";
  REFUSED(ptxb_launch(kernel, NULL, &all, 1, PTXB_OWN_STREAM), "field 1 'a': the argument is named 'b'");
  fields[1] = fields[0];
  REFUSED(ptxb_launch(kernel, NULL, &all, 1, PTXB_OWN_STREAM), "'a' is a scalar, but a tensor was given");
  all.field_count = 1;
  REFUSED(ptxb_launch(kernel, NULL, &all, 1, PTXB_OWN_STREAM),
          "'s' takes a struct of 2 fields, but 1 were given");
  all = ptxb_of_integer(1);
  REFUSED(ptxb_launch(kernel, NULL, &all, 1, PTXB_OWN_STREAM), "'s' takes a struct, but a scalar was given");
  ptxb_kernel_free(kernel);
  discard(&d);
}

static void check_mistakes(int is_emulator) {
  Matrix a, b, d;
  unsigned seed = 1;
  size_t bytes;
  make(&a, bf16, 32, 64, 64, 1, 0);
  make(&b, bf16, 64, 48, 48, 1, 0);
  make(&d, f32, 32, 48, 48, 1, 0);
  fill(&a, &seed), fill(&b, &seed);
  ptxb_matmul p = PTXB_MATMUL_INIT;
  REFUSED(ptxb_matmul_workspace(device, &p, &bytes), "A is NULL");
  p.a = &a.tensor, p.b = &b.tensor, p.d = &d.tensor;
  OK(ptxb_matmul_workspace(device, &p, &bytes));
  REFUSED(ptxb_matmul_tune(NULL, &p, PTXB_OWN_STREAM), "the device is NULL");
  REFUSED(ptxb_matmul_tune(device, NULL, PTXB_OWN_STREAM), "the product is NULL");
  if (is_emulator)
    FAILS(PTXB_ERROR, ptxb_matmul_tune(device, &p, PTXB_OWN_STREAM), "tuning needs a GPU");
  else
    OK(ptxb_matmul_tune(device, &p, PTXB_OWN_STREAM));
  REFUSED(ptxb_matmul_workspace(device, &p, NULL), "where to put the bytes is NULL");
  REFUSED(ptxb_matmul_workspace(NULL, &p, &bytes), "the device is NULL");
  REFUSED(ptxb_matmul_workspace(device, NULL, &bytes), "the product is NULL");
  p.size = 8;
  REFUSED(ptxb_matmul_workspace(device, &p, &bytes), "the size of this ptxb_matmul is 8 bytes, but it has");
  p.size = sizeof p;
  p.beta = 1;
  REFUSED(ptxb_matmul_workspace(device, &p, &bytes), "beta is 1, but C is NULL");
  p.beta = 0, p.activation = 9;
  REFUSED(ptxb_matmul_workspace(device, &p, &bytes), "activation 9 is not a ptxb_activation");
  p.activation = PTXB_NONE;
  b.shape[0] = 32;
  REFUSED(ptxb_matmul_workspace(device, &p, &bytes),
          "B: 1 batches of 32 x 48, but D and A require [k,n] 1 of 64 x 48");
  b.shape[0] = 64, b.strides[0] = 96, b.strides[1] = 2;
  REFUSED(ptxb_matmul_workspace(device, &p, &bytes),
          "B: its strides are 96 and 2, but one of them must be 1");
  b.strides[0] = 0, b.strides[1] = 1; /* like the result of `expand` */
  REFUSED(ptxb_matmul_workspace(device, &p, &bytes),
          "B: rows begin 0 elements apart, but have 48 elements: make it contiguous");
  b.strides[0] = -48;
  REFUSED(ptxb_matmul_workspace(device, &p, &bytes), "B: dimension 0 has 64 elements and stride -48");
  b.strides[0] = 48, d.strides[0] = 1, d.strides[1] = 32;
  REFUSED(ptxb_matmul_workspace(device, &p, &bytes),
          "D: its columns are 32 elements apart, but must be 1 apart");
  d.strides[0] = 48, d.strides[1] = 1;
  a.tensor.dtype.lanes = 2;
  REFUSED(ptxb_matmul_workspace(device, &p, &bytes), "A: its type is not supported: code 4, 16 bits, 2");
  a.tensor.dtype.lanes = 1, a.tensor.ndim = 4;
  REFUSED(ptxb_matmul_workspace(device, &p, &bytes),
          "A: 4 dimensions; a matrix must have 2, or 3 with batches in front");
  a.tensor.ndim = 1000000; /* far more than its shape has */
  REFUSED(ptxb_matmul_workspace(device, &p, &bytes), "A: it has 1000000 dimensions, but must have at most 5");
  a.tensor.ndim = 2, a.tensor.device.type = 1;
  REFUSED(ptxb_matmul_workspace(device, &p, &bytes), "A: its memory is on");
  a.tensor.device.type = 0, a.tensor.dtype = b.tensor.dtype = f32;
  REFUSED(ptxb_matmul_workspace(device, &p, &bytes), "set `tf32` to allow it");
  a.tensor.dtype = b.tensor.dtype = bf16;
  p.d = &a.tensor;
  REFUSED(ptxb_matmul_workspace(device, &p, &bytes),
          "B: 1 batches of 64 x 48, but D and A require [k,n] 1 of 64 x 64");
  discard(&a), discard(&b), discard(&d);
}

/* Queries of 0 give all keys the same weight, so that a row of O is the mean of the values that its query
 * sees. Value j of head h is j + h. The operands are one tensor of two batches, or two packed sequences of
 * different lengths. */
enum { kQueries = 20, kHeads = 2, kColumns = 16, kRows = 2 * kQueries };
static int is_near(float a, double b) { return a >= b - 0.02 * b - 0.02 && a <= b + 0.02 * b + 0.02; }

/* If dO is 1, dV of key j is the sum of the weights 1 / (i + 1) of the queries i that see it, and dK is 0
 * because Q is 0. All keys are alike, with elements of 3, so that dQ results only from lse. The gradient
 * of lse is lse itself here, and the scale is 1/4; slopes up to 270 are rounded to bf16. */
static void check_attention_gradient(const ptxb_attention* attention, int packed, int64_t* shape,
                                     const int32_t* begins) {
  ptxb_attention_gradient p = PTXB_ATTENTION_GRADIENT_INIT;
  Matrix grad, d[3], workspace;
  Matrix* all[] = {&grad, &d[0], &d[1], &d[2]};
  size_t bytes = 0;
  for (int i = 0; i < 4; ++i) {
    make(all[i], bf16, kRows, kHeads * kColumns, kHeads * kColumns, 1, 0);
    const uint16_t one = bf16_of(1);
    for (int64_t k = 0; k < kRows * kHeads * kColumns && i == 0; ++k)
      memcpy((uint16_t*)grad.host + k, &one, sizeof one);
    OK(ptxb_copy_in(device, all[i]->tensor.data, all[i]->host, all[i]->bytes));
    all[i]->tensor.ndim = packed ? 3 : 4;
    all[i]->tensor.shape = packed ? shape + 1 : shape;
    all[i]->tensor.strides = NULL;
  }
  p.attention = attention;
  p.grad = &grad.tensor, p.dq = &d[0].tensor, p.dk = &d[1].tensor, p.dv = &d[2].tensor;
  p.lse_grad = attention->lse, p.deterministic = 1;
  OK(ptxb_attention_gradient_workspace(device, &p, &bytes));
  make(&workspace, (ptxb_dtype){PTXB_INT, 32, 1}, 1, (int64_t)bytes / 4 + 1, 1, 1, 0);
  OK(ptxb_attention_gradient_run(device, &p, workspace.tensor.data, bytes, PTXB_OWN_STREAM));
  int wrong = 0;
  for (int i = 0; i < 3; ++i) OK(ptxb_copy_out(device, d[i].host, d[i].tensor.data, d[i].bytes));
  for (int64_t row = 0; row < kRows; ++row)
    for (int64_t column = 0; column < kHeads * kColumns; ++column) {
      const int64_t first = row >= begins[1] ? begins[1] : 0, end = row >= begins[1] ? kRows : begins[1];
      double sum = 0;
      for (int64_t i = row; i < end; ++i) sum += 1.0 / (double)(i - first + 1);
      const double exact[3] = {0.75 * log((double)(row - first + 1)), 0, sum};
      for (int i = 0; i < 3; ++i) {
        const float found = f32_of(((uint16_t*)d[i].host)[row * kHeads * kColumns + column]);
        if (i == 0 ? fabs(found - exact[0]) > 0.25 : !is_near(found, exact[i])) ++wrong;
      }
    }
  CHECK(wrong == 0);
  REFUSED(ptxb_attention_gradient_run(device, &p, NULL, 0, PTXB_OWN_STREAM),
          "this call needs a workspace of");
  discard(&workspace);
  p.dv = NULL;
  REFUSED(ptxb_attention_gradient_workspace(device, &p, &bytes), "dV is NULL");
  p.dv = attention->lse;
  REFUSED(ptxb_attention_gradient_workspace(device, &p, &bytes),
          packed ? "dV: 2 dimensions" : "dV: 3 dimensions");
  p.attention = NULL;
  REFUSED(ptxb_attention_gradient_workspace(device, &p, &bytes), "the attention is NULL");
  p.size = 8;
  REFUSED(ptxb_attention_gradient_workspace(device, &p, &bytes),
          "the size of this ptxb_attention_gradient is 8 bytes");
  REFUSED(ptxb_attention_gradient_run(device, NULL, NULL, 0, PTXB_OWN_STREAM), "the gradient is NULL");
  for (int i = 0; i < 4; ++i) discard(all[i]);
}

/* A sink of 0 acts like one more key whose value is 0, so that weights are 1 / (i + 2). The sink's
 * gradient is the sum of w (g - s) over the queries: w is the sink's weight, g is the gradient of lse
 * (here lse itself), and s is the sum of the query's row of O, because dO is 1. If half of the weights are
 * dropped, the only weight of the first query, which sees one key, is 0 or 2. */
static void check_sinks_and_dropout(const ptxb_attention* attention, int packed, int64_t* shape,
                                    const int32_t* begins) {
  Matrix sinks, dsinks, seed, grad, d[3], workspace;
  Matrix* all[] = {&grad, &d[0], &d[1], &d[2]};
  int64_t heads = kHeads, words = 4;
  const uint16_t one = bf16_of(1);
  const int32_t numbers[4] = {1, 2, 3, 4};
  size_t bytes = 0;
  make(&sinks, f32, 1, kHeads, kHeads, 1, 0), make(&dsinks, f32, 1, kHeads, kHeads, 1, 0);
  for (Matrix* x = &sinks; x; x = x == &sinks ? &dsinks : NULL)
    x->tensor.ndim = 1, x->tensor.shape = &heads, x->tensor.strides = NULL;
  memset(sinks.host, 0, sinks.bytes);
  OK(ptxb_copy_in(device, sinks.tensor.data, sinks.host, sinks.bytes));
  make(&seed, (ptxb_dtype){PTXB_INT, 32, 1}, 1, 4, 4, 1, 0);
  OK(ptxb_copy_in(device, seed.tensor.data, numbers, sizeof numbers));
  seed.tensor.ndim = 1, seed.tensor.shape = &words, seed.tensor.strides = NULL;
  for (int i = 0; i < 4; ++i) {
    make(all[i], bf16, kRows, kHeads * kColumns, kHeads * kColumns, 1, 0);
    for (int64_t k = 0; k < kRows * kHeads * kColumns; ++k)
      memcpy((uint16_t*)all[i]->host + k, &one, sizeof one);
    OK(ptxb_copy_in(device, all[i]->tensor.data, all[i]->host, all[i]->bytes));
    all[i]->tensor.ndim = packed ? 3 : 4;
    all[i]->tensor.shape = packed ? shape + 1 : shape;
    all[i]->tensor.strides = NULL;
  }
  ptxb_attention p = *attention;
  p.sinks = &sinks.tensor;
  ptxb_attention_gradient g = PTXB_ATTENTION_GRADIENT_INIT;
  g.attention = &p, g.grad = &grad.tensor, g.dq = &d[0].tensor, g.dk = &d[1].tensor, g.dv = &d[2].tensor;
  g.lse_grad = p.lse, g.dsinks = &dsinks.tensor;
  OK(ptxb_attention_gradient_workspace(device, &g, &bytes));
  make(&workspace, (ptxb_dtype){PTXB_INT, 32, 1}, 1, (int64_t)bytes / 4 + 1024, 1, 1, 0);
  bytes += 4096;
  OK(ptxb_attention_run(device, &p, workspace.tensor.data, bytes, PTXB_OWN_STREAM));
  OK(ptxb_attention_gradient_run(device, &g, workspace.tensor.data, bytes, PTXB_OWN_STREAM));
  float found[kHeads];
  OK(ptxb_copy_out(device, found, dsinks.tensor.data, sizeof found));
  for (int64_t head = 0; head < kHeads; ++head) {
    double sum = 0;
    for (int64_t row = 0; row < kRows; ++row) {
      const double i = (double)(row >= begins[1] ? row - begins[1] : row);
      sum += (log(i + 2) - kColumns * (i / 2 + head) * (i + 1) / (i + 2)) / (i + 2);
    }
    CHECK(fabs(found[head] - sum) <= 0.02 * fabs(sum) + 0.02);
  }

  uint16_t* const o = malloc(kRows * kHeads * kColumns * sizeof *o);
  p.sinks = NULL, p.dropout = 0.5f;
  REFUSED(ptxb_attention_run(device, &p, workspace.tensor.data, bytes, PTXB_OWN_STREAM),
          "dropout = 0.5 needs a dropout_seed");
  p.dropout_seed = &seed.tensor;
  OK(ptxb_attention_run(device, &p, workspace.tensor.data, bytes, PTXB_OWN_STREAM));
  OK(ptxb_copy_out(device, o, p.o->data, kRows * kHeads * kColumns * sizeof *o));
  for (int i = 0; i < 2; ++i) {
    const float first = f32_of(o[(begins[i] * kHeads + 1) * kColumns]);
    CHECK(first == 0 || first == 2);
  }
  p.dropout = 1;
  REFUSED(ptxb_attention_run(device, &p, workspace.tensor.data, bytes, PTXB_OWN_STREAM),
          "dropout = 1; it must be at least 0 and less than 1");
  p.dropout = 0, p.reserved = 7;
  REFUSED(ptxb_attention_run(device, &p, workspace.tensor.data, bytes, PTXB_OWN_STREAM),
          "reserved = 7; it must be 0");
  p.reserved = 0, p.sinks = &seed.tensor;
  REFUSED(ptxb_attention_run(device, &p, workspace.tensor.data, bytes, PTXB_OWN_STREAM),
          "sinks: it is [4] of s32, but must be float32, [2], one for each head");
  free(o);
  discard(&sinks), discard(&dsinks), discard(&seed), discard(&workspace);
  for (int i = 0; i < 4; ++i) discard(all[i]);
}

/* All elements of Q, K and V are 1 in e4m3. Therefore, O is the scale of V's head, and lse is the logarithm
 * of the sum over all keys, which have equal scores. */
static void check_attention_of_e4m3(void) {
  enum { kWide = 32 };
  Matrix q, k, v, o, lse, q_scale, k_scale, v_scale;
  int64_t shape[4] = {2, kQueries, kHeads, kWide}, lse_shape[3] = {2, kHeads, kQueries}, heads = kHeads;
  Matrix* all[] = {&q, &k, &v, &o};
  for (int i = 0; i < 4; ++i) {
    make(all[i], i < 3 ? e4m3 : bf16, kRows, kHeads * kWide, kHeads * kWide, 1, 0);
    memset(all[i]->host, i < 3 ? 0x38 : 0xff, all[i]->bytes); /* 1 */
    OK(ptxb_copy_in(device, all[i]->tensor.data, all[i]->host, all[i]->bytes));
    all[i]->tensor.ndim = 4, all[i]->tensor.shape = shape, all[i]->tensor.strides = NULL;
  }
  make(&lse, f32, 1, kHeads * kRows, 1, 1, 0);
  lse.tensor.ndim = 3, lse.tensor.shape = lse_shape, lse.tensor.strides = NULL;
  Matrix* scales[] = {&q_scale, &k_scale, &v_scale};
  for (int i = 0; i < 3; ++i) {
    const float of_heads[kHeads] = {1, (float)(i + 2)};
    make(scales[i], f32, 1, kHeads, kHeads, 1, 0);
    OK(ptxb_copy_in(device, scales[i]->tensor.data, of_heads, sizeof of_heads));
    scales[i]->tensor.ndim = 1, scales[i]->tensor.shape = &heads, scales[i]->tensor.strides = NULL;
  }
  ptxb_attention p = PTXB_ATTENTION_INIT;
  p.q = &q.tensor, p.k = &k.tensor, p.v = &v.tensor, p.o = &o.tensor, p.lse = &lse.tensor;
  p.q_scale = &q_scale.tensor, p.k_scale = &k_scale.tensor, p.v_scale = &v_scale.tensor;
  p.scale = 0.125f, p.promote = 8;
  OK(ptxb_attention_run(device, &p, NULL, 0, PTXB_OWN_STREAM));
  OK(ptxb_copy_out(device, o.host, o.tensor.data, o.bytes));
  OK(ptxb_copy_out(device, lse.host, lse.tensor.data, lse.bytes));
  int wrong = 0;
  for (int64_t row = 0; row < kRows; ++row)
    for (int64_t head = 0; head < kHeads; ++head) {
      float logarithm;
      memcpy(&logarithm, (char*)lse.host + ((row / kQueries * kHeads + head) * kQueries + row % kQueries) * 4,
             sizeof logarithm);
      wrong += !is_near(logarithm, kWide * 0.125 * (head ? 2 * 3 : 1) + log(kQueries));
      for (int64_t column = 0; column < kWide; ++column)
        wrong += !is_near(f32_of(((uint16_t*)o.host)[(row * kHeads + head) * kWide + column]), head ? 4 : 1);
    }
  CHECK(wrong == 0);
  p.q_scale = NULL;
  REFUSED(ptxb_attention_run(device, &p, NULL, 0, PTXB_OWN_STREAM),
          "k_scale and v_scale are given, but not q_scale");
  p.q_scale = &q_scale.tensor, k.tensor.dtype = v.tensor.dtype = bf16;
  REFUSED(ptxb_attention_run(device, &p, NULL, 0, PTXB_OWN_STREAM), "Q is e4m3, K and V are bf16");
  p.q_scale = p.k_scale = p.v_scale = NULL, q.tensor.dtype = bf16;
  REFUSED(ptxb_attention_run(device, &p, NULL, 0, PTXB_OWN_STREAM), "promote = 8, but Q is bf16");
  for (int i = 0; i < 4; ++i) discard(all[i]);
  discard(&lse), discard(&q_scale), discard(&k_scale), discard(&v_scale);
}

/* The batch has two queries of one sequence and one query of another. All keys have the same score, and
 * the value of a key is its number, so that O is the mean of the numbers of the keys that a query sees. */
static void check_mixed_batch(void) {
  enum { kTokens = 3, kKeys = 8 };
  Matrix q, k, v, o, offsets, lengths, masks, workspace;
  size_t bytes = 0;
  int64_t of_q[3] = {kTokens, kHeads, kColumns}, of_k[4] = {2, kKeys, kHeads, kColumns}, three = 3, two = 2;
  const int32_t begins[3] = {0, 2, 3}, keys[2] = {4, 5};
  const float expected[kTokens] = {1, 1.5f, 2};
  /* Masks replace the causal rule: of the keys in its tree, the first query sees none, the second sees
   * both, and the third sees none. */
  const int32_t bits[kTokens] = {0, 3, 0};
  const float expected_of_tree[kTokens] = {0.5f, 1.5f, 1.5f};
  Matrix* all[] = {&q, &k, &v, &o};
  for (int i = 0; i < 4; ++i) {
    const int is_cache = i == 1 || i == 2;
    const int64_t rows = is_cache ? 2 * kKeys : kTokens;
    make(all[i], bf16, rows, kHeads * kColumns, kHeads * kColumns, 1, 0);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < kHeads * kColumns; ++column) {
        const uint16_t bits = bf16_of(i == 2 ? (float)(row % kKeys) : 0);
        memcpy(at(all[i], row, column), &bits, sizeof bits);
      }
    OK(ptxb_copy_in(device, all[i]->tensor.data, all[i]->host, all[i]->bytes));
    all[i]->tensor.ndim = is_cache ? 4 : 3, all[i]->tensor.shape = is_cache ? of_k : of_q;
    all[i]->tensor.strides = NULL;
  }
  const ptxb_dtype int32 = {PTXB_INT, 32, 1};
  make(&offsets, int32, 1, 3, 3, 1, 0);
  make(&lengths, int32, 1, 2, 2, 1, 0);
  OK(ptxb_copy_in(device, offsets.tensor.data, begins, sizeof begins));
  OK(ptxb_copy_in(device, lengths.tensor.data, keys, sizeof keys));
  make(&masks, int32, 1, kTokens, kTokens, 1, 0);
  OK(ptxb_copy_in(device, masks.tensor.data, bits, sizeof bits));
  offsets.tensor.ndim = lengths.tensor.ndim = masks.tensor.ndim = 1;
  offsets.tensor.shape = masks.tensor.shape = &three, lengths.tensor.shape = &two;
  offsets.tensor.strides = lengths.tensor.strides = masks.tensor.strides = NULL;
  ptxb_attention p = PTXB_ATTENTION_INIT;
  p.q = &q.tensor, p.k = &k.tensor, p.v = &v.tensor, p.o = &o.tensor;
  p.query_offsets = &offsets.tensor, p.queries = 2, p.key_lengths = &lengths.tensor, p.causal = 1;
  for (int has_tree = 0; has_tree < 2; ++has_tree) {
    p.causal = !has_tree, p.tree_mask = has_tree ? &masks.tensor : NULL;
    OK(ptxb_attention_workspace(device, &p, &bytes));
    make(&workspace, int32, 1, (int64_t)bytes / 4 + 1, 1, 1, 0);
    OK(ptxb_attention_run(device, &p, workspace.tensor.data, bytes, PTXB_OWN_STREAM));
    OK(ptxb_copy_out(device, o.host, o.tensor.data, o.bytes));
    int wrong = 0;
    for (int64_t row = 0; row < kTokens; ++row)
      for (int64_t column = 0; column < kHeads * kColumns; ++column)
        wrong += !is_near(f32_of(((uint16_t*)o.host)[row * kHeads * kColumns + column]),
                          (has_tree ? expected_of_tree : expected)[row]);
    CHECK(wrong == 0);
    discard(&workspace);
  }
  masks.tensor.shape = &two;
  REFUSED(ptxb_attention_run(device, &p, NULL, 0, PTXB_OWN_STREAM),
          "tree_mask: it is [2] of s32, but must be");
  p.tree_mask = NULL;
  p.key_offsets = &offsets.tensor;
  REFUSED(ptxb_attention_run(device, &p, NULL, 0, PTXB_OWN_STREAM),
          "key_offsets and key_lengths cannot both be given");
  p.key_offsets = NULL, lengths.tensor.shape = &three;
  REFUSED(ptxb_attention_run(device, &p, NULL, 0, PTXB_OWN_STREAM), "key_lengths: it is [3] of s32");
  for (int i = 0; i < 4; ++i) discard(all[i]);
  discard(&offsets), discard(&lengths), discard(&masks);
}

static void check_attention(int packed, int is_emulator) {
  Matrix q, k, v, o, lse, offsets, workspace;
  int64_t shape[4] = {2, kQueries, kHeads, kColumns}, lse_shape[3] = {2, kHeads, kQueries}, lengths = 3;
  const int32_t begins[3] = {0, packed ? 7 : kQueries, kRows};
  Matrix* all[] = {&q, &k, &v, &o};
  for (int i = 0; i < 4; ++i) {
    make(all[i], bf16, kRows, kHeads * kColumns, kHeads * kColumns, 1, 0);
    for (int64_t row = 0; row < kRows && i < 3; ++row)
      for (int64_t column = 0; column < kHeads * kColumns; ++column) {
        const int64_t first = row >= begins[1] ? begins[1] : 0;
        const uint16_t bits = bf16_of(i == 2 ? (float)(row - first + column / kColumns) : i == 1 ? 3 : 0);
        memcpy(at(all[i], row, column), &bits, sizeof bits);
      }
    OK(ptxb_copy_in(device, all[i]->tensor.data, all[i]->host, all[i]->bytes));
    all[i]->tensor.ndim = packed ? 3 : 4;
    all[i]->tensor.shape = packed ? shape + 1 : shape;
    all[i]->tensor.strides = NULL;
  }
  if (packed) shape[1] = kRows, lse_shape[1] = kHeads, lse_shape[2] = kRows;
  make(&lse, f32, 1, kHeads * kRows, 1, 1, 0);
  lse.tensor.ndim = packed ? 2 : 3, lse.tensor.shape = packed ? lse_shape + 1 : lse_shape;
  lse.tensor.strides = NULL;
  make(&offsets, (ptxb_dtype){PTXB_INT, 32, 1}, 1, 3, 3, 1, 0);
  OK(ptxb_copy_in(device, offsets.tensor.data, begins, sizeof begins));
  offsets.tensor.ndim = 1, offsets.tensor.shape = &lengths, offsets.tensor.strides = NULL;

  ptxb_attention p = PTXB_ATTENTION_INIT;
  size_t bytes = 1;
  p.q = &q.tensor, p.k = &k.tensor, p.v = &v.tensor, p.o = &o.tensor, p.lse = &lse.tensor;
  p.causal = 1;
  if (packed) p.query_offsets = p.key_offsets = &offsets.tensor, p.queries = p.keys = kRows - begins[1];
  OK(ptxb_attention_workspace(device, &p, &bytes));
  CHECK((bytes > 0) == packed); /* the workspace stores the order of packed sequences */
  make(&workspace, (ptxb_dtype){PTXB_INT, 32, 1}, 1, (int64_t)bytes / 4 + 1, 1, 1, 0);
  OK(ptxb_attention_run(device, &p, bytes > 0 ? workspace.tensor.data : NULL, bytes, PTXB_OWN_STREAM));
  OK(ptxb_copy_out(device, o.host, o.tensor.data, o.bytes));
  OK(ptxb_copy_out(device, lse.host, lse.tensor.data, lse.bytes));
  int wrong = 0;
  for (int64_t row = 0; row < kRows; ++row)
    for (int64_t head = 0; head < kHeads; ++head) {
      const int64_t i = row >= begins[1] ? row - begins[1] : row;
      const int64_t of_lse = packed ? head * kRows + row : (row / kQueries * kHeads + head) * kQueries + i;
      float logarithm;
      memcpy(&logarithm, (char*)lse.host + of_lse * 4, sizeof logarithm);
      if (!is_near(logarithm, log((double)i + 1))) ++wrong;
      for (int64_t column = 0; column < kColumns; ++column)
        if (!is_near(f32_of(((uint16_t*)o.host)[(row * kHeads + head) * kColumns + column]), i / 2.0 + head))
          ++wrong;
    }
  CHECK(wrong == 0);
  check_attention_gradient(&p, packed, shape, begins);
  check_sinks_and_dropout(&p, packed, shape, begins);

  p.size = 8;
  REFUSED(ptxb_attention_run(device, &p, NULL, 0, PTXB_OWN_STREAM),
          "the size of this ptxb_attention is 8 bytes");
  p.size = sizeof p, p.k = NULL;
  REFUSED(ptxb_attention_run(device, &p, NULL, 0, PTXB_OWN_STREAM), "K is NULL");
  p.k = &k.tensor, p.o = &q.tensor;
  REFUSED(ptxb_attention_run(device, &p, NULL, 0, PTXB_OWN_STREAM), "O overlaps Q");
  p.o = &o.tensor, k.tensor.dtype.code = PTXB_FLOAT;
  REFUSED(ptxb_attention_run(device, &p, NULL, 0, PTXB_OWN_STREAM), "K: its type is f16, but Q's is bf16");
  k.tensor.dtype.code = PTXB_BFLOAT, --v.tensor.ndim;
  REFUSED(ptxb_attention_run(device, &p, NULL, 0, PTXB_OWN_STREAM),
          packed ? "V: 2 dimensions" : "V: 3 dimensions");
  ++v.tensor.ndim, lse.tensor.dtype = bf16;
  REFUSED(ptxb_attention_run(device, &p, NULL, 0, PTXB_OWN_STREAM), "lse: it must be float32");
  lse.tensor.dtype = f32;
  if (is_emulator)
    FAILS(PTXB_ERROR, ptxb_attention_tune(device, &p, PTXB_OWN_STREAM), "tuning needs a GPU");
  else
    OK(ptxb_attention_tune(device, &p, PTXB_OWN_STREAM));
  REFUSED(ptxb_attention_tune(device, NULL, PTXB_OWN_STREAM), "the attention is NULL");
  REFUSED(ptxb_attention_tune(NULL, &p, PTXB_OWN_STREAM), "the device is NULL");
  REFUSED(ptxb_attention_workspace(device, NULL, &bytes), "the attention is NULL");
  for (int i = 0; i < 4; ++i) discard(all[i]);
  discard(&lse), discard(&offsets), discard(&workspace);
}

/* Keys are their own values. Queries of zeros give all keys the same weight, so that O is the mean of the
 * first columns of the keys. */
static void check_latent(void) {
  enum { KEYS = 40, HEADS = 4, COLUMNS = 320, VALUES = 256 };
  Matrix q, k, o, workspace;
  int64_t q_shape[4] = {1, 1, HEADS, COLUMNS}, k_shape[4] = {1, KEYS, 1, COLUMNS},
          o_shape[4] = {1, 1, HEADS, VALUES};
  make(&q, bf16, HEADS, COLUMNS, COLUMNS, 1, 0);
  make(&k, bf16, KEYS, COLUMNS, COLUMNS, 1, 0);
  make(&o, bf16, HEADS, VALUES, VALUES, 1, 0);
  for (int64_t row = 0; row < KEYS; ++row)
    for (int64_t column = 0; column < COLUMNS; ++column) {
      const uint16_t bits = bf16_of((float)(row + column % 4)), zero = 0;
      memcpy(at(&k, row, column), &bits, sizeof bits);
      if (row < HEADS) memcpy(at(&q, row, column), &zero, sizeof zero);
    }
  Matrix* all[] = {&q, &k, &o};
  int64_t* shapes[] = {q_shape, k_shape, o_shape};
  for (int i = 0; i < 3; ++i) {
    OK(ptxb_copy_in(device, all[i]->tensor.data, all[i]->host, all[i]->bytes));
    all[i]->tensor.ndim = 4, all[i]->tensor.shape = shapes[i], all[i]->tensor.strides = NULL;
  }
  ptxb_attention p = PTXB_ATTENTION_INIT;
  size_t bytes = 0;
  p.q = &q.tensor, p.k = &k.tensor, p.o = &o.tensor;
  OK(ptxb_attention_workspace(device, &p, &bytes));
  make(&workspace, (ptxb_dtype){PTXB_INT, 32, 1}, 1, (int64_t)bytes / 4 + 1, 1, 1, 0);
  OK(ptxb_attention_run(device, &p, workspace.tensor.data, bytes, PTXB_OWN_STREAM));
  OK(ptxb_copy_out(device, o.host, o.tensor.data, o.bytes));
  int wrong = 0;
  for (int64_t i = 0; i < HEADS * VALUES; ++i)
    wrong += !is_near(f32_of(((uint16_t*)o.host)[i]), (KEYS - 1) / 2.0 + i % 4);
  CHECK(wrong == 0);
  p.v = &k.tensor;
  REFUSED(ptxb_attention_run(device, &p, workspace.tensor.data, bytes, PTXB_OWN_STREAM), "leave V out");
  for (int i = 0; i < 3; ++i) discard(all[i]);
  discard(&workspace);
}

static void check_ir_options(void) {
  ptxb_kernel* kernel = NULL;
  ptxb_ir_options options = PTXB_IR_OPTIONS_INIT;
  options.target = "sm_90a", options.ptx_version = 81, options.waived = "spills,stack,C7510";
  OK(ptxb_load_ir_with(device, saxpy, sizeof saxpy - 1, "saxpy", &options, &kernel));
  CHECK(strstr(ptxb_kernel_sidecar(kernel), "\"target\": \"sm_90a\""));
  CHECK(strstr(ptxb_kernel_sidecar(kernel), "\"ptx_version\": 81"));
  ptxb_kernel_free(kernel);
  options.target = NULL;
  OK(ptxb_load_ir_with(device, saxpy, sizeof saxpy - 1, NULL, NULL, &kernel));
  CHECK(!strstr(ptxb_kernel_sidecar(kernel), "\"ptx_version\": 81"));
  ptxb_kernel_free(kernel), kernel = NULL;
  options.waived = "spills,nothing";
  REFUSED(ptxb_load_ir_with(device, saxpy, sizeof saxpy - 1, NULL, &options, &kernel),
          "'nothing' cannot be waived; valid names are ");
  options.waived = NULL, options.ptx_version = 999;
  FAILS(PTXB_COMPILE, ptxb_load_ir_with(device, saxpy, sizeof saxpy - 1, NULL, &options, &kernel), "99.9");
  options.ptx_version = 0, options.size = 8;
  REFUSED(ptxb_load_ir_with(device, saxpy, sizeof saxpy - 1, NULL, &options, &kernel),
          "the size of this ptxb_ir_options is 8 bytes, but it has 40 in this library");
  CHECK(!kernel);
}

/* Each failure must have the status that tells the caller what kind of problem to correct. */
static void check_statuses(int is_emulator) {
  ptxb_device* none = NULL;
  ptxb_kernel* kernel = NULL;
  void* memory = NULL;
  FAILS(PTXB_DEVICE, ptxb_open("cuda:99", &none), "device 'cuda:99': ");
  FAILS(PTXB_COMPILE, ptxb_load_ir(device, "define", 6, NULL, &kernel), "the IR:1:");
  FAILS(PTXB_OUT_OF_MEMORY, ptxb_allocate(device, (size_t)1 << 60, &memory), "memory");
  CHECK(!none && !kernel && !memory);
  REFUSED(ptxb_load(device, "/nonexistent", NULL, &kernel), "/nonexistent");
  if (!is_emulator) return; /* the GPU would be lost */
  Matrix d;
  OK(ptxb_load_image(device, scaled, sizeof scaled - 1, scaled_sidecar, &kernel));
  make(&d, f32, 1, 1, 1, 1, 0);
  ptxb_argument fields[] = {ptxb_of_tensor(&d.tensor), ptxb_of_float(1)};
  ptxb_argument all = ptxb_of_struct(fields, 2);
  OK(ptxb_launch(kernel, NULL, &all, 1, PTXB_OWN_STREAM));
  FAILS(PTXB_DEVICE, ptxb_wait(device, PTXB_OWN_STREAM, 60000), "scaled");
  ptxb_kernel_free(kernel);
  discard(&d);
}

static void check_memory(void) {
  void* memory = NULL;
  OK(ptxb_allocate(device, 100, &memory));
  REFUSED(ptxb_free(device, (char*)memory + 4), "was not returned by ptxb_allocate() on this device");
  OK(ptxb_free(device, memory));
  REFUSED(ptxb_free(device, memory), "or is already freed");
  OK(ptxb_free(device, NULL));
}

/* A call recognizes an object that has been freed, even after another object of the same kind was made. */
static void check_given_back(const char* name) {
  ptxb_device *before = NULL, *after = NULL;
  ptxb_kernel *kernel = NULL, *next = NULL;
  ptxb_matmul p = PTXB_MATMUL_INIT;
  ptxb_argument arguments[4];
  size_t bytes;
  void* memory = NULL;
  OK(ptxb_open(name, &before));
  OK(ptxb_load_ir(before, saxpy, sizeof saxpy - 1, NULL, &kernel));
  ptxb_close(before);
  OK(ptxb_open(name, &after));
  REFUSED(ptxb_allocate(before, 4, &memory), "the device was closed with ptxb_close()");
  REFUSED(ptxb_wait(before, NULL, 0), "the device was closed with ptxb_close()");
  REFUSED(ptxb_matmul_workspace(before, &p, &bytes), "the device was closed with ptxb_close()");
  REFUSED(ptxb_load_ir(before, saxpy, sizeof saxpy - 1, NULL, &next), "the device was closed");
  CHECK(strstr(ptxb_kernel_sidecar(kernel), "saxpy")); /* the kernel keeps its device alive */
  ptxb_kernel_free(kernel);
  OK(ptxb_load_ir(after, saxpy, sizeof saxpy - 1, NULL, &next));
  REFUSED(ptxb_launch(kernel, NULL, arguments, 4, NULL), "the kernel was freed with ptxb_kernel_free()");
  CHECK(strcmp(ptxb_kernel_sidecar(kernel), "") == 0);
  ptxb_kernel_free(kernel), ptxb_close(before); /* a second free does nothing */
  CHECK(strstr(ptxb_kernel_sidecar(next), "saxpy"));
  OK(ptxb_allocate(after, 4, &memory));
  OK(ptxb_free(after, memory));
  ptxb_kernel_free(next), ptxb_close(after);
}

/* Tokens 0 and 2 of three are appended to rows 4 and 1 of a cache with two pages of three rows. Token 1 is
 * not appended. */
static void check_append(void) {
  enum { kTokens = 3, kHead = 4, kCacheRows = 6 };
  Matrix k, v, k_cache, v_cache, slots;
  int64_t tokens[] = {kTokens, 1, 2, kHead / 2}, pages[] = {2, 1, 3, 2, kHead / 2};
  Matrix* const all[] = {&k, &v, &k_cache, &v_cache};
  for (int i = 0; i < 4; ++i) {
    make(all[i], f32, i < 2 ? kTokens : kCacheRows, kHead, kHead, 1, 0);
    for (int64_t e = 0; i < 2 && e < kTokens * kHead; ++e) *(float*)at(all[i], 0, e) = (float)(e + i * 100);
    OK(ptxb_copy_in(device, all[i]->tensor.data, all[i]->host, all[i]->bytes));
    all[i]->tensor.ndim = i < 2 ? 4 : 5, all[i]->tensor.shape = i < 2 ? tokens : pages;
    all[i]->tensor.strides = NULL;
  }
  make(&slots, (ptxb_dtype){PTXB_INT, 32, 1}, kTokens, 1, 1, 1, 0);
  memcpy(slots.host, (const int32_t[]){4, -1, 1}, sizeof(int32_t) * kTokens);
  OK(ptxb_copy_in(device, slots.tensor.data, slots.host, slots.bytes));
  slots.tensor.ndim = 1;
  const ptxb_tensor* tensors[] = {&k.tensor, &v.tensor, &k_cache.tensor, &v_cache.tensor, &slots.tensor, NULL,
                                  NULL,      NULL};
  ptxb_rows p = PTXB_ROWS_INIT;
  p.operation = "append", p.tensors = tensors, p.tensor_count = 8;
  OK(ptxb_rows_run(device, &p, NULL, 0, PTXB_OWN_STREAM));
  int wrong = 0;
  for (int i = 0; i < 2; ++i) {
    Matrix* const cache = all[2 + i];
    OK(ptxb_copy_out(device, cache->host, cache->tensor.data, cache->bytes));
    for (int64_t row = 0; row < kCacheRows; ++row)
      for (int64_t e = 0; e < kHead; ++e) {
        const float got = *(float*)at(cache, row, e);
        if (row == 4 || row == 1)
          wrong += got != *(float*)at(all[i], row == 4 ? 0 : 2, e);
        else
          wrong += !isnan(got);
      }
  }
  CHECK(wrong == 0);
  CHECK(strstr(ptxb_rows_table(), "\"name\": \"k_cache\""));
  tensors[5] = &k.tensor;
  REFUSED(ptxb_rows_run(device, &p, NULL, 0, PTXB_OWN_STREAM),
          "append: cos must have the shape [positions, columns]");
  for (int i = 0; i < 4; ++i) discard(all[i]);
  discard(&slots);
}

/* Checks the gradients of an RMS norm without epsilon. With a scale of 1 for each row and a weight of
 * ones, dx is dy - x mean(x dy), and dweight is the sum of x dy. */
static void check_rows(unsigned seed) {
  enum { kOfRows = 5, kOfColumns = 24 };
  Matrix x, scale, dy, dx, dweight, workspace;
  make(&x, f32, kOfRows, kOfColumns, kOfColumns, 1, 0), fill(&x, &seed);
  make(&dy, f32, kOfRows, kOfColumns, kOfColumns, 1, 0), fill(&dy, &seed);
  make(&dx, bf16, kOfRows, kOfColumns, kOfColumns, 1, 0);
  make(&scale, f32, kOfRows, 1, 1, 1, 0);
  make(&dweight, bf16, kOfColumns, 1, 1, 1, 0);
  for (int64_t i = 0; i < kOfRows; ++i) *(float*)at(&scale, i, 0) = 1;
  OK(ptxb_copy_in(device, scale.tensor.data, scale.host, scale.bytes));
  scale.tensor.ndim = dweight.tensor.ndim = 1;
  const ptxb_tensor* tensors[] = {&x.tensor, NULL, &scale.tensor, &dy.tensor, &dx.tensor, &dweight.tensor};
  ptxb_rows p = PTXB_ROWS_INIT;
  p.operation = "rms_norm_gradient", p.tensors = tensors, p.tensor_count = 6;
  size_t bytes = 0;
  REFUSED(ptxb_rows_workspace(device, &p, &bytes),
          "rms_norm_gradient: dx is bf16; its type must be that of x, f32");
  discard(&dx), make(&dx, f32, kOfRows, kOfColumns, kOfColumns, 1, 0);
  tensors[4] = &dx.tensor;
  OK(ptxb_rows_workspace(device, &p, &bytes));
  CHECK(bytes > 0);
  make(&workspace, (ptxb_dtype){PTXB_INT, 32, 1}, 1, (int64_t)bytes / 4 + 1, 1, 1, 0);
  OK(ptxb_rows_run(device, &p, workspace.tensor.data, bytes, PTXB_OWN_STREAM));
  OK(ptxb_copy_out(device, dx.host, dx.tensor.data, dx.bytes));
  OK(ptxb_copy_out(device, dweight.host, dweight.tensor.data, dweight.bytes));
  int wrong = 0;
  double sums[kOfColumns] = {0};
  for (int64_t i = 0; i < kOfRows; ++i) {
    double mean = 0;
    for (int64_t j = 0; j < kOfColumns; ++j) {
      mean += value(&x, i, j) * value(&dy, i, j) / kOfColumns;
      sums[j] += value(&x, i, j) * value(&dy, i, j);
    }
    for (int64_t j = 0; j < kOfColumns; ++j)
      wrong += fabs(value(&dx, i, j) - (value(&dy, i, j) - value(&x, i, j) * mean)) > 1e-4;
  }
  for (int64_t j = 0; j < kOfColumns; ++j) wrong += value(&dweight, j, 0) != (float)sums[j];
  CHECK(wrong == 0);
  CHECK(strstr(ptxb_rows_table(), "\"name\": \"rms_norm_gradient\""));

  REFUSED(ptxb_rows_run(device, &p, NULL, 0, PTXB_OWN_STREAM),
          "rms_norm_gradient: this call needs a workspace");
  REFUSED(ptxb_rows_run(device, NULL, NULL, 0, PTXB_OWN_STREAM), "the call is NULL");
  REFUSED(ptxb_rows_workspace(device, &p, NULL), "where to put the bytes is NULL");
  tensors[4] = &x.tensor; /* in place */
  OK(ptxb_rows_run(device, &p, workspace.tensor.data, bytes, PTXB_OWN_STREAM));
  tensors[4] = &dx.tensor, dx.tensor.data = (char*)x.tensor.data + 4;
  REFUSED(ptxb_rows_run(device, &p, workspace.tensor.data, bytes, PTXB_OWN_STREAM),
          "rms_norm_gradient: dx overlaps x, which is read");
  tensors[2] = NULL;
  REFUSED(ptxb_rows_workspace(device, &p, &bytes), "rms_norm_gradient: scale is not given");
  p.tensor_count = 4;
  REFUSED(ptxb_rows_workspace(device, &p, &bytes), "4 tensors were given, but it takes 6");
  p.tensor_count = 7;
  REFUSED(ptxb_rows_workspace(device, &p, &bytes), "7 tensors were given, but it takes 6");
  p.operation = "norm";
  REFUSED(ptxb_rows_workspace(device, &p, &bytes),
          "no operation on rows is named 'norm'; the operations are rms_norm,");
  p.operation = NULL;
  REFUSED(ptxb_rows_workspace(device, &p, &bytes), "the operation's name is NULL");
  p.size = 8;
  REFUSED(ptxb_rows_workspace(device, &p, &bytes), "the size of this ptxb_rows is 8 bytes");
  dx.tensor.data = NULL;
  OK(ptxb_allocate(device, dx.bytes, &dx.tensor.data));
  discard(&x), discard(&scale), discard(&dy), discard(&dx), discard(&dweight), discard(&workspace);
}

/* Checks a convolution of 3 x 3 with a stride of 2 along lines, a bias and relu. */
static void check_convolution(unsigned seed) {
  enum { kImages = 2, kLines = 6, kPixels = 5, kChannels = 16, kFilters = 24, kOut = 3 };
  Matrix x, w, y, bias;
  int64_t of_x[] = {kImages, kLines, kPixels, kChannels}, of_w[] = {kFilters, 3, 3, kChannels},
          of_y[] = {kImages, kOut, kPixels, kFilters};
  make(&x, bf16, kImages * kLines * kPixels, kChannels, kChannels, 1, 0), fill(&x, &seed);
  make(&w, bf16, kFilters * 9, kChannels, kChannels, 1, 0), fill(&w, &seed);
  make(&y, f32, kImages * kOut * kPixels, kFilters, kFilters, 1, 0);
  make(&bias, f32, kFilters, 1, 1, 1, 0), fill(&bias, &seed);
  x.tensor.ndim = w.tensor.ndim = y.tensor.ndim = 4, bias.tensor.ndim = 1;
  x.tensor.shape = of_x, w.tensor.shape = of_w, y.tensor.shape = of_y;
  x.tensor.strides = w.tensor.strides = y.tensor.strides = NULL;
  ptxb_convolution p = PTXB_CONVOLUTION_INIT;
  p.x = &x.tensor, p.w = &w.tensor, p.y = &y.tensor, p.bias = &bias.tensor, p.activation = PTXB_RELU;
  p.step[0] = 2, p.before[0] = p.before[1] = p.behind[1] = 1;
  size_t bytes = 1;
  OK(ptxb_convolution_workspace(device, &p, &bytes));
  CHECK(bytes == 0);
  OK(ptxb_convolution_run(device, &p, NULL, 0, PTXB_OWN_STREAM));
  OK(ptxb_copy_out(device, y.host, y.tensor.data, y.bytes));
  int wrong = 0;
  for (int64_t at_y = 0; at_y < kImages * kOut * kPixels; ++at_y)
    for (int64_t f = 0; f < kFilters; ++f) {
      const int64_t image = at_y / kPixels / kOut, line = at_y / kPixels % kOut, pixel = at_y % kPixels;
      float sum = value(&bias, f, 0);
      for (int64_t r = 0; r < 3; ++r)
        for (int64_t s = 0; s < 3; ++s) {
          const int64_t h = line * 2 - 1 + r, v = pixel - 1 + s;
          for (int64_t c = 0; h >= 0 && h < kLines && v >= 0 && v < kPixels && c < kChannels; ++c)
            sum += value(&x, (image * kLines + h) * kPixels + v, c) * value(&w, (f * 3 + r) * 3 + s, c);
        }
      wrong += value(&y, at_y, f) != (sum > 0 ? sum : 0);
    }
  CHECK(wrong == 0);
  p.groups = 2;
  REFUSED(ptxb_convolution_run(device, &p, NULL, 0, PTXB_OWN_STREAM), "filters of 16 channels for 2 groups");
  p.groups = 1, p.result = PTXB_CONVOLUTION_W;
  REFUSED(ptxb_convolution_workspace(device, &p, &bytes), "a gradient cannot have a bias or an activation");
  p.bias = NULL, p.activation = PTXB_NONE;
  REFUSED(ptxb_convolution_workspace(device, &p, &bytes), "a gradient from f32 and bf16");
  p.result = 3;
  REFUSED(ptxb_convolution_workspace(device, &p, &bytes), "result 3 is not a ptxb_convolution_result");
  REFUSED(ptxb_convolution_run(device, NULL, NULL, 0, PTXB_OWN_STREAM), "the convolution is NULL");
  discard(&x), discard(&w), discard(&y), discard(&bias);
}

/* Checks what one rank can check without the others: the bytes of memory, and refused arguments. */
static void check_ranked(void) {
  Matrix x, wide;
  make(&x, bf16, 4, 64, 64, 1, 0);
  make(&wide, bf16, 8, 64, 64, 1, 0);
  ptxb_ranked product = PTXB_RANKED_INIT;
  product.a = product.b = &x.tensor, product.d = &wide.tensor, product.ranks = 2;
  size_t bytes = 0;
  REFUSED(ptxb_ranked_memory(device, &product, &bytes), "D: it is 8 x 64, but must be 8 x 4");
  Matrix turned, flat;
  make(&turned, bf16, 64, 64, 1, 64, 0);
  make(&flat, f32, 1, 2, 2, 1, 0);
  product.b = &turned.tensor;
  OK(ptxb_ranked_memory(device, &product, &bytes));
  CHECK(bytes == 262144 + 2 * 8 * 64);
  product.gathered = &x.tensor;
  REFUSED(ptxb_ranked_memory(device, &product, &bytes), "gathered: it is 4 x 64, but must be 8 x 64");
  product.gathered = &wide.tensor;
  OK(ptxb_ranked_memory(device, &product, &bytes));
  product.scale = &flat.tensor;
  REFUSED(ptxb_ranked_memory(device, &product, &bytes), "scale");
  product.scale = NULL, product.reserved_too = 1;
  REFUSED(ptxb_ranked_memory(device, &product, &bytes), "reserved is 1, but must be 0");
  product.reserved_too = 0, product.a = &turned.tensor;
  REFUSED(ptxb_ranked_memory(device, &product, &bytes), "A: it has gaps");
  product.a = &wide.tensor, product.d = &x.tensor, product.scatters = 1;
  REFUSED(ptxb_ranked_memory(device, &product, &bytes),
          "gathered: it must be NULL if the sums are scattered");
  product.scatters = 2;
  REFUSED(ptxb_ranked_memory(device, &product, &bytes), "D: it is 4 x 64, but must be 8 x 64");
  Matrix square;
  make(&square, bf16, 8, 8, 8, 1, 0);
  product.b = &wide.tensor, product.d = &square.tensor, product.gathered = NULL;
  OK(ptxb_ranked_memory(device, &product, &bytes));
  CHECK(bytes == 262144 + 2 * 8 * 8);
  product.scatters = 3;
  REFUSED(ptxb_ranked_memory(device, &product, &bytes), "scatters is 3, but must be 0, 1 or 2");
  discard(&square);
  discard(&turned);
  discard(&flat);
  ptxb_ranked_norm norm = PTXB_RANKED_NORM_INIT;
  norm.x = norm.residual = norm.y = norm.new_residual = &x.tensor, norm.ranks = 3;
  OK(ptxb_ranked_norm_memory(device, &norm, &bytes));
  CHECK(bytes == 262144 + 2 * 3 * 512);
  norm.ranks = 1;
  REFUSED(ptxb_ranked_norm_memory(device, &norm, &bytes), "ranks is 1, but must be at least 2");
  norm.ranks = 3;
  REFUSED(ptxb_ranked_norm_run(device, &norm, NULL), "the list of the ranks' memory is NULL");
  void* memory[3] = {x.tensor.data, x.tensor.data, x.tensor.data};
  norm.memory = memory, norm.memory_bytes = bytes - 1;
  norm.new_residual = &wide.tensor;
  REFUSED(ptxb_ranked_norm_run(device, &norm, NULL),
          "new_residual must have the shape [rows, columns], but is [8, 64]");
  norm.new_residual = &x.tensor;
  REFUSED(ptxb_ranked_norm_run(device, &norm, NULL), "overlaps");
  discard(&x);
  discard(&wide);
}

static void check_ranked_tokens(void) {
  const ptxb_dtype s32 = {PTXB_INT, 32, 1};
  Matrix sorted, grouped, ends, splits, grouped_ends;
  make(&sorted, bf16, 5, 64, 64, 1, 0);
  make(&grouped, bf16, 12, 64, 64, 1, 0);
  make(&ends, s32, 6, 1, 1, 1, 0);
  make(&splits, s32, 2, 3, 3, 1, 0);
  make(&grouped_ends, s32, 3, 1, 1, 1, 0);
  ends.tensor.ndim = grouped_ends.tensor.ndim = 1;
  ptxb_ranked_tokens tokens = PTXB_RANKED_TOKENS_INIT;
  tokens.sorted = &sorted.tensor, tokens.grouped = &grouped.tensor, tokens.ends = &ends.tensor;
  tokens.splits = &splits.tensor, tokens.grouped_ends = &grouped_ends.tensor, tokens.ranks = 2;
  size_t bytes = 0, more = 0;
  OK(ptxb_ranked_tokens_memory(device, &tokens, &bytes));
  Matrix longer;
  make(&longer, bf16, 16, 64, 64, 1, 0);
  tokens.grouped = &longer.tensor;
  OK(ptxb_ranked_tokens_memory(device, &tokens, &more));
  CHECK(more == bytes + 2 * 4 * 128); /* two places for four more rows */
  tokens.grouped = &sorted.tensor;
  REFUSED(ptxb_ranked_tokens_memory(device, &tokens, &bytes),
          "grouped: it has 5 rows, but their number must be a multiple of the 2 ranks, since it has room for "
          "the same number of rows of each");
  tokens.grouped = &grouped.tensor, tokens.ends = &grouped_ends.tensor;
  REFUSED(ptxb_ranked_tokens_memory(device, &tokens, &bytes), "ends: it must be 6 32-bit integers");
  tokens.ends = &ends.tensor, tokens.splits = &sorted.tensor;
  REFUSED(ptxb_ranked_tokens_memory(device, &tokens, &bytes), "splits: it is 5 x 64, but must be 2 x 64");
  tokens.splits = &splits.tensor, tokens.grouped_ends = NULL;
  REFUSED(ptxb_ranked_tokens_memory(device, &tokens, &bytes), "grouped_ends");
  tokens.combines = 1;
  OK(ptxb_ranked_tokens_memory(device, &tokens, &bytes));
  tokens.combines = 2;
  REFUSED(ptxb_ranked_tokens_memory(device, &tokens, &bytes), "combines is 2, but must be 0 or 1");
  tokens.combines = 1;
  REFUSED(ptxb_ranked_tokens_run(device, &tokens, NULL), "the list of the ranks' memory is NULL");
  void* memory[2] = {sorted.tensor.data, grouped.tensor.data};
  tokens.memory = memory, tokens.memory_bytes = bytes - 1;
  REFUSED(ptxb_ranked_tokens_run(device, &tokens, NULL), "the exchange memory of rank 0 has ");
  tokens.ranks = 1;
  REFUSED(ptxb_ranked_tokens_memory(device, &tokens, &bytes), "ranks is 1, but must be at least 2");
  discard(&sorted), discard(&grouped), discard(&ends), discard(&splits), discard(&grouped_ends);
  discard(&longer);
}

int main(int count, char** words) {
  ptxb_device* none = NULL;
  CHECK(ptxb_version() == PTXB_VERSION);
  CHECK(strcmp(ptxb_error(), "") == 0);
  REFUSED(ptxb_open("gpu", &none), "the device is 'gpu', but must be cuda");
  CHECK(!strchr(ptxb_error(), '(')); /* no line of the library's own C++ */
  REFUSED(ptxb_open(NULL, &none), "the device's name is NULL");
  REFUSED(ptxb_open("emulator", NULL), "where to put the device is NULL");
  CHECK(none == NULL);
  if (ptxb_open(count > 1 ? words[1] : "emulator", &device) != PTXB_OK) {
    printf("%s\n", ptxb_error());
    return 1;
  }
  const unsigned seed = (unsigned)(uintptr_t)&seed;
  printf("seed %u\n", seed);
  CHECK(wrong_of(64, 64, 64, 0, 0, 0, 0, seed) == 0);
  CHECK(wrong_of(72, 56, 96, 1, 1, 0, 0, seed) == 0);
  CHECK(wrong_of(40, 64, 72, 0, 1, 2, 1, seed) == 0);
  CHECK(wrong_of(33, 20, 16, 0, 0, 0, 1, seed) == 0);
  check_mistakes(count < 2);
  check_memory();
  check_attention(0, count < 2);
  check_attention(1, count < 2);
  check_latent();
  check_attention_of_e4m3();
  check_mixed_batch();
  check_repeated(seed);
  check_epilogues(seed);
  check_block_scales();
  check_packed(seed);
  check_sparse();
  check_groups(seed);
  check_rows(seed);
  check_append();
  check_convolution(seed);
  check_ranked();
  check_ranked_tokens();
  check_epilogue_mistakes();
  check_older_struct(seed);
  check_kernels();
  check_structs();
  check_scalars(count < 2);
  check_ir_options();
  check_statuses(count < 2);
  check_given_back(count > 1 ? words[1] : "emulator");
  pthread_t threads[8];
  for (uintptr_t i = 0; i < 8; ++i) pthread_create(&threads[i], NULL, in_thread, (void*)i);
  for (int i = 0; i < 8; ++i) {
    void* wrong = NULL;
    pthread_join(threads[i], &wrong);
    CHECK(wrong == NULL);
  }
  ptxb_close(device);
  ptxb_close(NULL);
  printf("%d failures\n", failures);
  return failures != 0;
}

/* ptxbuilder from C: devices, matrix products, and launches of any kernel that has a sidecar.
 *
 *   ptxb_device* device;
 *   if (ptxb_open("cuda:0", &device)) return fail(ptxb_error());
 *   ptxb_matmul p = PTXB_MATMUL_INIT;
 *   p.a = &a, p.b = &b, p.d = &d;                       // DLTensors: D[m,n] = A[m,k] B[k,n]
 *   size_t bytes;
 *   if (ptxb_matmul_workspace(device, &p, &bytes)) ...
 *   if (ptxb_matmul_run(device, &p, workspace, bytes, stream)) ...
 *
 * Every function that returns an int returns PTXB_OK or another ptxb_status, for which ptxb_error() returns
 * the reason. Any thread may call any function at any time, except that ptxb_close() and ptxb_kernel_free()
 * must not be called for an object that another thread is using. A call with a device or a kernel that was
 * closed or freed returns an error; closing or freeing it again does nothing. A thread's current CUDA context
 * does not change. The header is C11 and C++. */
#ifndef PTXB_H
#define PTXB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PTXB_API __attribute__((visibility("default")))

/* 10000 times the major version, plus 100 times the minor version, plus the patch. A program that was built
 * with an older header runs with a newer library of the same major version, or of the same minor version
 * while the major one is 0: functions and statuses are only added, and structs only grow. A struct begins
 * with its size; members that the program's header lacks get the values of the newer header's macro INIT. */
#define PTXB_VERSION 100
/* The version of the library that the program runs with, in the form of PTXB_VERSION. */
PTXB_API int ptxb_version(void);

/* If a call fails, it has queued nothing. A program should treat an unknown status as PTXB_ERROR. */
typedef enum ptxb_status {
  PTXB_OK = 0,
  PTXB_ERROR = 1,            /* it cannot be done here and now, such as tuning on the emulator */
  PTXB_TIMEOUT = 2,          /* a kernel did not end: this process cannot use a GPU again */
  PTXB_INVALID_ARGUMENT = 3, /* an argument breaks a rule; ptxb_error() names the rule and the value */
  PTXB_OUT_OF_MEMORY = 4,    /* of the device or of the host */
  PTXB_DEVICE = 5,  /* there is no driver or no such GPU, or one of them or a kernel failed: then what was
                       queued after it is lost, and this process cannot use a GPU again */
  PTXB_COMPILE = 6, /* LLVM, ptxas or the driver's compiler does not take the kernel */
  PTXB_INTERNAL = 7 /* a fault of the library */
} ptxb_status;

/* The message of the thread's last call if it failed, else "". It is valid until the thread's next call. */
PTXB_API const char* ptxb_error(void);

/* The level of a line of the log. */
typedef enum ptxb_log_level { PTXB_LOG_WARNING = 1 } ptxb_log_level;

/* From now on, `log` receives the library's messages that are not errors, such as a file of measured tiles
 * that cannot be read. `text` is one line without a newline, and is valid during the call. `log` is called in
 * the thread that made the call in question, possibly in several threads at once, and must not call this
 * library. When this function returns, no thread runs the previous `log`. NULL restores standard error. */
PTXB_API void ptxb_set_log(void (*log)(int level, const char* text, void* user), void* user);

/* ---- Tensors ---- */

/* Tensors are laid out like DLPack's DLTensor, so that a pointer to one can be cast to a pointer to the
 * other. */

/* An element type. */
typedef struct ptxb_dtype {
  uint8_t code; /* ptxb_dtype_code, as DLDataTypeCode */
  uint8_t bits;
  uint16_t lanes; /* 1 */
} ptxb_dtype;

/* The kinds of element types; each comment has the numbers of bits. */
typedef enum ptxb_dtype_code {
  PTXB_INT = 0,    /* 8, 16, 32, 64 */
  PTXB_UINT = 1,   /* 8, 16, 32, 64 */
  PTXB_FLOAT = 2,  /* 16, 32, 64 */
  PTXB_BFLOAT = 4, /* 16 */
  PTXB_E4M3 = 10,  /* 8, kDLFloat8_e4m3fn */
  PTXB_E5M2 = 12   /* 8, kDLFloat8_e5m2 */
} ptxb_dtype_code;

/* A tensor on a device. */
typedef struct ptxb_tensor {
  void* data; /* on the device; on the emulator, what ptxb_allocate() returned */
  struct {
    int32_t type; /* 2 for CUDA; 0: unspecified */
    int32_t id;   /* the GPU's number */
  } device;
  int32_t ndim;
  ptxb_dtype dtype;
  int64_t* shape;       /* elements, outermost first */
  int64_t* strides;     /* elements; NULL: no gaps */
  uint64_t byte_offset; /* of the first element from `data` */
} ptxb_tensor;

/* ---- Devices ---- */

/* A GPU or the emulator. */
typedef struct ptxb_device ptxb_device;

/* "cuda": the first GPU that runs sm_90a; "cuda:1"; "emulator"; "auto": a GPU, else the emulator. */
PTXB_API int ptxb_open(const char* name, ptxb_device** device);
/* Kernels that are still loaded remain usable. NULL does nothing. */
PTXB_API void ptxb_close(ptxb_device* device);

/* A stream is a CUstream, NULL for CUDA's default stream, or the device's own stream. The emulator has one
 * queue. */
#define PTXB_OWN_STREAM ((void*)(intptr_t)-1)

/* Waits for a stream's work. Returns PTXB_DEVICE if a kernel failed, and PTXB_TIMEOUT after `milliseconds`.
 * */
PTXB_API int ptxb_wait(ptxb_device* device, void* stream, int64_t milliseconds);

/* The emulator calls is_interrupted() now and then while a call of this thread, such as ptxb_wait() or a
 * copy, runs a launch. If it returns nonzero, the launch ends there, and ptxb_wait() returns PTXB_TIMEOUT.
 * NULL turns this off. */
PTXB_API void ptxb_interrupt_by(int (*is_interrupted)(void* context), void* context);

/* Memory of the device, aligned to 256 bytes. Copies wait for the device's own stream. These functions are
 * for programs that cannot allocate memory on the device themselves, such as programs on the emulator.
 * ptxb_free() accepts memory that ptxb_allocate() returned on this device and that is not yet freed, or NULL,
 * which does nothing. */
PTXB_API int ptxb_allocate(ptxb_device* device, size_t bytes, void** address);
PTXB_API int ptxb_free(ptxb_device* device, void* address);
PTXB_API int ptxb_copy_in(ptxb_device* device, void* to, const void* from, size_t bytes);
PTXB_API int ptxb_copy_out(ptxb_device* device, void* to, const void* from, size_t bytes);

/* ---- The matrix product ---- */

/* The activations of a product. */
typedef enum ptxb_activation {
  PTXB_NONE = 0,
  PTXB_RELU = 1,
  PTXB_GELU = 2, /* by tanh: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
  PTXB_SILU = 3,
  PTXB_RELU_SQUARED = 4
} ptxb_activation;

/* The result from x = alpha A B + beta C + bias and an activation f. */
typedef enum ptxb_use {
  PTXB_VALUE = 0, /* D = f(x) */
  PTXB_SLOPE = 1, /* D = x f'(inputs), the backward pass of f, whose inputs these were */
  PTXB_GATE = 2   /* D[m,j] = f(x[m,2j]) x[m,2j+1], with half as many columns as B, and beta 0 */
} ptxb_use;

/* The types of packed weights. A weight is a byte before it is packed. */
typedef enum ptxb_packed_type {
  PTXB_PACKED_INT4 = 1,  /* int8 from -8 to 7 */
  PTXB_PACKED_UINT4 = 2, /* uint8 from 0 to 15, with zeros */
  PTXB_PACKED_INT8 = 3,  /* int8 */
  PTXB_PACKED_E4M3 = 4   /* float8_e4m3fn, without NaN */
} ptxb_packed_type;

/* D = activation(alpha A B + beta C + bias + row_bias), rounded once. A is [m,k], B [k,n], C and D [m,n],
 * each with the same number of batches as a leading dimension, or without batches; bias is [n], the same for
 * each row, and row_bias [m], the same for each column.
 *
 * A and B of f16, bf16 or f32, both of e4m3 or e5m2, or both of int8 or uint8, into D of f16, bf16, f32, e4m3
 * or e5m2; integers also into int32, without any further operation. C, bias and inputs have D's type, or bf16
 * if D has 8 bits. The tensor cores truncate f32 to tf32, which `tf32` must allow.
 *
 * A and B may be contiguous (stride 1) along either of their dimensions, but only along k if they are f32 or
 * have 8 bits; C, D and inputs are contiguous along n. Other strides and addresses may have any positive
 * value: if TMA cannot read A or B in place, it is first copied into the workspace. D may be C itself; any
 * other overlap of D, and of the workspace, is an error.
 *
 * Factors are float32 in the device's memory, without gaps, and are read when the product runs. Row m of A B
 * is multiplied by row_scales[m] and column n by column_scales[n], as for 8-bit floats that were scaled by
 * row: [m] or [m,1], and [n] or [1,n], each with D's batches as a leading dimension if D has them. The
 * product is also multiplied by alpha_in_memory, of one element, and by alpha. D is multiplied by d_scale, of
 * one element, before it is rounded, and clamped to its greatest number if it has 8 bits. amax, of one
 * element, is replaced with the greatest |D| before d_scale and rounding, if that is greater or a NaN: set it
 * to 0 first.
 *
 * Groups: with group_ends, in the device's memory, A [m,k] is multiplied by a matrix of B [groups,k,n] for
 * each group of rows, into D [m,n]: a group begins where the previous group ends, and may be empty. The
 * product of rows after the last group is 0. bias and column_scales are [groups,n], row_scales and row_bias
 * [m]. If instead B is [k,n], the groups divide k, and D [groups,m,n] has the product of each group. A and B
 * must then have 16-bit types, and A's columns and B's rows must be contiguous: A should be the transpose of
 * a matrix that is laid out like B. Ends that decrease or are outside of the tensor are replaced with the
 * nearest valid ones.
 *
 * With group_counts instead, each group has m/groups rows of A and D, and the first group_counts[g] of them
 * are multiplied; numbers outside of 0 to m/groups are clamped. Other rows of D do not change; D's rows must
 * begin at multiples of 16 bytes, and have a multiple of 16 bytes.
 *
 * Matrices anywhere: with b_addresses, in the device's memory, the matrix of group g of rows begins at
 * address b_addresses[g], and B is [k,n], any matrix of the device's memory with the shape, strides and type
 * that all of them have. Addresses are multiples of 16 bytes, and so are the strides of rows; that of a group
 * without rows is not used. They do not go with packed weights, and whether D overlaps the matrices is not
 * checked.
 *
 * Gathered rows: with a_rows, in the device's memory, D [m,n] has in row i the product of row a_rows[i] of A,
 * which may have any number of rows with contiguous k; a row that does not exist in A, such as -1, counts as
 * zeros. The rows are not copied. Groups of rows may divide them; row_scales, a_scales_1x128 and the like
 * belong to D's rows. Gathered rows cannot be combined with batches or groups of k.
 *
 * Scattered rows: with d_rows, in the device's memory, row i of the product becomes row d_rows[i] of D, which
 * may have any number of rows, which begin at multiples of 16 bytes and have a multiple of 16 bytes. A row
 * that does not exist in D, such as -1, is dropped; rows of D that are not selected do not change, and a row
 * that is selected twice gets either product. The product has as many rows as a_rows or, without it, as A.
 * Scattered rows cannot be combined with batches, groups of k or C.
 *
 * Added rows: with add_to_rows instead, row i of the product is rounded to D's type, float32, float16 or
 * bfloat16, and added to row add_to_rows[i] of D in memory; several rows may be added to one: use row_scales
 * for a router's weights. D must hold the initial values of the sums. The order of additions is not fixed, so
 * the last bits may differ from run to run, most of all in bfloat16. Everything else is as with d_rows,
 * except that amax is not available.
 *
 * Packed weights: with a `packed_form`, of ptxb_packed_form(), B is what ptxb_pack() made of [n,k] weights,
 * uint8 [n/64,bytes], the quotient rounded up, at a multiple of 16 bytes and without gaps, where n is D's, or
 * [groups,n/64,bytes] with group_ends: one after the other. A
 * is of f16 or bf16, weights are converted to its type exactly, and the sum of each group of k is multiplied
 * by its scale in f32. They do not go with batches, groups of k, PTXB_GATE, or a k or alpha of 0.
 *
 * Block scales, for 8-bit floats: each 128 of k of a row of A have a factor of their own, and so have each
 * 128 of k of a column of B, or each block of 128 of k by 128 columns. The factors are float32 without gaps:
 * a_scales_1x128 [k/128,m] and b_scales_1x128 [k/128,n], whose rows and columns are contiguous, or
 * b_scales_128x128 [n/128,k/128], with quotients rounded up, and with the batches of A and B as a leading
 * dimension, or with B's groups. Either both A and B have block scales, or neither. Sums of 128 of k are then
 * added to separate f32 sums, regardless of `precise`. Groups must then be groups of rows.
 *
 * Sparse matrices: with a_metadata, A is [m,k/2] and has two of each four elements of [m,k], as
 * ptxb_compress_2_4() stores them; with b_metadata, B is [k/2,n], the transpose of what ptxb_compress_2_4()
 * stores of [n,k]. The metadata is int32 [k/64,128 m/64] of A and [k/64,128 n/64] of B, with quotients
 * rounded up, and with the batches of A and B as a leading dimension, or with B's groups of rows. The other
 * matrix is dense. k is a multiple of 4, elements have 8 or 16 bits, and are stored along k. Sparse matrices
 * cannot be combined with block scales, and a sparse A cannot be combined with groups or a_rows. */
typedef struct ptxb_matmul {
  size_t size; /* sizeof(ptxb_matmul) */
  const ptxb_tensor *a, *b, *d;
  const ptxb_tensor *c, *bias; /* or NULL */
  float alpha, beta;
  int32_t activation;        /* ptxb_activation */
  int32_t tf32;              /* nonzero: f32 operands may be cut to tf32 */
  int32_t precise;           /* nonzero: sums of 8-bit floats are promoted to f32 every 128 of k */
  const ptxb_tensor* inputs; /* of PTXB_SLOPE, [m,n] as C, batches without gaps; else NULL */
  const ptxb_tensor *alpha_in_memory, *row_scales, *column_scales, *d_scale; /* or NULL */
  const ptxb_tensor* amax;                                                   /* or NULL */
  int64_t use;                                                               /* ptxb_use */
  const ptxb_tensor* row_bias;         /* [m] or [m,1], with D's batches in front where D has them; or NULL */
  const ptxb_tensor* group_ends;       /* int32 [groups], or NULL */
  const ptxb_tensor* a_scales_1x128;   /* float32, [k/128,m]; or NULL */
  const ptxb_tensor* b_scales_128x128; /* float32, [n/128,k/128]; or NULL */
  const ptxb_tensor* b_scales_1x128;   /* float32, [k/128,n]; or NULL */
  const ptxb_tensor *a_rows, *d_rows;  /* int32 [m], or NULL */
  int64_t packed_form;                 /* of ptxb_packed_form(); 0: B is a matrix */
  const ptxb_tensor *a_metadata, *b_metadata; /* int32 [k/64,128 m/64] and [k/64,128 n/64], or NULL */
  const ptxb_tensor* add_to_rows;             /* int32 [m], or NULL */
  const ptxb_tensor* group_counts;            /* int32 [groups], or NULL */
  const ptxb_tensor* b_addresses;             /* int64 [groups], or NULL */
} ptxb_matmul;

#define PTXB_MATMUL_INIT                                                                                    \
  {                                                                                                         \
    sizeof(ptxb_matmul), NULL, NULL, NULL, NULL, NULL, 1.0f, 0.0f, PTXB_NONE, 0, 0, NULL, NULL, NULL, NULL, \
        NULL, NULL, PTXB_VALUE, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL   \
  }

/* Returns the bytes of workspace that the product needs; 0 for most. The first call for a product compiles
 * its kernel (some 0.2 s, if no cache has it); call it before a capture, and before timing. */
PTXB_API int ptxb_matmul_workspace(ptxb_device* device, const ptxb_matmul* product, size_t* bytes);

/* Queues the product. The workspace may hold anything, begins at a multiple of 16, and belongs to the product
 * until it is done. */
PTXB_API int ptxb_matmul_run(ptxb_device* device, const ptxb_matmul* product, void* workspace,
                             size_t workspace_bytes, void* stream);

/* Finds the fastest of several kernels for the product on this GPU, and uses it from now on, in this process
 * for this device. A file in the user's cache keeps the result; without it the call measures for some 50 ms,
 * or for seconds if kernels are in no cache. Without this call the library chooses by itself. D is not
 * written; the host waits for the stream. Call it before ptxb_matmul_workspace(), whose result may change,
 * and not in a capture. Returns PTXB_ERROR on the emulator. */
PTXB_API int ptxb_matmul_tune(ptxb_device* device, const ptxb_matmul* product, void* stream);

/* ---- Packed weights ---- */

/* Returns the form of packed weights, for a product and for the functions below. Each group of k of each
 * column has a scale, of float32, float16 or bfloat16, and with PTXB_PACKED_UINT4 also a zero point that is
 * subtracted from its weights. Groups have 32, 64 or 128 of k, or all of k for 0, where the only scales are
 * the product's column_scales. */
PTXB_API int ptxb_packed_form(int32_t type, int32_t group, ptxb_dtype scales, int64_t* form);

/* Returns the bytes that weights of n columns and k rows need. */
PTXB_API int ptxb_packed_bytes(int64_t form, int64_t n, int64_t k, size_t* bytes);

/* Packs weights [n,k], scales [n,groups] and zeros, uint8 [n,groups], all in the host's memory without gaps;
 * `groups` is k/group, rounded up, or 1. Scales and zeros that the form does not have are not read. */
PTXB_API int ptxb_pack(int64_t form, int64_t n, int64_t k, const void* weights, const void* scales,
                       const void* zeros, void* packed);
/* Does the reverse. */
PTXB_API int ptxb_unpack(int64_t form, int64_t n, int64_t k, const void* packed, void* weights, void* scales,
                         void* zeros);

/* Stores two of each four elements of a row of a matrix of `type`, of 8 or 16 bits, in the host's memory. Its
 * rows are `stride` elements apart; 0 means no gaps. `values` receives [rows,columns/2], and `metadata`,
 * which identifies these elements, receives [columns/64,128 rows/64], with quotients rounded up, both without
 * gaps and in the host's memory. The stored elements are the nonzero ones, at most two of each four: if there
 * are more, the error PTXB_INVALID_ARGUMENT names the row and the columns. */
PTXB_API int ptxb_compress_2_4(ptxb_dtype type, const void* dense, int64_t rows, int64_t columns,
                               int64_t stride, void* values, int32_t* metadata);
/* Restores the dense matrix [rows,columns], without gaps. */
PTXB_API int ptxb_decompress_2_4(ptxb_dtype type, const void* values, const int32_t* metadata, int64_t rows,
                                 int64_t columns, void* dense);

/* ---- Contractions by name ---- */

/* D = alpha times the sum of A B over the modes that A and B have and D does not, rounded once. `subscripts`
 * has a letter for each dimension of A, of B and of D, such as "mbk,nbk->mnb": each letter is in two of them
 * or in all. Types are those of ptxb_matmul. Strides may have any value that is not negative, and for D not
 * 0. Modes are folded if their strides allow it, and otherwise become dimensions of tensor maps. Operands
 * that TMA cannot read are copied once into the workspace, and a D that TMA cannot write is copied from
 * there. */
typedef struct ptxb_contraction {
  size_t size; /* sizeof(ptxb_contraction) */
  const char* subscripts;
  const ptxb_tensor *a, *b, *d;
  float alpha;
  int32_t tf32;    /* nonzero: f32 operands may be cut to tf32 */
  int32_t precise; /* nonzero: sums of 8-bit floats are promoted to f32 every 128 of k */
} ptxb_contraction;

#define PTXB_CONTRACTION_INIT \
  { sizeof(ptxb_contraction), NULL, NULL, NULL, NULL, 1.0f, 0, 0 }

/* These work like ptxb_matmul_workspace() and ptxb_matmul_run(). */
PTXB_API int ptxb_contraction_workspace(ptxb_device* device, const ptxb_contraction* contraction,
                                        size_t* bytes);
PTXB_API int ptxb_contraction_run(ptxb_device* device, const ptxb_contraction* contraction, void* workspace,
                                  size_t workspace_bytes, void* stream);
/* Describes in one line which modes are rows, columns, depth and batches, how tiles cover them, and what is
 * copied and why. The line is valid until the thread's next call of this function. */
PTXB_API int ptxb_contraction_explain(ptxb_device* device, const ptxb_contraction* contraction,
                                      const char** text);

/* ---- Convolutions ---- */

/* The tensor that is written; the others are read. */
typedef enum ptxb_convolution_result {
  PTXB_CONVOLUTION_Y = 0, /* the convolution of x by w */
  PTXB_CONVOLUTION_X = 1, /* the gradient of its input, from that of its result in y */
  PTXB_CONVOLUTION_W = 2  /* the gradient of its filters, from x and y */
} ptxb_convolution_result;

/* y = activation(x convolved by w, + bias). x is [images, lines, pixels, channels], w [filters, lines,
 * pixels, channels of a group] and y [images, lines, pixels, filters], with contiguous channels: these are
 * PyTorch's tensors in channels-last format, with their strides. Lists are along lines and along pixels:
 * strides of 1 to 8 between windows, zero padding before and after an image, and the distance between the
 * taps of a window (dilation). Channels and filters are in `groups`. The bias has an element of y's type for
 * each filter. Bias and activation are only for PTXB_CONVOLUTION_Y. Gradients are read as f16 or bf16. The
 * result may be f32. TMA walks over the pixels in place; if the channels of a group are not a multiple of 16
 * bytes, they are copied into the workspace. */
typedef struct ptxb_convolution {
  size_t size; /* sizeof(ptxb_convolution) */
  const ptxb_tensor *x, *w, *y, *bias;
  int32_t result;     /* ptxb_convolution_result */
  int32_t activation; /* ptxb_activation */
  int64_t step[2], before[2], behind[2], spread[2];
  int64_t groups;
  int32_t tf32;    /* nonzero: f32 operands may be cut to tf32 */
  int32_t precise; /* nonzero: sums of 8-bit floats are promoted to f32 every 128 of k */
} ptxb_convolution;

#define PTXB_CONVOLUTION_INIT                                                                                \
  {                                                                                                          \
    sizeof(ptxb_convolution), NULL, NULL, NULL, NULL, PTXB_CONVOLUTION_Y, PTXB_NONE, {1, 1}, {0, 0}, {0, 0}, \
        {1, 1}, 1, 0, 0                                                                                      \
  }

/* These work like ptxb_matmul_workspace() and ptxb_matmul_run(). */
PTXB_API int ptxb_convolution_workspace(ptxb_device* device, const ptxb_convolution* convolution,
                                        size_t* bytes);
PTXB_API int ptxb_convolution_run(ptxb_device* device, const ptxb_convolution* convolution, void* workspace,
                                  size_t workspace_bytes, void* stream);

/* ---- Attention ---- */

/* O = softmax(scale Q K^T) V of each head. Q is [batch, queries, heads, columns], K [batch, keys, key heads,
 * columns], V [batch, keys, key heads, value columns] and O [batch, queries, heads, value columns], all of
 * f16 or bf16, except for caches; heads are a multiple of key heads. Tensors in the order [batch, heads,
 * rows, columns] are passed with their strides. Up to 256 columns, V's no more than Q's. Strides and
 * addresses may have any value, but columns must be contiguous; tensors that TMA cannot access in place are
 * copied through the workspace. O and lse must not overlap other tensors.
 *
 * With offset = keys - queries, or 0 if `top_left`, query i sees the keys from i + offset - left to i +
 * offset + right, inclusive; a value below 0 means no limit. A query that sees no keys has a row of zeros and
 * a logarithm of -inf.
 *
 * Packed sequences: all tensors lack their first dimension, and `query_offsets` and `key_offsets`, int32 with
 * one element more than there are sequences, state where each sequence begins and where the last one ends;
 * `queries` and `keys` are those of the longest sequence.
 *
 * Caches: `key_lengths` says on the device how many of its keys each batch has; masks count from these in
 * place of `keys`, and what follows them may be anything. With a `block_table`, K and V are [page, row, head,
 * column], and row b of the table lists the pages that hold the keys of batch b, in order. K and V may be of
 * float8 (e4m3), and attention is then over K times `k_scale` and V times `v_scale`. With two dimensions
 * these are of pages, and elements are multiplied before they are rounded to the type of Q. Scales are at
 * least 0: one of K or Q below 0 makes the rows of its heads NaN. Mixed batches: with `query_offsets` and
 * `queries` besides `key_lengths`, and no `key_offsets`, Q, O and lse are packed, so that each batch has its
 * own number of queries. Trees of tokens, for speculation: the last keys of a batch are those of its queries,
 * 32 at most, and bit j of a query's `tree_mask` says whether it sees the key of query j; all see the keys
 * before, and other masks hold besides. None of these has a gradient.
 *
 * Latent values (multi-head latent attention with absorbed weights): K has one head of 576 columns, whose
 * first 512 are also the values, or of 320 and 256 columns, and V is NULL. Latent values cannot be combined
 * with packed sequences, float8, softcap, sinks or dropout; pages must have a multiple of 8 rows, and there
 * is no gradient. With Q of bfloat16 and 576 columns, K may have rows of 656 bytes of uint8: 512 values of
 * e4m3, 4 factors in float32, of 128 values each, and the last 64 columns in bfloat16. Values times their
 * factors are rounded to bfloat16.
 *
 * Q, K and V may all be of e4m3, without caches, and O of f16 or bf16: products then have 8-bit operands,
 * including the weights, which are rounded to e4m3. `q_scale` is like the other two scales; either all three
 * are given or none. The tensor cores keep some 14 bits of a sum of such products: with `promote` above 0,
 * sums of values are added to f32 sums after that number of keys. This form has no gradient either.
 *
 * A sink is the score of a key without a value, which each query of its head sees; lse counts it. Dropout
 * drops that fraction of the weights, rounded to a multiple of 1/65536, and multiplies the others by 1 / (1 -
 * dropout): which weights are dropped depends on the seed, the offset, and the position of a weight. */
typedef struct ptxb_attention {
  size_t size; /* sizeof(ptxb_attention) */
  const ptxb_tensor *q, *k, *v, *o;
  const ptxb_tensor* lse; /* float32 [batch, heads, queries], packed [heads, rows of Q], or NULL */
  const ptxb_tensor *query_offsets, *key_offsets; /* or NULL */
  int64_t queries,
      keys; /* only if packed; keys also with a block_table: the most of a batch, 0 for all of n pages */
  int64_t left, right;
  float scale;                     /* 0: 1 / sqrt(columns) */
  float softcap;                   /* above 0: scores s become softcap tanh(s / softcap) */
  int32_t causal;                  /* nonzero: right = 0 */
  int32_t top_left;                /* nonzero: masks begin at the first key, instead of ending at the last */
  const ptxb_tensor* sinks;        /* float32 [heads], or NULL */
  const ptxb_tensor* dropout_seed; /* int32 [4], 64 bits of a seed and 64 of an offset, the lowest first */
  float dropout;                   /* from 0 to below 1; above 0 it takes a dropout_seed */
  int32_t reserved;                /* 0 */
  const ptxb_tensor* key_lengths;  /* int32 [batch]: keys that each batch has on the device, or NULL */
  const ptxb_tensor* block_table;  /* int32 [batch, n]: the pages of its keys, or NULL */
  const ptxb_tensor *k_scale,
      *v_scale; /* float32 [1] or [key heads], or so for each page, with K and V of e4m3; or NULL */
  const ptxb_tensor* q_scale;   /* as many, with Q of e4m3; or NULL with both */
  int64_t promote;              /* with Q of e4m3, keys after which sums go to f32; 0: never */
  const ptxb_tensor* tree_mask; /* int32 [batch, queries], packed [rows of Q], with key_lengths; or NULL */
} ptxb_attention;

#define PTXB_ATTENTION_INIT                                                                                 \
  {                                                                                                         \
    sizeof(ptxb_attention), NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, -1, -1, 0.0f, 0.0f, 0, 0, NULL, \
        NULL, 0.0f, 0, NULL, NULL, NULL, NULL, NULL, 0, NULL                                                \
  }

/* These work like ptxb_matmul_workspace() and ptxb_matmul_run(). */
PTXB_API int ptxb_attention_workspace(ptxb_device* device, const ptxb_attention* attention, size_t* bytes);
PTXB_API int ptxb_attention_run(ptxb_device* device, const ptxb_attention* attention, void* workspace,
                                size_t workspace_bytes, void* stream);
/* Finds the fastest of several kernels for attentions of this size, as ptxb_matmul_tune() does for a product.
 * O and lse are not written; Q, K, V and offsets are read. */
PTXB_API int ptxb_attention_tune(ptxb_device* device, const ptxb_attention* attention, void* stream);

/* The gradients of an attention that has run: `attention` is the struct with which it ran, whose O and lse,
 * as written by it, are read here; `grad` is the gradient of O, laid out like O, and dQ, dK and dV, which are
 * written, are laid out like Q, K and V. Unless `deterministic` is set, two runs may differ in the last bits
 * of dQ. */
typedef struct ptxb_attention_gradient {
  size_t size; /* sizeof(ptxb_attention_gradient) */
  const ptxb_attention* attention;
  const ptxb_tensor *grad, *dq, *dk, *dv;
  const ptxb_tensor* lse_grad; /* the gradient of lse, as lse, or NULL */
  int64_t deterministic;       /* nonzero: what is added to dQ comes in one order, which takes longer */
  const ptxb_tensor* dsinks;   /* the gradient of sinks, which is written, or NULL */
} ptxb_attention_gradient;

#define PTXB_ATTENTION_GRADIENT_INIT \
  { sizeof(ptxb_attention_gradient), NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL }

/* These work like ptxb_matmul_workspace() and ptxb_matmul_run(), but always need a workspace. */
PTXB_API int ptxb_attention_gradient_workspace(ptxb_device* device, const ptxb_attention_gradient* gradient,
                                               size_t* bytes);
PTXB_API int ptxb_attention_gradient_run(ptxb_device* device, const ptxb_attention_gradient* gradient,
                                         void* workspace, size_t workspace_bytes, void* stream);

/* ---- Operations on the rows of a matrix ---- */

/* An operation of ptxb_rows_table(), by its name. Tensors are in the order of the table, with NULL for an
 * optional one that is left out; the list may end after the last one that is given. Tensors have no gaps, and
 * extents before those of the table count as rows. */
typedef struct ptxb_rows {
  size_t size; /* sizeof(ptxb_rows) */
  const char* operation;
  const ptxb_tensor* const* tensors;
  size_t tensor_count;
  const float* numbers; /* in the order of the table; as it says where number_count is 0 */
  size_t number_count;
} ptxb_rows;

#define PTXB_ROWS_INIT \
  { sizeof(ptxb_rows), NULL, NULL, 0, NULL, 0 }

/* These work like ptxb_matmul_workspace() and ptxb_matmul_run(). */
PTXB_API int ptxb_rows_workspace(ptxb_device* device, const ptxb_rows* rows, size_t* bytes);
PTXB_API int ptxb_rows_run(ptxb_device* device, const ptxb_rows* rows, void* workspace,
                           size_t workspace_bytes, void* stream);
/* All operations as JSON: each has a name, a summary, tensors (name; shape, a list of words, where equal ones
 * are equal extents; type: "any" of f16, bf16 and f32, "of_first", that of the first tensor, "number", f32,
 * "integer", s32 or s64, "e4m3", or "of_first_or_e4m3"; written; updated, which is written in place and else
 * stays as it was; optional; meaning) and numbers (name, unsaid, meaning). It is valid forever. */
PTXB_API const char* ptxb_rows_table(void);

/* ---- Products and norms of several ranks ---- */

/* Each rank makes the same call for its own part, on a GPU that reaches the others' memory, and in the same
 * order as the others. With `scatters` 0, A has `rows` of this rank, [rows,k], and D is the product of all
 * ranks' rows, [ranks * rows, n], with B, [n,k]. With 1, A is [ranks * rows, k] and B [n,k], for this rank's
 * part of k, and D has this rank's rows of the sum over all ranks, [rows, n]. With 2, A is [rows, k], also
 * for this rank's part of k, and D has all rows of the sum, [rows, n], with the same bits on all ranks. All
 * tensors are bf16 or all are f16, or A and B are e4m3 and D is bf16 or f16. They have no gaps, and rows are
 * multiples of 16 bytes. A 16-bit B may have contiguous columns (strides 1 and n). */
typedef struct ptxb_ranked {
  size_t size; /* sizeof(ptxb_ranked) */
  const ptxb_tensor* a;
  const ptxb_tensor* b;
  const ptxb_tensor* d;
  void* const* memory; /* of each rank, as kernels of this one reach it; zeros before the first call */
  size_t memory_bytes; /* of each; ptxb_ranked_memory() says how many */
  int32_t ranks, rank;
  int32_t scatters;
  int32_t reserved;            /* 0 */
  const ptxb_tensor* gathered; /* It becomes all ranks' A, [ranks * rows, k], if `scatters` is 0. */
  const ptxb_tensor* scale;    /* It is one float32, by which this rank's products are multiplied. */
  int32_t multiprocessors;     /* The launch takes so many, on all ranks alike; 0 is all. */
  int32_t reserved_too;        /* 0 */
} ptxb_ranked;

#define PTXB_RANKED_INIT \
  { sizeof(ptxb_ranked), NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, NULL, NULL, 0, 0 }

/* Returns the bytes of memory that each rank must provide for access by the others, at a multiple of 256;
 * `memory` is not read. Calls that may run at once need separate memory. */
PTXB_API int ptxb_ranked_memory(ptxb_device* device, const ptxb_ranked* ranked, size_t* bytes);
/* Queues this rank's part on a stream, like ptxb_matmul_run(). */
PTXB_API int ptxb_ranked_run(ptxb_device* device, const ptxb_ranked* ranked, void* stream);

/* Adds up the rows of all ranks and a residual, and normalizes the sum: new_residual is the sum of x over
 * ranks and of the residual, and y = new_residual / sqrt(mean(new_residual^2) + epsilon) * weight. All have
 * the same shape [.., columns] and type, f16, bf16 or f32, but for the weight, [columns] of any of these, and
 * have no gaps; residual and weight may be NULL, and are the same on all ranks. A result may overwrite x or
 * the residual. Calls work like those of ptxb_ranked, but need their own memory, which products must not
 * use. */
typedef struct ptxb_ranked_norm {
  size_t size; /* sizeof(ptxb_ranked_norm) */
  const ptxb_tensor* x;
  const ptxb_tensor* residual;
  const ptxb_tensor* weight;
  const ptxb_tensor* y;
  const ptxb_tensor* new_residual;
  void* const* memory; /* of each rank, as kernels of this one reach it; zeros before the first call */
  size_t memory_bytes; /* All have as many; ptxb_ranked_norm_memory() says how many at least. */
  int32_t ranks, rank;
  float epsilon;
  int32_t multiprocessors; /* The launch takes so many, as that of ptxb_ranked. */
} ptxb_ranked_norm;

#define PTXB_RANKED_NORM_INIT \
  { sizeof(ptxb_ranked_norm), NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 1e-6f, 0 }

/* These work like ptxb_ranked_memory() and ptxb_ranked_run(). */
PTXB_API int ptxb_ranked_norm_memory(ptxb_device* device, const ptxb_ranked_norm* norm, size_t* bytes);
PTXB_API int ptxb_ranked_norm_run(ptxb_device* device, const ptxb_ranked_norm* norm, void* stream);

/* Sends tokens to the ranks of their experts and back; expert e belongs to rank e / experts. `sorted` has
 * this rank's rows in the order of the experts of all ranks, and `ends` the ends of each expert's rows. A
 * dispatch writes all ranks' rows for this rank's experts to `grouped`, in the order of experts and, for
 * each, of ranks, and their ends to `grouped_ends`, which is `group_ends` of ptxb_matmul; and it writes
 * `splits`. A combine writes rows of `grouped` back to `sorted`, by the same `ends` and the `splits` of the
 * dispatch. Each is the other's gradient. Rows are of any type, of multiples of 16 bytes, and have no gaps.
 * Calls work like those of ptxb_ranked_norm; a dispatch and a combine may use the same memory. */
typedef struct ptxb_ranked_tokens {
  size_t size;                     /* sizeof(ptxb_ranked_tokens) */
  const ptxb_tensor* sorted;       /* [rows, columns], with no more rows than most_rows */
  const ptxb_tensor* ends;         /* int32 [ranks * experts] */
  const ptxb_tensor* grouped;      /* [ranks * most_rows, columns], the same on all ranks */
  const ptxb_tensor* splits;       /* int32 [ranks, experts] */
  const ptxb_tensor* grouped_ends; /* int32 [experts]; a combine may have NULL */
  void* const* memory; /* of each rank, as kernels of this one reach it; zeros before the first call */
  size_t memory_bytes; /* All have as many; ptxb_ranked_tokens_memory() says how many at least. */
  int32_t ranks, rank;
  int32_t combines;        /* 0 for a dispatch, 1 for a combine */
  int32_t multiprocessors; /* The launch takes so many, as that of ptxb_ranked. */
} ptxb_ranked_tokens;

#define PTXB_RANKED_TOKENS_INIT \
  { sizeof(ptxb_ranked_tokens), NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0 }

/* These work like ptxb_ranked_memory() and ptxb_ranked_run(). */
PTXB_API int ptxb_ranked_tokens_memory(ptxb_device* device, const ptxb_ranked_tokens* tokens, size_t* bytes);
PTXB_API int ptxb_ranked_tokens_run(ptxb_device* device, const ptxb_ranked_tokens* tokens, void* stream);

/* ---- Any kernel ---- */

/* A kernel that was loaded onto a device. */
typedef struct ptxb_kernel ptxb_kernel;

/* Loads NAME.json with NAME.cubin or NAME.ptx, depending on the device. A module with several kernels has
 * NAME.KERNEL.json for each, and `kernel` chooses one; it may be NULL if there is only one. */
PTXB_API int ptxb_load(ptxb_device* device, const char* path, const char* kernel, ptxb_kernel** loaded);
/* Loads a cubin or PTX text in memory, with its sidecar's JSON. */
PTXB_API int ptxb_load_image(ptxb_device* device, const void* image, size_t bytes, const char* sidecar,
                             ptxb_kernel** loaded);
/* Compiles a module in LLVM's IR, as text or bitcode, for the device, and loads one of its kernels. */
PTXB_API int ptxb_load_ir(ptxb_device* device, const void* ir, size_t bytes, const char* kernel,
                          ptxb_kernel** loaded);

/* The options that ptxb_load_ir() does not have. */
typedef struct ptxb_ir_options {
  size_t size;        /* sizeof(ptxb_ir_options) */
  const char* target; /* such as "sm_90a"; NULL: what the module says, or the least that it needs */
  const char* waived; /* what ptxas reports and is accepted, as names with commas between: "spills,C7510" */
  const char* libdevice; /* the file of CUDA's functions; NULL: searched for if the module needs it */
  int32_t ptx_version;   /* ten times the .version; 0: the least that target and module need */
} ptxb_ir_options;

#define PTXB_IR_OPTIONS_INIT \
  { sizeof(ptxb_ir_options), NULL, NULL, NULL, 0 }

/* The same with options; NULL for those of PTXB_IR_OPTIONS_INIT. */
PTXB_API int ptxb_load_ir_with(ptxb_device* device, const void* ir, size_t bytes, const char* kernel,
                               const ptxb_ir_options* options, ptxb_kernel** loaded);
/* Frees a kernel; NULL does nothing. Queued launches still run: the driver keeps the code until the process
 * ends. / */
PTXB_API void ptxb_kernel_free(ptxb_kernel* kernel);
/* Returns the sidecar as JSON: parameters, threads, shared memory. It is valid as long as the kernel; "" if
 * there is no sidecar. / */
PTXB_API const char* ptxb_kernel_sidecar(const ptxb_kernel* kernel);

/* The meaning of the bits of a scalar. */
typedef enum ptxb_scalar {
  PTXB_BITS = 0,    /* of the parameter's type, whatever that is */
  PTXB_INTEGER = 1, /* an int64_t, for a parameter of integers that holds it */
  PTXB_REAL = 2     /* a float, for one of f32 or f64 */
} ptxb_scalar;

/* An argument for a parameter: a tensor, for a pointer (everything between the first and the last element) or
 * a tensor map; the fields of a struct, pointers and scalars in order; or a scalar, in the low bytes. / */
typedef struct ptxb_argument {
  const char* name;                   /* the parameter's or field's name, which is checked, or NULL */
  const ptxb_tensor* tensor;          /* NULL: none */
  uint64_t bits;                      /* of a scalar */
  const struct ptxb_argument* fields; /* NULL: no struct */
  size_t field_count;
  int32_t scalar; /* ptxb_scalar: what `bits` are */
} ptxb_argument;

/* An argument for a pointer or a tensor map. */
static inline ptxb_argument ptxb_of_tensor(const ptxb_tensor* tensor) {
  ptxb_argument argument = {NULL, NULL, 0, NULL, 0, PTXB_BITS};
  argument.tensor = tensor;
  return argument;
}
/* An argument for a struct, by its fields in order. */
static inline ptxb_argument ptxb_of_struct(const ptxb_argument* fields, size_t count) {
  ptxb_argument argument = {NULL, NULL, 0, NULL, 0, PTXB_BITS};
  argument.fields = fields;
  argument.field_count = count;
  return argument;
}
/* Arguments for scalars: bits of the parameter's type, an integer, or a float. */
static inline ptxb_argument ptxb_of_bits(uint64_t bits) {
  ptxb_argument argument = {NULL, NULL, 0, NULL, 0, PTXB_BITS};
  argument.bits = bits;
  return argument;
}
static inline ptxb_argument ptxb_of_integer(int64_t value) {
  ptxb_argument argument = ptxb_of_bits((uint64_t)value);
  argument.scalar = PTXB_INTEGER;
  return argument;
}
static inline ptxb_argument ptxb_of_float(float value) {
  union {
    float value;
    uint32_t bits;
  } same;
  ptxb_argument argument = ptxb_of_bits(0);
  same.value = value;
  argument.bits = same.bits;
  argument.scalar = PTXB_REAL;
  return argument;
}

/* Queues one launch, checked against the sidecar: names, types, ranks, and the rules of tensor maps. For a
 * pointer only the type is checked, not how far the kernel reaches from it. `grid` is the number of CTAs
 * along x, y and z; NULL uses the sidecar's rule. */
PTXB_API int ptxb_launch(ptxb_kernel* kernel, const uint32_t grid[3], const ptxb_argument* arguments,
                         size_t count, void* stream);

#ifdef __cplusplus
}
#endif

#endif

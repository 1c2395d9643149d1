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
 * Every function that returns an int, except ptxb_version(), returns a ptxb_status. If the status is not
 * PTXB_OK, ptxb_error() returns the reason. Any thread may call any function at any time, except that
 * ptxb_close() and ptxb_kernel_free() must not be called for an object that another thread is using. A call
 * with a device that was closed or a kernel that was freed returns an error; closing or freeing either one
 * again does nothing. A thread's current CUDA context does not change. This header can be compiled as C11 and
 * as C++. */
#ifndef PTXB_H
#define PTXB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PTXB_API __attribute__((visibility("default")))

/* The version is 10000 times the major version, plus 100 times the minor version, plus the patch. A program
 * that was built with an older header runs with a newer library of the same major version, or of the same
 * minor version while the major version is 0. This works because functions and statuses are only added, and
 * structs only grow. A struct begins with its size; members that the program's header lacks get the values
 * that the newer header's INIT macro sets. */
#define PTXB_VERSION 100
/* Returns the version of the library that the program is running with, in the form of PTXB_VERSION. */
PTXB_API int ptxb_version(void);

/* A call that fails queues nothing. A program should treat an unknown status as PTXB_ERROR. */
typedef enum ptxb_status {
  PTXB_OK = 0,
  PTXB_ERROR = 1,            /* the call is not possible here and now, such as tuning on the emulator */
  PTXB_TIMEOUT = 2,          /* a kernel did not end; this process can no longer use a GPU */
  PTXB_INVALID_ARGUMENT = 3, /* an argument breaks a rule; ptxb_error() names the rule and the value */
  PTXB_OUT_OF_MEMORY = 4,    /* the device or the host is out of memory */
  PTXB_DEVICE = 5,  /* there is no driver or no such GPU, or the driver, the GPU or a kernel failed; after
                       a failure, queued work is lost, and this process can no longer use a GPU */
  PTXB_COMPILE = 6, /* LLVM, ptxas or the driver's compiler rejects the kernel */
  PTXB_INTERNAL = 7 /* a bug in the library */
} ptxb_status;

/* Returns the message of the calling thread's last call if that call failed, else "". It is valid until the
 * thread's next call. */
PTXB_API const char* ptxb_error(void);

/* The severity of a log message. */
typedef enum ptxb_log_level { PTXB_LOG_WARNING = 1 } ptxb_log_level;

/* Sets the function that receives the library's messages other than errors, such as a warning that a file of
 * measured tiles cannot be read. `text` is one line without a newline, and is valid during the call. `log` is
 * called on the thread whose call caused the message, possibly on several threads at once, and must not call
 * this library. When ptxb_set_log() returns, no thread is running the previous `log`. If `log` is NULL,
 * messages are written to standard error again. */
PTXB_API void ptxb_set_log(void (*log)(int level, const char* text, void* user), void* user);

/* ---- Tensors ---- */

/* ptxb_tensor has the layout of DLPack's DLTensor, so that a pointer to either can be cast to a pointer to
 * the other. */

/* An element type. */
typedef struct ptxb_dtype {
  uint8_t code; /* ptxb_dtype_code, equal to DLDataTypeCode */
  uint8_t bits;
  uint16_t lanes; /* must be 1 */
} ptxb_dtype;

/* The kinds of element types; each comment lists the values that `bits` may have. */
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
  void* data; /* device memory; on the emulator, memory that ptxb_allocate() returned */
  struct {
    int32_t type; /* 2: CUDA; 0: unspecified */
    int32_t id;   /* the GPU's number */
  } device;
  int32_t ndim;
  ptxb_dtype dtype;
  int64_t* shape;       /* in elements, outermost dimension first */
  int64_t* strides;     /* in elements; NULL: the tensor has no gaps */
  uint64_t byte_offset; /* offset of the first element from `data` */
} ptxb_tensor;

/* ---- Devices ---- */

/* A GPU or the emulator. */
typedef struct ptxb_device ptxb_device;

/* Opens a device. "cuda" is the first GPU that can run code for sm_90a; "cuda:1" is GPU 1; "emulator" is the
 * emulator; "auto" is a GPU if there is one, else the emulator. */
PTXB_API int ptxb_open(const char* name, ptxb_device** device);
/* Closes a device. Kernels that are still loaded remain usable. Does nothing if `device` is NULL. */
PTXB_API void ptxb_close(ptxb_device* device);

/* A stream is a CUstream, NULL for CUDA's default stream, or PTXB_OWN_STREAM for the device's own stream. The
 * emulator has a single queue for all streams. */
#define PTXB_OWN_STREAM ((void*)(intptr_t)-1)

/* Waits until the work on a stream is done. Returns PTXB_DEVICE if a kernel failed, and PTXB_TIMEOUT if the
 * work is not done after `milliseconds`. */
PTXB_API int ptxb_wait(ptxb_device* device, void* stream, int64_t milliseconds);

/* Registers a function that the emulator calls periodically while a call from this thread, such as
 * ptxb_wait() or a copy, runs a launch. If is_interrupted() returns nonzero, the launch ends at that point,
 * and ptxb_wait() returns PTXB_TIMEOUT. NULL unregisters the function. */
PTXB_API void ptxb_interrupt_by(int (*is_interrupted)(void* context), void* context);

/* These functions allocate, free and copy device memory, for programs that have no other means of doing so,
 * such as programs on the emulator. Memory is aligned to 256 bytes. Copies wait for the device's own stream.
 * ptxb_free() accepts memory that ptxb_allocate() returned for this device and that has not been freed yet.
 * It does nothing for NULL. */
PTXB_API int ptxb_allocate(ptxb_device* device, size_t bytes, void** address);
PTXB_API int ptxb_free(ptxb_device* device, void* address);
PTXB_API int ptxb_copy_in(ptxb_device* device, void* to, const void* from, size_t bytes);
PTXB_API int ptxb_copy_out(ptxb_device* device, void* to, const void* from, size_t bytes);

/* ---- The matrix product ---- */

/* The activation functions of a product. */
typedef enum ptxb_activation {
  PTXB_NONE = 0,
  PTXB_RELU = 1,
  PTXB_GELU = 2, /* the tanh form: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
  PTXB_SILU = 3,
  PTXB_RELU_SQUARED = 4
} ptxb_activation;

/* The formula that computes D from x = alpha A B + beta C + bias and an activation function f. */
typedef enum ptxb_use {
  PTXB_VALUE = 0, /* D = f(x) */
  PTXB_SLOPE = 1, /* D = x f'(inputs): the backward pass of f, where `inputs` are the inputs of f */
  PTXB_GATE = 2   /* D[m,j] = f(x[m,2j]) x[m,2j+1]: D has half as many columns as B, and beta must be 0 */
} ptxb_use;

/* The types of packed weights. Before packing, each weight occupies a byte, as an element of the listed
 * type. */
typedef enum ptxb_packed_type {
  PTXB_PACKED_INT4 = 1,  /* int8 from -8 to 7 */
  PTXB_PACKED_UINT4 = 2, /* uint8 from 0 to 15, with zero points */
  PTXB_PACKED_INT8 = 3,  /* int8 */
  PTXB_PACKED_E4M3 = 4   /* float8_e4m3fn, without NaN */
} ptxb_packed_type;

/* D = activation(alpha A B + beta C + bias + row_bias), rounded once. A is [m,k], B is [k,n], and C and D are
 * [m,n]. Either all four have a leading dimension with the same number of batches, or none has batches. bias
 * is [n], the same for each row; row_bias is [m], the same for each column.
 *
 * Types: A and B are both f16, both bf16 or both f32, or each is e4m3 or e5m2, or each is int8 or uint8. D is
 * f16, bf16, f32, e4m3 or e5m2; for integers D may also be int32, but then nothing can be applied to A B. C,
 * bias and inputs have D's type, or bf16 if D has 8 bits. The tensor cores truncate f32 to tf32, so f32
 * operands require `tf32` to be set.
 *
 * Layout: A and B may be contiguous (stride 1) along either of their dimensions, but must be contiguous along
 * k if they are f32 or have 8 bits. C, D and inputs are contiguous along n. Other strides may be any positive
 * number, and addresses are arbitrary: if TMA cannot read A or B in place, the operand is first copied into
 * the workspace. D may be C itself; any other overlap of D or of the workspace with another operand is an
 * error.
 *
 * Factors: these tensors are float32 in device memory, without gaps, and are read when the product runs. Row
 * i of A B is multiplied by row_scales[i] and column j by column_scales[j], for instance to apply the scales
 * of 8-bit floats that were quantized row by row. Their shapes are [m] or [m,1], and [n] or [1,n], each with
 * D's batches as a leading dimension if D has batches. The product is also multiplied by alpha_in_memory,
 * which has one element, and by alpha. D is multiplied by d_scale, which has one element, before it is
 * rounded; if D has 8 bits it is then clamped to the largest number of its type. amax has one element. It is
 * replaced with the largest |D|, taken before d_scale and rounding, if that value is greater than amax or is
 * a NaN; set amax to 0 first.
 *
 * Groups: with group_ends, in device memory, the rows of A [m,k] are divided into groups, and each group is
 * multiplied by its own matrix of B [groups,k,n]; D is [m,n]. A group begins where the previous group ends,
 * and may be empty. Rows of D after the last group are computed as if A B were 0 there. bias and
 * column_scales are [groups,n], and row_scales and row_bias are [m]. If instead B is [k,n], the groups divide
 * k, and D [groups,m,n] holds the product of each group. A and B must then have 16-bit types, and A's columns
 * and B's rows must be contiguous; A is then the transpose of a matrix that is laid out like B. An end that
 * is less than the previous end or outside the tensor is replaced with the nearest valid end.
 *
 * With group_counts instead of group_ends, each group has m/groups rows of A and D, and only the first
 * group_counts[g] rows of group g are multiplied. Counts are clamped to 0 to m/groups. The other rows of D do
 * not change. D's rows must begin at multiples of 16 bytes, and their length must be a multiple of 16 bytes.
 *
 * Matrices at any address: with b_addresses, in device memory, the matrix of group g of rows begins at
 * address b_addresses[g]. All these matrices have the same shape, strides and type; B, which is [k,n], is any
 * matrix in device memory that has them too. The addresses and the strides of rows must be multiples of 16
 * bytes; the address of a group without rows is not used. b_addresses cannot be combined with packed weights.
 * The library does not check whether D overlaps these matrices.
 *
 * Gathered rows: with a_rows, in device memory, row i of D [m,n] is computed from row a_rows[i] of A. A may
 * have any number of rows, which must be contiguous along k; if A has no row with the given number, such as
 * -1, zeros are used. The rows are read in place. They may be divided into groups. row_scales, a_scales_1x128
 * and other operands with a value for each row are indexed by D's rows. Gathered rows cannot be combined with
 * batches or groups of k.
 *
 * Scattered rows: with d_rows, in device memory, row i of the product becomes row d_rows[i] of D. D may have
 * any number of rows; they must begin at multiples of 16 bytes, and their length must be a multiple of 16
 * bytes. If D has no row with the given number, such as -1, the result is dropped. Rows of D whose numbers do
 * not occur in d_rows do not change, and a row whose number occurs twice receives one of the two results. The
 * product has as many rows as a_rows or, without a_rows, as A. Scattered rows cannot be combined with
 * batches, groups of k or C.
 *
 * Added rows: with add_to_rows instead of d_rows, row i of the product is rounded to D's type (float32,
 * float16 or bfloat16) and added to row add_to_rows[i] of D in memory. Several rows may be added to the same
 * row of D; pass the weights of an expert router, for instance, as row_scales. D must hold the initial values
 * of the sums. The order of additions is not fixed, so the last bits may differ from run to run, most of all
 * in bfloat16. The rules of d_rows apply; in addition, amax is not available.
 *
 * Packed weights: with a `packed_form` from ptxb_packed_form(), B holds weights [n,k] as ptxb_pack() packed
 * them. B is then uint8 [n/64,bytes], with n/64 rounded up and n as in D; it begins at a multiple of 16 bytes
 * and has no gaps. With group_ends, B is [groups,n/64,bytes], one packed matrix after the other. A is f16 or
 * bf16, the weights are converted exactly to A's type, and the sum over each group of k is multiplied in f32
 * by the group's scale. Packed weights cannot be combined with batches, groups of k, PTXB_GATE, or a k or
 * alpha of 0.
 *
 * Block scales, for 8-bit floats: each row of A has one factor for every 128 elements along k. B has one
 * factor for every 128 elements along k of each column, or one for each block of 128 elements along k and 128
 * columns. The factors are float32 without gaps: a_scales_1x128 [k/128,m], and b_scales_1x128 [k/128,n] or
 * b_scales_128x128 [n/128,k/128]. Quotients are rounded up. If A and B have batches, or B has groups, the
 * scales have the same leading dimension. A's rows and B's columns are thus contiguous in a_scales_1x128 and
 * b_scales_1x128. Either both A and B have block scales, or neither has. With block scales, the sums over 128
 * elements along k are added to separate f32 sums, regardless of `precise`, and groups must be groups of
 * rows.
 *
 * Sparse matrices: with a_metadata, A is [m,k/2] and holds two of every four elements of an [m,k] matrix, as
 * ptxb_compress_2_4() stores them. With b_metadata, B is [k/2,n], the transpose of what ptxb_compress_2_4()
 * stores for an [n,k] matrix. The metadata is int32, [k/64,128 m/64] for A and [k/64,128 n/64] for B.
 * Quotients are rounded up. If A and B have batches, or B has groups, the metadata has the same leading
 * dimension. The matrix without metadata is dense. k must be a multiple of 4; elements have 8 or 16 bits and
 * are contiguous along k. Sparse matrices cannot be combined with block scales, and a sparse A cannot be
 * combined with groups or a_rows. */
typedef struct ptxb_matmul {
  size_t size; /* sizeof(ptxb_matmul) */
  const ptxb_tensor *a, *b, *d;
  const ptxb_tensor *c, *bias; /* optional, may be NULL */
  float alpha, beta;
  int32_t activation;        /* ptxb_activation */
  int32_t tf32;              /* nonzero: f32 operands may be truncated to tf32 */
  int32_t precise;           /* nonzero: sums of 8-bit floats are added to f32 sums every 128 elements of k */
  const ptxb_tensor* inputs; /* for PTXB_SLOPE: [m,n] like C, without gaps between batches; else NULL */
  const ptxb_tensor *alpha_in_memory, *row_scales, *column_scales, *d_scale; /* optional, may be NULL */
  const ptxb_tensor* amax;                                                   /* optional, may be NULL */
  int64_t use;                                                               /* ptxb_use */
  const ptxb_tensor* row_bias;                /* [m] or [m,1], after D's batches if D has any; or NULL */
  const ptxb_tensor* group_ends;              /* int32 [groups], or NULL */
  const ptxb_tensor* a_scales_1x128;          /* float32, [k/128,m]; or NULL */
  const ptxb_tensor* b_scales_128x128;        /* float32, [n/128,k/128]; or NULL */
  const ptxb_tensor* b_scales_1x128;          /* float32, [k/128,n]; or NULL */
  const ptxb_tensor *a_rows, *d_rows;         /* int32 [m], or NULL */
  int64_t packed_form;                        /* from ptxb_packed_form(); 0: B is a plain matrix */
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

/* Returns the bytes of workspace that the product needs, which is 0 for most products. The first call for a
 * product compiles its kernel (in about 0.2 s, if no cache holds it), so call this function before a capture
 * and before timing. */
PTXB_API int ptxb_matmul_workspace(ptxb_device* device, const ptxb_matmul* product, size_t* bytes);

/* Queues the product. The workspace may hold anything. Its address must be a multiple of 16, and it must not
 * be used for anything else until the product is done. */
PTXB_API int ptxb_matmul_run(ptxb_device* device, const ptxb_matmul* product, void* workspace,
                             size_t workspace_bytes, void* stream);

/* Finds the fastest of several kernels for the product on this GPU. Later calls in this process use that
 * kernel on this device. The result is stored in a file in the user's cache. If the file does not hold it
 * yet, the call measures for about 50 ms, or for seconds if kernels have to be compiled. Without this call
 * the library chooses a kernel without measuring. D is not written; the host waits for the stream. Call this
 * function before ptxb_matmul_workspace(), because the size of the workspace may change, and do not call it
 * in a capture. Returns PTXB_ERROR on the emulator. */
PTXB_API int ptxb_matmul_tune(ptxb_device* device, const ptxb_matmul* product, void* stream);

/* ---- Packed weights ---- */

/* Returns the number that describes a form of packed weights, for ptxb_matmul and for the functions below.
 * Along k, each column is divided into groups of 32, 64 or 128 elements. Each group has a scale, which is
 * float32, float16 or bfloat16, and with PTXB_PACKED_UINT4 also a zero point that is subtracted from its
 * weights. With a `group` of 0, a column is a single group, and the product's column_scales are the only
 * scales. */
PTXB_API int ptxb_packed_form(int32_t type, int32_t group, ptxb_dtype scales, int64_t* form);

/* Returns the size of packed weights with n columns and k rows, in bytes. */
PTXB_API int ptxb_packed_bytes(int64_t form, int64_t n, int64_t k, size_t* bytes);

/* Packs weights [n,k], scales [n,groups] and zero points, uint8 [n,groups], all in host memory without gaps;
 * `groups` is k/group, rounded up, or 1 if `group` is 0. If the form has no scales or no zero points, the
 * argument for them is not read. */
PTXB_API int ptxb_pack(int64_t form, int64_t n, int64_t k, const void* weights, const void* scales,
                       const void* zeros, void* packed);
/* Restores the weights, scales and zero points that ptxb_pack() packed. */
PTXB_API int ptxb_unpack(int64_t form, int64_t n, int64_t k, const void* packed, void* weights, void* scales,
                         void* zeros);

/* Compresses a matrix to two of every four elements of each row. `type` has 8 or 16 bits. The matrix is in
 * host memory, with rows that are `stride` elements apart; a stride of 0 means that they have no gaps.
 * `values` receives [rows,columns/2], and `metadata`, which identifies the stored elements, receives
 * [columns/64,128 rows/64], with quotients rounded up; both are in host memory, without gaps. The stored
 * elements include all that are not zero. If more than two of any four elements are not zero, the function
 * returns PTXB_INVALID_ARGUMENT, and ptxb_error() names the row and the columns. */
PTXB_API int ptxb_compress_2_4(ptxb_dtype type, const void* dense, int64_t rows, int64_t columns,
                               int64_t stride, void* values, int32_t* metadata);
/* Restores the dense matrix [rows,columns] from `values` and `metadata`, without gaps. */
PTXB_API int ptxb_decompress_2_4(ptxb_dtype type, const void* values, const int32_t* metadata, int64_t rows,
                                 int64_t columns, void* dense);

/* ---- Contractions by name ---- */

/* D = alpha times the sum of A B over the modes that A and B have and D does not have, rounded once.
 * `subscripts` has a letter for each dimension of A, of B and of D, such as "mbk,nbk->mnb". Each letter is a
 * mode and occurs in two of the three tensors or in all. The types are those of ptxb_matmul. Strides must not
 * be negative, and strides of D must not be 0. Modes are merged if their strides allow it, and the others
 * become dimensions of tensor maps. Operands that TMA cannot read are copied once into the workspace; if TMA
 * cannot write D, the result is written to the workspace and copied from there. */
typedef struct ptxb_contraction {
  size_t size; /* sizeof(ptxb_contraction) */
  const char* subscripts;
  const ptxb_tensor *a, *b, *d;
  float alpha;
  int32_t tf32;    /* nonzero: f32 operands may be truncated to tf32 */
  int32_t precise; /* nonzero: sums of 8-bit floats are added to f32 sums every 128 elements of k */
} ptxb_contraction;

#define PTXB_CONTRACTION_INIT \
  { sizeof(ptxb_contraction), NULL, NULL, NULL, NULL, 1.0f, 0, 0 }

/* These functions work like ptxb_matmul_workspace() and ptxb_matmul_run(). */
PTXB_API int ptxb_contraction_workspace(ptxb_device* device, const ptxb_contraction* contraction,
                                        size_t* bytes);
PTXB_API int ptxb_contraction_run(ptxb_device* device, const ptxb_contraction* contraction, void* workspace,
                                  size_t workspace_bytes, void* stream);
/* Describes in one line which modes are rows, columns, depth and batches, how tiles cover them, and what is
 * copied and why. The line is valid until the thread next calls this function. */
PTXB_API int ptxb_contraction_explain(ptxb_device* device, const ptxb_contraction* contraction,
                                      const char** text);

/* ---- Convolutions ---- */

/* The tensor that a convolution writes; it reads the others. */
typedef enum ptxb_convolution_result {
  PTXB_CONVOLUTION_Y = 0, /* the convolution of x with w */
  PTXB_CONVOLUTION_X = 1, /* the gradient of x, computed from w and the gradient of the result in y */
  PTXB_CONVOLUTION_W = 2  /* the gradient of w, computed from x and the gradient of the result in y */
} ptxb_convolution_result;

/* y = activation(conv(x, w) + bias). x is [images, lines, pixels, channels], w is [filters, lines, pixels,
 * channels of a group] and y is [images, lines, pixels, filters], with contiguous channels. A PyTorch tensor
 * in channels-last format has this layout, if its dimensions are passed in this order with their strides.
 * Each array below has one element for lines and one for pixels: `step` is the stride between windows, 1 to
 * 8; `before` and `behind` are the zero padding before and after an image; `spread` is the distance between
 * the taps of a window (dilation). Channels and filters are divided into `groups`. The bias has one element
 * of y's type for each filter. A bias and an activation are available only for PTXB_CONVOLUTION_Y. For a
 * gradient, the tensors that are read must be f16 or bf16. The result may be f32. TMA reads the pixels in
 * place; if the channels of a group do not fill a multiple of 16 bytes, they are first copied into the
 * workspace. */
typedef struct ptxb_convolution {
  size_t size; /* sizeof(ptxb_convolution) */
  const ptxb_tensor *x, *w, *y, *bias;
  int32_t result;     /* ptxb_convolution_result */
  int32_t activation; /* ptxb_activation */
  int64_t step[2], before[2], behind[2], spread[2];
  int64_t groups;
  int32_t tf32;    /* nonzero: f32 operands may be truncated to tf32 */
  int32_t precise; /* nonzero: sums of 8-bit floats are added to f32 sums every 128 elements of k */
} ptxb_convolution;

#define PTXB_CONVOLUTION_INIT                                                                                \
  {                                                                                                          \
    sizeof(ptxb_convolution), NULL, NULL, NULL, NULL, PTXB_CONVOLUTION_Y, PTXB_NONE, {1, 1}, {0, 0}, {0, 0}, \
        {1, 1}, 1, 0, 0                                                                                      \
  }

/* These functions work like ptxb_matmul_workspace() and ptxb_matmul_run(). */
PTXB_API int ptxb_convolution_workspace(ptxb_device* device, const ptxb_convolution* convolution,
                                        size_t* bytes);
PTXB_API int ptxb_convolution_run(ptxb_device* device, const ptxb_convolution* convolution, void* workspace,
                                  size_t workspace_bytes, void* stream);

/* ---- Attention ---- */

/* O = softmax(scale Q K^T) V for each head. Q is [batch, queries, heads, columns], K is [batch, keys, key
 * heads, columns], V is [batch, keys, key heads, value columns] and O is [batch, queries, heads, value
 * columns]. All have the same type, f16 or bf16, except that caches may be e4m3; the number of heads is a
 * multiple of the number of key heads. To pass a tensor that is stored as [batch, heads, rows, columns], list
 * its extents and strides in the order above. Q has up to 256 columns, and V has no more columns than Q.
 * Strides and addresses are arbitrary, but columns must be contiguous; tensors that TMA cannot access in
 * place are copied through the workspace. O and lse must not overlap other tensors.
 *
 * Masks: with offset = keys - queries, or 0 if `top_left` is set, query i sees the keys from i + offset -
 * left to i + offset + right, inclusive. A `left` or `right` below 0 means no limit. For a query that sees no
 * keys, the row of O is zeros and lse is -inf.
 *
 * Packed sequences: no tensor has the batch dimension. `query_offsets` and `key_offsets`, int32 with one
 * element more than there are sequences, hold the position at which each sequence begins and the position at
 * which the last sequence ends. `queries` and `keys` are the largest number of queries and of keys in a
 * sequence.
 *
 * Caches: `key_lengths`, in device memory, holds the number of keys of each batch. Masks then use these
 * numbers instead of `keys`, and the rows of K and V after a batch's keys may hold anything. With a
 * `block_table`, K and V are [page, row, head, column], and row b of the table lists, in order, the pages
 * that hold the keys of batch b. K and V may be float8 (e4m3): attention then uses K times `k_scale` and V
 * times `v_scale`. If the scales have two dimensions, the first is the page; elements are then multiplied by
 * their scales before they are rounded to the type of Q. Scales must not be negative: a negative scale of K
 * or Q makes the rows of its heads NaN.
 *
 * Mixed batches: if `query_offsets`, `queries` and `key_lengths` are set, but `key_offsets` is not, then Q, O
 * and lse are packed, so that each batch has its own number of queries.
 *
 * Trees of tokens, for speculative decoding: a batch has at most 32 queries, and its last keys belong to
 * them. Bit j of a query's `tree_mask` is 1 if that query sees the key of query j. All queries see the
 * earlier keys, and the other masks apply as well. Caches, mixed batches and trees have no gradient.
 *
 * Latent values (multi-head latent attention with absorbed weights): V is NULL, and K has one head. The head
 * has 576 columns, and its first 512 columns are also the values; or it has 320 columns, and its first 256
 * are also the values. If Q is bfloat16 and the head has 576 columns, a row may instead be 656 bytes (uint8):
 * 512 e4m3 values, 4 float32 factors, one for every 128 of these values, and the last 64 columns in bfloat16.
 * Values times their factors are rounded to bfloat16. Latent values cannot be combined with packed sequences,
 * float8, softcap, sinks or dropout. The number of rows of a page must be a multiple of 8. Latent values have
 * no gradient.
 *
 * Float8: Q, K and V may all be e4m3, without caches, with O f16 or bf16. The products then have 8-bit
 * operands, including the weights, which are rounded to e4m3. Q is multiplied by `q_scale`; either all three
 * scales are given or none is. The tensor cores keep only about 14 bits of a sum of 8-bit products, so if
 * `promote` is above 0, the sums that make up O are added to f32 sums after every `promote` keys. Float8
 * attention has no gradient.
 *
 * Sinks: a sink is the score of an additional key that has no value. Every query of the sink's head sees that
 * key, and lse includes it.
 *
 * Dropout: a fraction `dropout` of the weights, rounded to a multiple of 1/65536, is dropped, and the others
 * are multiplied by 1 / (1 - dropout). The seed, the offset and the position of a weight determine whether it
 * is dropped. */
typedef struct ptxb_attention {
  size_t size; /* sizeof(ptxb_attention) */
  const ptxb_tensor *q, *k, *v, *o;
  const ptxb_tensor* lse; /* float32 [batch, heads, queries], or if packed [heads, rows of Q]; or NULL */
  const ptxb_tensor *query_offsets, *key_offsets; /* or NULL */
  int64_t queries, keys; /* for packed sequences only, except that with a block_table, `keys` is the greatest
                            number of keys of a batch; 0: all rows of n pages */
  int64_t left, right;
  float scale;                     /* 0: 1 / sqrt(columns) */
  float softcap;                   /* above 0: scores s become softcap tanh(s / softcap) */
  int32_t causal;                  /* nonzero: right = 0 */
  int32_t top_left;                /* nonzero: masks begin at the first key, instead of ending at the last */
  const ptxb_tensor* sinks;        /* float32 [heads], or NULL */
  const ptxb_tensor* dropout_seed; /* int32 [4]: 64 bits of a seed, then 64 of an offset, low words first */
  float dropout;                   /* at least 0 and below 1; if above 0, dropout_seed must be given */
  int32_t reserved;                /* 0 */
  const ptxb_tensor* key_lengths;  /* int32 [batch]: the number of keys of each batch; or NULL */
  const ptxb_tensor* block_table;  /* int32 [batch, n]: the pages of each batch's keys; or NULL */
  const ptxb_tensor *k_scale, *v_scale; /* if K and V are e4m3: float32 [1] or [key heads], or one of these
                                           shapes after a dimension of pages; or NULL */
  const ptxb_tensor* q_scale;           /* if Q is e4m3, with the shape of k_scale; or NULL */
  int64_t promote;              /* if Q is e4m3: the number of keys after which sums are added to f32 sums;
                                   0: never */
  const ptxb_tensor* tree_mask; /* with key_lengths: int32 [batch, queries], or if packed [rows of Q]; or
                                   NULL */
} ptxb_attention;

#define PTXB_ATTENTION_INIT                                                                                 \
  {                                                                                                         \
    sizeof(ptxb_attention), NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, -1, -1, 0.0f, 0.0f, 0, 0, NULL, \
        NULL, 0.0f, 0, NULL, NULL, NULL, NULL, NULL, 0, NULL                                                \
  }

/* These functions work like ptxb_matmul_workspace() and ptxb_matmul_run(). */
PTXB_API int ptxb_attention_workspace(ptxb_device* device, const ptxb_attention* attention, size_t* bytes);
PTXB_API int ptxb_attention_run(ptxb_device* device, const ptxb_attention* attention, void* workspace,
                                size_t workspace_bytes, void* stream);
/* Finds the fastest of several kernels for attention of this size, as ptxb_matmul_tune() does for a product.
 * O and lse are not written; Q, K, V and the offsets are read. */
PTXB_API int ptxb_attention_tune(ptxb_device* device, const ptxb_attention* attention, void* stream);

/* The gradients of an attention whose forward pass has run. `attention` is the struct that the forward pass
 * ran with; O and lse are read as the forward pass wrote them. `grad` is the gradient of O, in the layout of
 * O. dQ, dK and dV are written, in the layouts of Q, K and V. Unless `deterministic` is set, two runs may
 * differ in the last bits of dQ. */
typedef struct ptxb_attention_gradient {
  size_t size; /* sizeof(ptxb_attention_gradient) */
  const ptxb_attention* attention;
  const ptxb_tensor *grad, *dq, *dk, *dv;
  const ptxb_tensor* lse_grad; /* the gradient of lse, with the layout of lse; or NULL */
  int64_t deterministic;       /* nonzero: additions to dQ have a fixed order, which takes longer */
  const ptxb_tensor* dsinks;   /* the gradient of sinks, which is written; or NULL */
} ptxb_attention_gradient;

#define PTXB_ATTENTION_GRADIENT_INIT \
  { sizeof(ptxb_attention_gradient), NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL }

/* These functions work like ptxb_matmul_workspace() and ptxb_matmul_run(), but always need a workspace. */
PTXB_API int ptxb_attention_gradient_workspace(ptxb_device* device, const ptxb_attention_gradient* gradient,
                                               size_t* bytes);
PTXB_API int ptxb_attention_gradient_run(ptxb_device* device, const ptxb_attention_gradient* gradient,
                                         void* workspace, size_t workspace_bytes, void* stream);

/* ---- Operations on the rows of a matrix ---- */

/* An operation from ptxb_rows_table(), identified by its name. `tensors` lists the tensors in the order of
 * the table, with NULL for an optional tensor that is omitted; NULLs at the end may be left out. Tensors have
 * no gaps. Dimensions before those in the table are counted as rows. */
typedef struct ptxb_rows {
  size_t size; /* sizeof(ptxb_rows) */
  const char* operation;
  const ptxb_tensor* const* tensors;
  size_t tensor_count;
  const float* numbers; /* in the order of the table; if number_count is 0, the table's defaults are used */
  size_t number_count;
} ptxb_rows;

#define PTXB_ROWS_INIT \
  { sizeof(ptxb_rows), NULL, NULL, 0, NULL, 0 }

/* These functions work like ptxb_matmul_workspace() and ptxb_matmul_run(). */
PTXB_API int ptxb_rows_workspace(ptxb_device* device, const ptxb_rows* rows, size_t* bytes);
PTXB_API int ptxb_rows_run(ptxb_device* device, const ptxb_rows* rows, void* workspace,
                           size_t workspace_bytes, void* stream);
/* Returns a description of all operations as JSON. Each operation has a name, a summary, tensors and numbers.
 * A tensor has a name; a shape, a list of words in which equal words mean equal extents; a type; the flags
 * written, updated (it is changed in place) and optional; and a meaning. The type is "any" (f16, bf16 or
 * f32), "of_first" (the type of the first tensor), "number" (f32), "integer" (s32 or s64), "e4m3",
 * "of_first_or_e4m3" or "bytes" (u8). A number has a name, a default ("unsaid") and a meaning. The string
 * remains valid until the process ends. */
PTXB_API const char* ptxb_rows_table(void);

/* ---- Products and norms of several ranks ---- */

/* A product of matrices that are spread over ranks. Each rank makes the same call for its own part, on a GPU
 * that can access the memory of the other ranks' GPUs. All ranks make their calls in the same order. If
 * `scatters` is 0, A [rows,k] holds this rank's rows, and D [ranks * rows, n] is the product of all ranks'
 * rows with B [n,k]. If `scatters` is 1, A [ranks * rows, k] and B [n,k] hold this rank's part of k, and D
 * [rows, n] holds this rank's rows of the sum over all ranks. If `scatters` is 2, A [rows, k] and B also hold
 * this rank's part of k, and D [rows, n] holds all rows of the sum, with the same bits on all ranks. Either
 * all tensors are bf16, or all are f16, or A and B are e4m3 and D is bf16 or f16. They have no gaps, and the
 * length of a row is a multiple of 16 bytes. A 16-bit B may have contiguous columns (strides 1 and n). */
typedef struct ptxb_ranked {
  size_t size; /* sizeof(ptxb_ranked) */
  const ptxb_tensor* a;
  const ptxb_tensor* b;
  const ptxb_tensor* d;
  void* const* memory; /* each rank's memory, at its address on this rank; zeros before the first call */
  size_t memory_bytes; /* the size of each rank's memory; ptxb_ranked_memory() returns the minimum */
  int32_t ranks, rank;
  int32_t scatters;
  int32_t reserved;            /* 0 */
  const ptxb_tensor* gathered; /* receives all ranks' A, [ranks * rows, k], if `scatters` is 0 */
  const ptxb_tensor* scale;    /* one float32, by which this rank's products are multiplied */
  int32_t multiprocessors;     /* the number that the launch uses, the same on all ranks; 0: all */
  int32_t reserved_too;        /* 0 */
} ptxb_ranked;

#define PTXB_RANKED_INIT \
  { sizeof(ptxb_ranked), NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, NULL, NULL, 0, 0 }

/* Returns the number of bytes that each rank must make accessible to the other ranks, aligned to 256 bytes;
 * `memory` is not read. Calls that may run at the same time need separate memory. */
PTXB_API int ptxb_ranked_memory(ptxb_device* device, const ptxb_ranked* ranked, size_t* bytes);
/* Queues this rank's part on a stream, like ptxb_matmul_run(). */
PTXB_API int ptxb_ranked_run(ptxb_device* device, const ptxb_ranked* ranked, void* stream);

/* Adds up the rows of all ranks and a residual, and normalizes the sum: new_residual is the sum of x over the
 * ranks plus the residual, and y = new_residual / sqrt(mean(new_residual^2) + epsilon) * weight. All tensors
 * except the weight have the same shape [.., columns] and the same type, f16, bf16 or f32; the weight is
 * [columns], of any of these types. The tensors have no gaps. residual and weight may be NULL, and must hold
 * the same values on all ranks. A result may overwrite x or the residual. Calls follow the rules of
 * ptxb_ranked, but need memory that products do not use. */
typedef struct ptxb_ranked_norm {
  size_t size; /* sizeof(ptxb_ranked_norm) */
  const ptxb_tensor* x;
  const ptxb_tensor* residual;
  const ptxb_tensor* weight;
  const ptxb_tensor* y;
  const ptxb_tensor* new_residual;
  void* const* memory; /* each rank's memory, at its address on this rank; zeros before the first call */
  size_t memory_bytes; /* the size of each rank's memory; ptxb_ranked_norm_memory() returns the minimum */
  int32_t ranks, rank;
  float epsilon;
  int32_t multiprocessors; /* as in ptxb_ranked */
} ptxb_ranked_norm;

#define PTXB_RANKED_NORM_INIT \
  { sizeof(ptxb_ranked_norm), NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 1e-6f, 0 }

/* These functions work like ptxb_ranked_memory() and ptxb_ranked_run(). */
PTXB_API int ptxb_ranked_norm_memory(ptxb_device* device, const ptxb_ranked_norm* norm, size_t* bytes);
PTXB_API int ptxb_ranked_norm_run(ptxb_device* device, const ptxb_ranked_norm* norm, void* stream);

/* Sends tokens to the ranks of their experts and back. Expert e belongs to rank e / experts. `sorted` holds
 * this rank's rows in the order of the experts of all ranks, and `ends` holds the end of each expert's rows.
 * A dispatch writes all ranks' rows for this rank's experts to `grouped`, ordered by expert and then by rank.
 * It writes the end of each expert's rows to `grouped_ends`, which can be passed to ptxb_matmul as
 * `group_ends`. It also writes `splits`. A combine writes rows of `grouped` back to `sorted`, using the same
 * `ends` and the `splits` of the dispatch. A combine is the gradient of a dispatch, and a dispatch that of a
 * combine. Rows may have any type; their length is a multiple of 16 bytes, and they have no gaps. Calls
 * follow the rules of ptxb_ranked_norm; a dispatch and a combine may use the same memory. */
typedef struct ptxb_ranked_tokens {
  size_t size;                     /* sizeof(ptxb_ranked_tokens) */
  const ptxb_tensor* sorted;       /* [rows, columns], with at most most_rows rows */
  const ptxb_tensor* ends;         /* int32 [ranks * experts] */
  const ptxb_tensor* grouped;      /* [ranks * most_rows, columns], the same on all ranks */
  const ptxb_tensor* splits;       /* int32 [ranks, experts] */
  const ptxb_tensor* grouped_ends; /* int32 [experts]; may be NULL for a combine */
  void* const* memory; /* each rank's memory, at its address on this rank; zeros before the first call */
  size_t memory_bytes; /* the size of each rank's memory; ptxb_ranked_tokens_memory() returns the minimum */
  int32_t ranks, rank;
  int32_t combines;        /* 0 for a dispatch, 1 for a combine */
  int32_t multiprocessors; /* as in ptxb_ranked */
} ptxb_ranked_tokens;

#define PTXB_RANKED_TOKENS_INIT \
  { sizeof(ptxb_ranked_tokens), NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0 }

/* These functions work like ptxb_ranked_memory() and ptxb_ranked_run(). */
PTXB_API int ptxb_ranked_tokens_memory(ptxb_device* device, const ptxb_ranked_tokens* tokens, size_t* bytes);
PTXB_API int ptxb_ranked_tokens_run(ptxb_device* device, const ptxb_ranked_tokens* tokens, void* stream);

/* ---- Any kernel ---- */

/* A kernel that is loaded onto a device. */
typedef struct ptxb_kernel ptxb_kernel;

/* Loads NAME.json with NAME.cubin or NAME.ptx, depending on the device. A module with several kernels has a
 * NAME.KERNEL.json for each kernel, and `kernel` chooses one; `kernel` may be NULL if the module has only
 * one. */
PTXB_API int ptxb_load(ptxb_device* device, const char* path, const char* kernel, ptxb_kernel** loaded);
/* Loads a cubin or PTX text from memory. `sidecar` is the JSON of its sidecar. */
PTXB_API int ptxb_load_image(ptxb_device* device, const void* image, size_t bytes, const char* sidecar,
                             ptxb_kernel** loaded);
/* Compiles an LLVM IR module, given as text or bitcode, for the device, and loads one of its kernels. */
PTXB_API int ptxb_load_ir(ptxb_device* device, const void* ir, size_t bytes, const char* kernel,
                          ptxb_kernel** loaded);

/* The options of ptxb_load_ir_with(). */
typedef struct ptxb_ir_options {
  size_t size;           /* sizeof(ptxb_ir_options) */
  const char* target;    /* such as "sm_90a"; NULL: the module's target, or the lowest that it needs */
  const char* waived;    /* comma-separated names of ptxas reports to accept: "spills,C7510" */
  const char* libdevice; /* the file of CUDA's device functions; NULL: the library searches for it if the
                            module needs it */
  int32_t ptx_version;   /* ten times the .version; 0: the lowest that the target and the module need */
} ptxb_ir_options;

#define PTXB_IR_OPTIONS_INIT \
  { sizeof(ptxb_ir_options), NULL, NULL, NULL, 0 }

/* Works like ptxb_load_ir(), with options. If `options` is NULL, PTXB_IR_OPTIONS_INIT is used. */
PTXB_API int ptxb_load_ir_with(ptxb_device* device, const void* ir, size_t bytes, const char* kernel,
                               const ptxb_ir_options* options, ptxb_kernel** loaded);
/* Frees a kernel; does nothing if `kernel` is NULL. Queued launches still run, since the driver keeps the
 * code until the process ends. */
PTXB_API void ptxb_kernel_free(ptxb_kernel* kernel);
/* Returns the sidecar as JSON, with parameters, threads, shared memory and so on. The string is valid until
 * the kernel is freed; it is "" if there is no sidecar. */
PTXB_API const char* ptxb_kernel_sidecar(const ptxb_kernel* kernel);

/* The interpretation of the bits of a scalar. */
typedef enum ptxb_scalar {
  PTXB_BITS = 0,    /* a value of the parameter's type */
  PTXB_INTEGER = 1, /* an int64_t, for an integer parameter that can hold the value */
  PTXB_REAL = 2     /* a float, for an f32 or f64 parameter */
} ptxb_scalar;

/* An argument for a parameter. For a pointer or a tensor map, the argument is a tensor; a pointer may be used
 * to access everything between the tensor's first and last element. For a struct, the argument has fields,
 * which are pointers and scalars in order. For a scalar, the value is in the low bytes of `bits`. */
typedef struct ptxb_argument {
  const char* name;                   /* the expected name of the parameter or field; or NULL, then the name
                                         is not checked */
  const ptxb_tensor* tensor;          /* NULL: not a tensor */
  uint64_t bits;                      /* the scalar */
  const struct ptxb_argument* fields; /* NULL: not a struct */
  size_t field_count;
  int32_t scalar; /* ptxb_scalar: the interpretation of `bits` */
} ptxb_argument;

/* Returns an argument for a pointer or a tensor map. */
static inline ptxb_argument ptxb_of_tensor(const ptxb_tensor* tensor) {
  ptxb_argument argument = {NULL, NULL, 0, NULL, 0, PTXB_BITS};
  argument.tensor = tensor;
  return argument;
}
/* Returns an argument for a struct; `fields` holds the struct's fields in order. */
static inline ptxb_argument ptxb_of_struct(const ptxb_argument* fields, size_t count) {
  ptxb_argument argument = {NULL, NULL, 0, NULL, 0, PTXB_BITS};
  argument.fields = fields;
  argument.field_count = count;
  return argument;
}
/* These functions return arguments for scalars: the bits of a value of the parameter's type, an integer, or a
 * float. */
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

/* Queues one launch. Names, types, ranks and the rules of tensor maps are checked against the sidecar; for a
 * pointer, only the type is checked, not the range that the kernel accesses. `grid` is the number of CTAs
 * along x, y and z; if it is NULL, the sidecar's rule determines the grid. */
PTXB_API int ptxb_launch(ptxb_kernel* kernel, const uint32_t grid[3], const ptxb_argument* arguments,
                         size_t count, void* stream);

#ifdef __cplusplus
}
#endif

#endif

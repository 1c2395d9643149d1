/* Code for the Python functions and the XLA handlers that does not itself use Python. It opens devices once
 * and never closes them, loads kernels on each device, and runs work on host memory, which it copies to a
 * device and back. Functions return NULL or an error message, which is valid until the thread's next call.
 */
#ifndef PTXBUILDER_PYTHON_HOST_H
#define PTXBUILDER_PYTHON_HOST_H

#include <stdbool.h>

#include "kernels/c/ptxb.h"

enum { ON_CPU = 1, ON_CUDA = 2, ON_PINNED = 3, ON_MANAGED = 13 }; /* DLDeviceType */
enum { EMULATOR = -1, MOST_GPUS = 64 }; /* the number of a device is that of its GPU, or EMULATOR */
enum { MOST_RANK = 8, MOST_OPERANDS = 64 };
enum {
  LONGEST_WAIT = 600000,
  LONGEST_EMULATION = 604800000
}; /* milliseconds, for work that the host
      waits for */

enum { MOST_ROW_TENSORS = 12 };
typedef struct operation {
  enum { MATMUL, CONTRACTION, CONVOLUTION, ATTENTION, ATTENTION_GRADIENT, ROWS } kind;
  union {
    ptxb_matmul matmul;
    ptxb_contraction contraction;
    ptxb_convolution convolution;
    ptxb_attention attention;
    struct {
      ptxb_rows rows; /* `tensors` is set when the operation is called, to the array below */
      const ptxb_tensor* row_tensors[MOST_ROW_TENSORS];
      unsigned long rows_written; /* bit i is set if tensor i is written */
    };
  };
  ptxb_attention_gradient gradient; /* its member `attention` is set when the operation is called */
} operation;

/* The flags of a call. They are bits of the numbers that Python and XLA's attributes pass. */
enum { TF32 = 1, PRECISE = 2, TRANSPOSE_A = 4, TRANSPOSE_B = 8, GATE = 16 };
/* The position of a product's packed_form in the flags. */
enum { PACKED_FORM = 32 };
/* The operands of a product other than A, B and D, in the order of product.def. XLA's flags contain the bit
 * HAS_OPERAND << i for each operand that is given. */
enum {
#define PTXBUILDER_MATRIX(name, ...) OPERAND_##name,
#define PTXBUILDER_VECTOR PTXBUILDER_MATRIX
#include "kernels/gemm/product.def"
  OPERANDS,
  HAS_OPERAND = 32
};
enum {
  SHAPE_one,
  SHAPE_rows,
  SHAPE_columns,
  SHAPE_columns_of_all,
  SHAPE_elements,
  SHAPE_groups,
  SHAPE_rows_by_k,
  SHAPE_columns_by_k,
  SHAPE_blocks,
  SHAPE_row_blocks,
  SHAPE_column_blocks
};
enum {
  ROLE_groups,
  ROLE_placement,
  ROLE_gather,
  ROLE_scatter,
  ROLE_sparsity,
  ROLE_block_factor,
  ROLE_factor,
  ROLE_residual,
  ROLE_addend,
  ROLE_inputs,
  ROLE_greatest,
  ROLE_result_factor
};
typedef struct operand_row {
  const char *word, *label;        /* the argument's name in Python; its name in errors */
  const char *type, *shape, *role; /* as words */
  int shape_is, role_is;
} operand_row;
extern const operand_row operand_rows[OPERANDS];
/* The flags of attention. They state, for example, that the tensors are [batch, heads, rows, columns], that
 * there is a result with the logarithms or an argument with their gradient, that sequences are packed, and
 * that gradients are bitwise reproducible. */
enum {
  CAUSAL = 1,
  TOP_LEFT = 2,
  HEADS_FIRST = 4,
  HAS_LSE = 8,
  PACKED = 16,
  DETERMINISTIC = 32,
  HAS_SINKS = 64,
  HAS_DROPOUT_SEED = 128,
  HAS_KEY_LENGTHS = 256,
  HAS_BLOCK_TABLE = 512,
  HAS_K_SCALE = 1024,
  HAS_V_SCALE = 2048,
  HAS_Q_SCALE = 4096,
  HAS_TREE_MASK = 8192
};

/* Swaps two dimensions of a tensor. The new shape and strides are stored in the arrays `shape` and `strides`,
 * which may be the tensor's own. */
void swapped(ptxb_tensor* t, int first, int second, int64_t* shape, int64_t* strides);

/* Returns the field of the product that points to an operand; the field is NULL if the operand is not
 * given. */
static inline const ptxb_tensor** place_of(ptxb_matmul* p, int operand) {
  const ptxb_tensor** const places[OPERANDS] = {
#define PTXBUILDER_MATRIX(name, ...) &p->name,
#define PTXBUILDER_VECTOR PTXBUILDER_MATRIX
#include "kernels/gemm/product.def"
  };
  return places[operand];
}

const char* host_device(int number, ptxb_device** device);

/* A program. `path` and `kernel` are the arguments of ptxb_load(), and `waived` is the member of
 * ptxb_ir_options, or "". Calls with the same words return the same program. */
typedef struct host_program host_program;
const char* host_program_of(const char* path, const char* kernel, const char* waived, host_program** program);
/* Loads the program on the device unless it is already loaded. */
const char* host_kernel(host_program* program, int device, ptxb_kernel** kernel);

/* Stores the size of the operation's workspace in `bytes`. */
const char* host_workspace(int device, const operation* o, size_t* bytes);
/* Returns the text of ptxb_contraction_explain() for a contraction. */
const char* host_explain(int device, const operation* o, const char** text);
/* Queues an operation on device memory. */
const char* host_run(int device, const operation* o, void* workspace, size_t bytes, void* stream);
/* These functions run this rank's part of a product, a norm or a token exchange over several ranks. */
const char* host_ranked_memory(int device, const ptxb_ranked* ranked, size_t* bytes);
const char* host_ranked(int device, const ptxb_ranked* ranked, void* stream);
const char* host_ranked_norm_memory(int device, const ptxb_ranked_norm* norm, size_t* bytes);
const char* host_ranked_norm(int device, const ptxb_ranked_norm* norm, void* stream);
const char* host_ranked_tokens_memory(int device, const ptxb_ranked_tokens* tokens, size_t* bytes);
const char* host_ranked_tokens(int device, const ptxb_ranked_tokens* tokens, void* stream);
/* Sets a function that is called periodically while this thread waits for work on host memory or runs it on
 * the emulator. If the function returns nonzero, the work ends. NULL removes the function. */
void host_interrupt_by(int (*is_interrupted)(void* context), void* context);
/* Runs an operation on host memory: inputs are copied to the device, and outputs are copied back. */
const char* host_run_staged(int device, const operation* o);

/* Waits for the work that has been queued on the stream, and copies device memory to the host. */
const char* host_read(int device, void* stream, void* to, const void* from, size_t bytes);
/* Queues a launch on device memory. */
const char* host_launch(host_program* program, int device, const uint32_t* grid,
                        const ptxb_argument* arguments, size_t count, void* stream);
/* Launches a kernel on host memory. All tensors are copied to the device, and a tensor is copied back if its
 * element of `written` is true. The elements are in the order of the tensors in the arguments. */
const char* host_launch_staged(host_program* program, int device, const uint32_t* grid,
                               ptxb_argument* arguments, size_t count, const bool* written);

/* Returns NULL for PTXB_OK, otherwise a copy of the library's error text. A copy is needed because the
 * thread's next call of the library, such as a call that frees memory, invalidates the text. */
const char* said(int status);
/* Returns the ptxb_status of the thread's last error, or PTXB_INVALID_ARGUMENT if `error` does not come from
 * the library. */
int host_status(const char* error);
/* Formats a message; truncates it if it is too long. */
const char* host_words(const char* format, ...) __attribute__((format(printf, 1, 2)));

#endif

/* Handlers for XLA's foreign function interface. They run operations and any kernel, on a GPU or, with the
 * emulator, on the CPU. jax.ffi.register_ffi_target() registers them.
 *
 * "matmul": the arguments are A, B and, according to the flags, operands in the order of product.def. The
 * results are D and, if an operand is written, that operand, in the argument's memory. The attributes are
 * `scale` = float32 [alpha, beta] and `numbers` = int64 [activation, flags].
 *
 * "attention": the arguments are Q, K, V and, according to the flags, query_offsets and key_offsets, sinks,
 * dropout_seed, key_lengths, block_table, k_scale, v_scale, q_scale and tree_mask. The results are O and,
 * according to the flags, lse. The attribute `scale`, float32, holds the numbers of attention.def, and
 * `numbers`, int64, holds its sizes and the flags.
 *
 * "attention_gradient": the arguments are Q, K, V, O, lse, dO and, according to the flags, the arguments of
 * "attention" after V, and the gradient of lse. The results are dQ, dK, dV and, with sinks, dsinks. The
 * attributes are those of "attention".
 *
 * "convolution": the arguments are the two of x, w and y that are not the result, with channels last, and a
 * bias if there is one. The attributes are `scale`, which is empty, and `numbers` = int64
 * [ptxb_convolution_result, activation, flags, steps, zeros before, zeros after and spreads, each along lines
 * and along pixels, groups].
 *
 * "rows": the arguments and results are the tensors of ptxb_rows_table() that are read and written, in its
 * order. The attributes are `operation`, the name; `scale`, float32, the numbers; and `numbers` = int64
 * [tensors, given tensors, written tensors, updated tensors]. The first is a count, and the others have a bit
 * for each tensor. An updated tensor is an argument and also a result in the argument's memory.
 *
 * These handlers have an additional uint8 result if the library needs a workspace.
 *
 * "kernel": the attributes are `program`, the path and the kernel's name with a line feed between them;
 * `grid`, int64 of three numbers or none; and `arguments`, int64 in pairs of an xla_argument and its value.
 *
 * "kernel_waits": like "kernel", with scalars that are known only when the call runs. On a GPU, these scalars
 * are copied to the host, and the call waits until the stream reaches the copies, so XLA must not capture
 * it. */
#ifndef PTXBUILDER_PYTHON_XLA_H
#define PTXBUILDER_PYTHON_XLA_H

enum xla_argument {
  XLA_ARGUMENT = 0, /* the call's argument with this number */
  XLA_RESULT = 1,
  XLA_BITS = 2,    /* a scalar's bits */
  XLA_INTEGER = 3, /* an integer, for a parameter that can hold the value */
  XLA_STRUCT = 4,  /* a struct with this number of fields, which follow */
  XLA_BITS_AT = 5, /* a scalar's bits, stored in the call's argument with this number */
  XLA_INTEGER_AT = 6
};

typedef void* xla_handler(void* call_frame);
xla_handler xla_matmul_cpu, xla_matmul_cuda, xla_attention_cpu, xla_attention_cuda,
    xla_attention_gradient_cpu, xla_attention_gradient_cuda, xla_convolution_cpu, xla_convolution_cuda,
    xla_rows_cpu, xla_rows_cuda, xla_kernel_cpu, xla_kernel_cuda, xla_kernel_waits_cuda;

#endif

/* Handlers of XLA's foreign function interface: operations and any kernel, on a GPU and, with the emulator,
 * on the CPU. jax.ffi.register_ffi_target() registers them.
 *
 * "matmul": arguments A, B and, according to the flags, operands in the order of product.def; result D and,
 * if an operand is written, that operand, in the argument's memory. Attributes `scale` = float32 [alpha,
 * beta] and `numbers` = int64 [activation, flags].
 *
 * "attention": arguments Q, K, V and, as the flags say, query_offsets and key_offsets, sinks,
 * dropout_seed, key_lengths, block_table, k_scale, v_scale, q_scale and tree_mask; result O and, as they
 * say, lse. Attributes `scale`, float32, are the numbers of attention.def, and `numbers`, int64, its sizes
 * and the flags.
 *
 * "attention_gradient": arguments Q, K, V, O, lse, dO and, according to the flags, the arguments of
 * "attention" after V, and the gradient of lse; results dQ, dK, dV and, with sinks, dsinks; attributes are
 * those of "attention".
 *
 * "convolution": arguments are those of x, w and y that are not the result, with channels last, and a bias
 * where there is one; attributes `scale`, which is empty, and `numbers` = int64 [ptxb_convolution_result,
 * activation, flags, steps, zeros before, zeros after and spreads, each along lines and along pixels,
 * groups].
 *
 * "rows": arguments and results are the tensors of ptxb_rows_table() that are read and written, in its order.
 * Attributes `operation`, its name, `scale`, float32, its numbers, and `numbers` = int64
 * [tensors, those that are given, those that are written, those that are updated], where the last three have
 * a bit for each tensor; an updated one is an argument and, in its memory, a result.
 *
 * All have one more result, of uint8, if the library needs a workspace.
 *
 * "kernel": attributes `program`, the path and the kernel's name with a line feed between them, `grid`, int64
 * of three numbers or none, and `arguments`, int64 in pairs: an xla_argument and its value.
 *
 * "kernel_waits": the same with scalars that are known only when it runs. On a GPU these are copied to the
 * host, and the call waits until the stream reaches the copies, so that XLA may not capture it. */
#ifndef PTXBUILDER_PYTHON_XLA_H
#define PTXBUILDER_PYTHON_XLA_H

enum xla_argument {
  XLA_ARGUMENT = 0, /* the call's argument of that number */
  XLA_RESULT = 1,
  XLA_BITS = 2,    /* of a scalar */
  XLA_INTEGER = 3, /* an integer, for a parameter that holds it */
  XLA_STRUCT = 4,  /* of this number of fields, which follow */
  XLA_BITS_AT = 5, /* a scalar's, in the call's argument of that number */
  XLA_INTEGER_AT = 6
};

typedef void* xla_handler(void* call_frame);
xla_handler xla_matmul_cpu, xla_matmul_cuda, xla_attention_cpu, xla_attention_cuda,
    xla_attention_gradient_cpu, xla_attention_gradient_cuda, xla_convolution_cpu, xla_convolution_cuda,
    xla_rows_cpu, xla_rows_cuda, xla_kernel_cpu, xla_kernel_cuda, xla_kernel_waits_cuda;

#endif

/* Matrix products of Python tensors. */
#ifndef PTXBUILDER_PYTHON_PRODUCT_H
#define PTXBUILDER_PYTHON_PRODUCT_H

#include "kernels/python/src/operand.h"

typedef struct product {
  operand a, b, d, operands[OPERANDS];
  operation call;
} product;

typedef struct product_numbers {
  double alpha, beta;
  long activation, flags; /* a ptxb_activation; flags such as TF32 */
} product_numbers;

/* Queues the product of A and B, which must have been read. Returns `out` or, if `out` is None, a new tensor
 * of type `type`. Returns NotImplemented unless A and B have the same batches or only A has batches. Returns
 * NULL with an exception if there is an error. `operands` are OPERANDS objects, and each may be None.
 * `device` and `stream` are arguments of choose_target(). */
PyObject* run_product(product* p, PyObject* out, PyObject* const* operands, const product_numbers* numbers,
                      ptxb_dtype type, PyObject* device, PyObject* stream);

/* Returns NotImplemented, without an exception. */
PyObject* not_taken(void);

#endif

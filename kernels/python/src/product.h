/* A matrix product of Python tensors. */
#ifndef PTXBUILDER_PYTHON_PRODUCT_H
#define PTXBUILDER_PYTHON_PRODUCT_H

#include "kernels/python/src/operand.h"

typedef struct product {
  operand a, b, d, operands[OPERANDS];
  operation call;
} product;

typedef struct product_numbers {
  double alpha, beta;
  long activation, flags; /* ptxb_activation; TF32 and the other flags */
} product_numbers;

/* Queues the product of A and B, which have already been read. Returns `out` or, if that is None, a new
 * tensor of the type. Returns NotImplemented unless both have the same batches, or only A has any; returns
 * NULL with an exception. `operands` are OPERANDS objects, each of which may be None. `device` and `stream`
 * are those of choose_target(). */
PyObject* run_product(product* p, PyObject* out, PyObject* const* operands, const product_numbers* numbers,
                      ptxb_dtype type, PyObject* device, PyObject* stream);

/* Returns NotImplemented, without an exception. */
PyObject* not_taken(void);

#endif

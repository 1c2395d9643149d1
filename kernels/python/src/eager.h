/* The checks that decide whether a call in eager mode can be queued without PyTorch's dispatcher. */
#ifndef PTXBUILDER_PYTHON_EAGER_H
#define PTXBUILDER_PYTHON_EAGER_H

#include "kernels/python/src/operand.h"

/* Returns whether all objects other than None are PyTorch tensors and not of a subclass. */
bool are_plain(PyObject* const* all, int count);
/* Returns whether a mode of PyTorch, a trace, forward derivatives or the profiler must observe a call with
 * these objects, or whether a gradient is required. */
bool is_noticed(PyObject* const* all, int count);
/* Sets the type of a result to the type that the caller requests, or by default to the type that the operands
 * determine. Returns whether the library supports the type. */
bool result_type(PyObject* asked, ptxb_dtype of, ptxb_dtype* to);

#endif

/* Checks that a call makes before it is queued in eager mode without PyTorch's dispatcher. */
#ifndef PTXBUILDER_PYTHON_EAGER_H
#define PTXBUILDER_PYTHON_EAGER_H

#include "kernels/python/src/operand.h"

/* Returns whether all objects other than None are PyTorch tensors, without subclasses. */
bool are_plain(PyObject* const* all, int count);
/* Returns whether a mode of PyTorch, a trace, forward derivatives or the profiler must see a call with these
 * objects, or whether a gradient is required. */
bool is_noticed(PyObject* const* all, int count);
/* Sets the type of a result, which is the one that the caller requests or, by default, the one that follows
 * from the operands. Returns whether the type exists. */
bool result_type(PyObject* asked, ptxb_dtype of, ptxb_dtype* to);

#endif

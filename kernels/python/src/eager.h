/* A call asks these before it is queued past PyTorch's dispatcher, in eager mode. */
#ifndef PTXBUILDER_PYTHON_EAGER_H
#define PTXBUILDER_PYTHON_EAGER_H

#include "kernels/python/src/operand.h"

/* Returns whether all of those that are not None are tensors of PyTorch's and nothing else besides. */
bool are_plain(PyObject* const* all, int count);
/* Returns whether a mode of PyTorch, a trace, forward derivatives or the profiler must know of a call with
 * these, or a gradient is asked for. */
bool is_noticed(PyObject* const* all, int count);
/* Sets the type of a result: the one that the caller asks for, or the one that follows from the operands'.
 * Returns whether there is one. */
bool result_type(PyObject* asked, ptxb_dtype of, ptxb_dtype* to);

#endif

/* Tensors of Python as the library takes them, and where the framework wants its work done.
 *
 * A tensor is an object whose type has DLPack's exchange interface, as PyTorch's has, or else a tuple
 * (address, code, bits, shape, strides in elements or None, DLPack's device type, device id, whether it is
 * read-only). Functions that give false have set an exception. */
#ifndef PTXBUILDER_PYTHON_OPERAND_H
#define PTXBUILDER_PYTHON_OPERAND_H

#define Py_LIMITED_API 0x030a0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "kernels/python/src/exchange.h"
#include "kernels/python/src/host.h"

typedef struct operand {
  ptxb_tensor tensor;      /* lent until Python runs again */
  const exchange_api* api; /* NULL for a tuple */
  bool is_read_only;
  int64_t shape[MOST_RANK], strides[MOST_RANK]; /* of a tuple, and of a view with dimensions swapped */
} operand;

/* NULL, with a ValueError, or what else host_status() makes of the error: MemoryError or RuntimeError. */
PyObject* fail(const char* error);

bool read_tensor(PyObject* from, operand* to, const char* name);
/* As read_tensor(), and `*place` is the tensor; NULL for None. */
bool read_optional(PyObject* from, operand* to, const char* name, const ptxb_tensor** place);
/* Sets what tells PyTorch of tensors that were written: its function of a tuple of them. */
void tell_of_writes(PyObject* function);
/* Tells it, unless the tensor is empty. Nothing of an operand that came as a tuple. */
bool note_written(PyObject* tensor, const operand* o);
bool swap_dimensions(operand* o, const char* name, int first, int second);

typedef struct target {
  int device;
  void* stream;
  bool is_staged; /* operands lie on the host, and are copied to the device and back */
} target;

/* `device` is what the caller asks for and `stream` likewise, or None: then the operand's GPU, and the
 * current stream of its framework. */
bool choose_target(PyObject* device, PyObject* stream, const operand* first, const char* name, target* to);
bool check_staged(const operand* o, const char* name);

/* Makes a tensor in the framework's own memory, on its current stream. NULL with an exception. */
managed_tensor* allocate(const operand* like, ptxb_dtype dtype, int32_t ndim, int64_t* shape);

/* Between them Python's lock is let go, and work on memory of the host leaves off where a signal's
 * handler raises, as Ctrl-C's. What that raised stays; else the error is raised, where it is not NULL. */
typedef struct unlocked {
  PyThreadState* state;
  int64_t asked_last; /* ns */
} unlocked;
void unlock(unlocked* u);
bool lock_again(unlocked* u, const char* error);

/* Runs it without Python's lock; a workspace is the framework's of `like`. */
bool run_operation(const operation* o, const operand* like, const target* to);

/* Compiles it, and gives the bytes of its workspace. */
PyObject* workspace_bytes(PyObject* device, const operation* o);

#endif

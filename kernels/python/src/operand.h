/* Python tensors in the form that the library accepts, and the device and stream of the framework's work. A
 * tensor is an object whose type has DLPack's exchange interface, like PyTorch's, or else a tuple (address,
 * code, bits, shape, strides in elements or None, DLPack's device type, device id, whether it is read-only).
 * Functions that return false have set an exception. */
#ifndef PTXBUILDER_PYTHON_OPERAND_H
#define PTXBUILDER_PYTHON_OPERAND_H

#define Py_LIMITED_API 0x030a0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "kernels/python/src/exchange.h"
#include "kernels/python/src/host.h"

typedef struct operand {
  ptxb_tensor tensor;      /* borrowed until Python runs again */
  const exchange_api* api; /* NULL for a tuple */
  bool is_read_only;
  int64_t shape[MOST_RANK], strides[MOST_RANK]; /* used for a tuple, and for a view with swapped dimensions */
} operand;

/* Sets the exception for host_status() (ValueError, MemoryError or RuntimeError), and returns NULL. */
PyObject* fail(const char* error);

bool read_tensor(PyObject* from, operand* to, const char* name);
/* Does the same as read_tensor(), and sets `*place` to the tensor, or to NULL for None. */
bool read_optional(PyObject* from, operand* to, const char* name, const ptxb_tensor** place);
/* Sets the PyTorch function that is called with a tuple of the written tensors. */
void tell_of_writes(PyObject* function);
/* Calls that function, unless the tensor is empty or was passed as a tuple. */
bool note_written(PyObject* tensor, const operand* o);
bool swap_dimensions(operand* o, const char* name, int first, int second);

typedef struct target {
  int device;
  void* stream;
  bool is_staged; /* operands are on the host, and are copied to the device and back */
} target;

/* Chooses the target. `device` and `stream` are those that the caller requests, or None, which means the
 * operand's GPU and the current stream of its framework. */
bool choose_target(PyObject* device, PyObject* stream, const operand* first, const char* name, target* to);
bool check_staged(const operand* o, const char* name);

/* Creates a tensor in the framework's own memory, on its current stream. Returns NULL with an exception. */
managed_tensor* allocate(const operand* like, ptxb_dtype dtype, int32_t ndim, int64_t* shape);

/* Between these two calls Python's lock is released, and work on host memory stops if a signal handler raises
 * an exception, as for Ctrl-C. That exception is kept; otherwise an exception for the error is raised, unless
 * the error is NULL. */
typedef struct unlocked {
  PyThreadState* state;
  int64_t asked_last; /* in ns */
} unlocked;
void unlock(unlocked* u);
bool lock_again(unlocked* u, const char* error);

/* Runs the work without Python's lock; the framework of `like` allocates the workspace. */
bool run_operation(const operation* o, const operand* like, const target* to);

/* Compiles the work, and returns the bytes of its workspace. */
PyObject* workspace_bytes(PyObject* device, const operation* o);

#endif

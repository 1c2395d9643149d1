/* Converts Python tensors to the form that the library accepts, and chooses the device and the stream. A
 * tensor is an object whose type has DLPack's exchange interface, such as a PyTorch tensor, or a tuple:
 * (address, code, bits, shape, strides in elements or None, DLPack's device type, device id, whether it is
 * read-only). Functions that return false have set an exception. */
#ifndef PTXBUILDER_PYTHON_OPERAND_H
#define PTXBUILDER_PYTHON_OPERAND_H

#define Py_LIMITED_API 0x030a0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "kernels/python/src/exchange.h"
#include "kernels/python/src/host.h"

typedef struct operand {
  ptxb_tensor tensor;      /* borrowed, and valid until Python code runs again */
  const exchange_api* api; /* NULL for a tuple */
  bool is_read_only;
  int64_t shape[MOST_RANK], strides[MOST_RANK]; /* used for a tuple, or if dimensions are swapped */
} operand;

/* Sets a ValueError, MemoryError or RuntimeError, depending on host_status(), and returns NULL. */
PyObject* fail(const char* error);

bool read_tensor(PyObject* from, operand* to, const char* name);
/* Works like read_tensor(), and sets `*place` to the tensor. For None, sets `*place` to NULL. */
bool read_optional(PyObject* from, operand* to, const char* name, const ptxb_tensor** place);
/* Sets the function of PyTorch that note_written() calls with a tuple of the written tensors. */
void tell_of_writes(PyObject* function);
/* Calls the function that tell_of_writes() has set, unless the tensor is empty or was passed as a tuple. */
bool note_written(PyObject* tensor, const operand* o);
bool swap_dimensions(operand* o, const char* name, int first, int second);

typedef struct target {
  int device;
  void* stream;
  bool is_staged; /* operands are on the host, and are copied to the device and back */
} target;

/* Chooses the target. `device` and `stream` are the caller's arguments. None means the GPU of the operand and
 * the current stream of the operand's framework. */
bool choose_target(PyObject* device, PyObject* stream, const operand* first, const char* name, target* to);
bool check_staged(const operand* o, const char* name);

/* Creates a tensor in the memory of the framework of `like`, on the framework's current stream. Returns NULL
 * with an exception if that fails. */
managed_tensor* allocate(const operand* like, ptxb_dtype dtype, int32_t ndim, int64_t* shape);

/* The two functions below release Python's lock and acquire it again. Between them, work on host memory stops
 * if a signal handler raises an exception, as for Ctrl-C. This exception is then raised; otherwise, if the
 * error is not NULL, an exception for it is raised. */
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

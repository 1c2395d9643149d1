#include "kernels/python/src/operand.h"

#include <string.h>
#include <time.h>

PyObject* fail(const char* error) {
  const int status = host_status(error);
  PyErr_SetString(status == PTXB_INVALID_ARGUMENT ? PyExc_ValueError
                  : status == PTXB_OUT_OF_MEMORY  ? PyExc_MemoryError
                                                  : PyExc_RuntimeError,
                  error);
  return NULL;
}

/* The types that have been looked up. They are kept for the lifetime of the process. */
enum { MOST_TYPES = 16 };
static struct {
  PyTypeObject* type;
  const exchange_api* api;
} known_types[MOST_TYPES];

static const exchange_api* ask_type(PyTypeObject* type) {
  PyObject* capsule = PyObject_GetAttrString((PyObject*)type, "__dlpack_c_exchange_api__");
  if (!capsule) {
    PyErr_Clear();
    return NULL;
  }
  const exchange_api* api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  Py_DECREF(capsule); /* the API in it exists for the lifetime of the process */
  if (!api) PyErr_Clear();
  while (api && api->version.major != 1) api = api->older;
  if (!api || !api->tensor_of) return NULL;
  for (int i = 0; i < MOST_TYPES; ++i)
    if (!known_types[i].type) {
      Py_INCREF(type);
      known_types[i].type = type, known_types[i].api = api;
      break;
    }
  return api;
}

static const exchange_api* api_of(PyTypeObject* type) {
  for (int i = 0; i < MOST_TYPES && known_types[i].type; ++i)
    if (known_types[i].type == type) return known_types[i].api;
  return ask_type(type);
}

static bool read_dims(PyObject* from, int64_t* to, int32_t* count, const char* name) {
  const Py_ssize_t size = PyTuple_Size(from);
  if (size < 0) return false;
  if (size > MOST_RANK) {
    PyErr_Format(PyExc_ValueError, "%s: %zd dimensions, more than %d", name, size, MOST_RANK);
    return false;
  }
  for (Py_ssize_t i = 0; i < size; ++i) {
    to[i] = PyLong_AsLongLong(PyTuple_GetItem(from, i));
    if (to[i] == -1 && PyErr_Occurred()) return false;
  }
  *count = (int32_t)size;
  return true;
}

static bool read_tuple(PyObject* from, operand* to, const char* name) {
  unsigned long long address;
  int code, bits, device_type, device_id, is_read_only;
  PyObject *shape, *strides;
  if (!PyArg_ParseTuple(from, "KiiOOiip", &address, &code, &bits, &shape, &strides, &device_type, &device_id,
                        &is_read_only))
    return false;
  memset(&to->tensor, 0, sizeof to->tensor);
  to->api = NULL;
  to->is_read_only = is_read_only;
  to->tensor.data = (void*)(uintptr_t)address;
  to->tensor.device.type = device_type, to->tensor.device.id = device_id;
  to->tensor.dtype.code = (uint8_t)code, to->tensor.dtype.bits = (uint8_t)bits, to->tensor.dtype.lanes = 1;
  to->tensor.shape = to->shape;
  int32_t count = 0;
  if (!read_dims(shape, to->shape, &to->tensor.ndim, name)) return false;
  if (strides == Py_None) return true;
  to->tensor.strides = to->strides;
  if (!read_dims(strides, to->strides, &count, name)) return false;
  if (count != to->tensor.ndim)
    PyErr_Format(PyExc_ValueError, "%s: %d strides for %d dimensions", name, count, to->tensor.ndim);
  return count == to->tensor.ndim;
}

static bool is_on_gpu(const ptxb_tensor* t) {
  return t->device.type == ON_CUDA || t->device.type == ON_MANAGED;
}

/* Returns whether PyTorch negates the tensor's elements when it reads them, as for x.conj().imag. The
 * exchange interface does not report this. Such views have gaps, so only tensors with gaps are checked. */
static bool is_negative_view(PyObject* from, const ptxb_tensor* t) {
  if (t->ndim == 0 || !t->strides || t->strides[t->ndim - 1] == 1) return false;
  PyObject* is = PyObject_CallMethod(from, "is_neg", NULL);
  if (!is) PyErr_Clear();
  const bool negative = is == Py_True;
  Py_XDECREF(is);
  return negative;
}

bool read_tensor(PyObject* from, operand* to, const char* name) {
  if (PyTuple_Check(from)) return read_tuple(from, to, name);
  to->api = api_of(Py_TYPE(from));
  to->is_read_only = false;
  if (!to->api) {
    PyErr_Format(PyExc_TypeError,
                 "%s: %R does not have DLPack's exchange interface, which PyTorch has since 2.10", name,
                 Py_TYPE(from));
    return false;
  }
  if (to->api->tensor_of(from, &to->tensor)) return false; /* the function has set an exception */
  if (is_negative_view(from, &to->tensor)) {
    PyErr_Format(PyExc_ValueError,
                 "%s: it is a view whose sign PyTorch keeps outside of its memory: pass x.resolve_neg()",
                 name);
    return false;
  }
  if (!to->tensor.data) {
    bool is_empty = false;
    for (int i = 0; i < to->tensor.ndim; ++i) is_empty |= to->tensor.shape[i] == 0;
    if (is_empty) return true;
    PyErr_Format(PyExc_ValueError, "%s: it has no memory, like a FakeTensor", name);
    return false;
  }
  return true;
}

static PyObject* written;

void tell_of_writes(PyObject* function) {
  Py_INCREF(function);
  written = function;
}

bool note_written(PyObject* tensor, const operand* o) {
  if (!o->api || !written) return true;
  for (int i = 0; i < o->tensor.ndim; ++i)
    if (o->tensor.shape[i] == 0) return true;
  PyObject* tensors = PyTuple_Pack(1, tensor);
  PyObject* none = tensors ? PyObject_CallFunctionObjArgs(written, tensors, NULL) : NULL;
  Py_XDECREF(tensors);
  Py_XDECREF(none);
  return none;
}

bool read_optional(PyObject* from, operand* to, const char* name, const ptxb_tensor** place) {
  *place = NULL;
  if (from == Py_None) return true;
  *place = &to->tensor;
  return read_tensor(from, to, name);
}

bool swap_dimensions(operand* o, const char* name, int first, int second) {
  if (o->tensor.ndim > MOST_RANK || first < 0 || second >= o->tensor.ndim) {
    PyErr_Format(PyExc_ValueError, "%s: it has %d dimensions", name, (int)o->tensor.ndim);
    return false;
  }
  swapped(&o->tensor, first, second, o->shape, o->strides);
  return true;
}

bool choose_target(PyObject* asked, PyObject* stream, const operand* first, const char* name, target* to) {
  to->is_staged = !is_on_gpu(&first->tensor);
  to->device = first->tensor.device.id;
  to->stream = NULL;
  if (asked == Py_None) {
    if (to->is_staged) {
      PyErr_Format(PyExc_ValueError,
                   "%s: its memory is on the CPU: move it to a GPU, or pass device=\"emulator\" to run "
                   "there, or device=\"cuda\" to copy it to a GPU and back",
                   name);
      return false;
    }
  } else {
    const long number = PyLong_AsLong(asked);
    if (number == -1 && PyErr_Occurred()) return false;
    if (!to->is_staged && number != to->device) {
      PyErr_Format(PyExc_ValueError, "%s: its memory is on GPU %d, but the call is for %s %ld", name,
                   to->device, number == EMULATOR ? "the emulator, device" : "GPU", number);
      return false;
    }
    to->device = (int)number;
  }
  if (to->is_staged) return true;
  if (stream != Py_None) {
    to->stream = (void*)(uintptr_t)PyLong_AsUnsignedLongLong(stream);
    return !PyErr_Occurred();
  }
  return !first->api ||
         first->api->current_stream(first->tensor.device.type, first->tensor.device.id, &to->stream) == 0;
}

bool check_staged(const operand* o, const char* name) {
  const int32_t type = o->tensor.device.type;
  if (type == ON_CPU || type == ON_PINNED) return true;
  PyErr_Format(PyExc_ValueError,
               "%s: its memory is on device %d of type %d, but that of the others is on the CPU", name,
               (int)o->tensor.device.id, (int)type);
  return false;
}

static void set_error(void* context, const char* kind, const char* message) {
  (void)context;
  PyErr_Format(PyExc_RuntimeError, "%s: %s", kind, message);
}

managed_tensor* allocate(const operand* like, ptxb_dtype dtype, int32_t ndim, int64_t* shape) {
  ptxb_tensor prototype = like->tensor;
  int64_t strides[MOST_RANK], compact = 1;
  for (int32_t i = ndim; i-- > 0;) strides[i] = compact, compact *= shape[i];
  prototype.data = NULL;
  prototype.ndim = ndim, prototype.dtype = dtype;
  prototype.shape = shape, prototype.strides = strides, prototype.byte_offset = 0;
  managed_tensor* out = NULL;
  if (like->api->allocate(&prototype, &out, NULL, set_error)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_MemoryError, "no memory for a result or a workspace");
    return NULL;
  }
  return out;
}

/* Runs the operation with a workspace that is allocated on the device, and waits. Used for tensors that no
 * framework manages. */
static const char* run_with_own_workspace(const operation* o, size_t bytes, const target* to) {
  ptxb_device* on = NULL;
  void* workspace = NULL;
  const char* error = host_device(to->device, &on);
  if (!error) error = said(ptxb_allocate(on, bytes, &workspace));
  if (!error) error = host_run(to->device, o, workspace, bytes, to->stream);
  if (!error) error = said(ptxb_wait(on, to->stream, LONGEST_WAIT));
  if (workspace) (void)ptxb_free(on, workspace);
  return error;
}

/* This is true if the next call should query the size of its workspace first. Most operations need no
 * workspace, and the query is a large part of a call's cost. Therefore, a call is first tried without a
 * workspace, unless the thread's last call needed one. */
static _Thread_local bool is_asked_first;

static const char* run_or_ask(const operation* o, const target* to, size_t* bytes) {
  *bytes = 0;
  const bool is_tried = !is_asked_first;
  const char* error = is_tried ? host_run(to->device, o, NULL, 0, to->stream) : NULL;
  if (is_tried && !error) return NULL;
  const char* refusal = host_workspace(to->device, o, bytes);
  is_asked_first = *bytes > 0;
  return refusal || *bytes > 0 ? refusal : host_run(to->device, o, NULL, 0, to->stream);
}

/* Runs Python's signal handlers. This happens only ten times a second, since it must wait for Python's lock
 * if another thread holds it. */
static int has_signals(void* context) {
  unlocked* u = context;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  if (ns - u->asked_last < 100000000) return 0;
  u->asked_last = ns;
  PyEval_RestoreThread(u->state);
  const int has = PyErr_CheckSignals();
  u->state = PyEval_SaveThread();
  return has;
}

void unlock(unlocked* u) {
  u->asked_last = 0;
  u->state = PyEval_SaveThread();
  host_interrupt_by(has_signals, u);
}

bool lock_again(unlocked* u, const char* error) {
  host_interrupt_by(NULL, NULL);
  PyEval_RestoreThread(u->state);
  if (error && !PyErr_Occurred()) fail(error);
  return !error;
}

static bool run_staged(const operation* o, const target* to) {
  unlocked u;
  unlock(&u);
  return lock_again(&u, host_run_staged(to->device, o));
}

bool run_operation(const operation* o, const operand* like, const target* to) {
  if (to->is_staged) return run_staged(o, to);
  size_t bytes = 0;
  PyThreadState* state = PyEval_SaveThread();
  const char* error = run_or_ask(o, to, &bytes);
  if (!error && bytes > 0 && !like->api) error = run_with_own_workspace(o, bytes, to);
  PyEval_RestoreThread(state);
  if (!error && bytes > 0 && like->api) {
    const ptxb_dtype byte = {PTXB_UINT, 8, 1};
    int64_t shape = (int64_t)bytes;
    managed_tensor* workspace = allocate(like, byte, 1, &shape);
    if (!workspace) return false;
    char* memory = (char*)workspace->tensor.data + workspace->tensor.byte_offset;
    state = PyEval_SaveThread();
    error = host_run(to->device, o, memory, bytes, to->stream);
    PyEval_RestoreThread(state);
    workspace->deleter(workspace); /* only work that is queued later on this stream can reuse the memory */
  }
  if (error) fail(error);
  return !error;
}

PyObject* workspace_bytes(PyObject* device, const operation* o) {
  const long number = PyLong_AsLong(device);
  if (number == -1 && PyErr_Occurred()) return NULL;
  size_t bytes = 0;
  PyThreadState* state = PyEval_SaveThread();
  const char* error = host_workspace((int)number, o, &bytes);
  PyEval_RestoreThread(state);
  return error ? fail(error) : PyLong_FromSize_t(bytes);
}

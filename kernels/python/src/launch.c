/* ptxbuilder._ext: kernels that have a sidecar. */
#include <string.h>

#include "kernels/python/src/methods.h"

static const char program_capsule[] = "ptxbuilder.program";

PyDoc_STRVAR(program_words,
             "program(path, kernel, device, waived)\n\nLoads a kernel on a device, and returns (program, its "
             "sidecar's JSON).");
static PyObject* ext_program(PyObject* self, PyObject* args) {
  (void)self;
  const char *path, *name, *waived;
  int device;
  if (!PyArg_ParseTuple(args, "szis", &path, &name, &device, &waived)) return NULL;
  host_program* program;
  ptxb_kernel* kernel;
  PyThreadState* state = PyEval_SaveThread();
  const char* error = host_program_of(path, name, waived, &program);
  if (!error) error = host_kernel(program, device, &kernel);
  PyEval_RestoreThread(state);
  if (error) return fail(error);
  PyObject* capsule = PyCapsule_New(program, program_capsule, NULL);
  return capsule ? Py_BuildValue("(Ns)", capsule, ptxb_kernel_sidecar(kernel)) : NULL;
}

typedef struct launch {
  operand operands[MOST_OPERANDS];
  PyObject* tensors[MOST_OPERANDS]; /* the tensors that the caller passed */
  bool written[MOST_OPERANDS];
  ptxb_argument arguments[2 * MOST_OPERANDS];
  size_t operand_count, argument_count;
} launch;

/* Reads the arguments. `from` is a tuple of arguments. An argument is an integer; bytes, which are the bits
 * of a scalar; a tuple ("tensor", the tensor, whether it is written); or a tuple ("struct", a tuple of
 * arguments). */
static bool read_arguments(launch* l, PyObject* from, ptxb_argument** first, size_t* count) {
  const Py_ssize_t size = PyTuple_Size(from);
  if (size < 0) return false;
  ptxb_argument* const to = *first = l->arguments + l->argument_count;
  *count = (size_t)size;
  if (*count > 2 * MOST_OPERANDS - l->argument_count) return fail("the kernel has too many arguments");
  l->argument_count += *count;
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* value = PyTuple_GetItem(from, i);
    if (PyLong_Check(value)) {
      const long long integer = PyLong_AsLongLong(value);
      if (integer == -1 && PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "a scalar that does not fit in 64 bits: %R", value);
        return false;
      }
      to[i] = ptxb_of_integer(integer);
    } else if (PyBytes_Check(value)) {
      uint64_t bits = 0;
      const Py_ssize_t bytes = PyBytes_Size(value);
      memcpy(&bits, PyBytes_AsString(value), (size_t)(bytes < 8 ? bytes : 8));
      to[i] = ptxb_of_bits(bits);
    } else {
      const char* kind;
      PyObject *inside, *is_written = Py_False;
      if (!PyArg_ParseTuple(value, "sO|O", &kind, &inside, &is_written)) return false;
      if (!strcmp(kind, "struct")) {
        ptxb_argument* fields;
        size_t field_count;
        if (!read_arguments(l, inside, &fields, &field_count)) return false;
        to[i] = ptxb_of_struct(fields, field_count);
        continue;
      }
      if (l->operand_count == MOST_OPERANDS) return fail("the kernel has too many tensors");
      operand* o = &l->operands[l->operand_count];
      l->tensors[l->operand_count] = inside;
      l->written[l->operand_count++] = is_written == Py_True;
      if (!read_tensor(inside, o, kind)) return false;
      if (is_written == Py_True && o->is_read_only) {
        PyErr_Format(PyExc_ValueError, "%s: it is read-only, but the kernel may write it", kind);
        return false;
      }
      to[i] = ptxb_of_tensor(&o->tensor);
    }
  }
  return true;
}

/* Runs the launch without Python's lock. If `grid` is NULL, the sidecar's rule determines it. */
static bool run_launch(launch* l, host_program* program, const uint32_t* grid, PyObject* values,
                       PyObject* device, PyObject* stream) {
  const operand none = {.tensor = {.device = {ON_CPU, 0}}};
  ptxb_argument* all;
  size_t count;
  target to;
  if (!read_arguments(l, values, &all, &count)) return false;
  const operand* first = l->operand_count > 0 ? &l->operands[0] : &none;
  if (!choose_target(device, stream, first, "the first tensor", &to)) return false;
  for (size_t i = 0; to.is_staged && i < l->operand_count; ++i)
    if (!check_staged(&l->operands[i], "a tensor")) return false;
  unlocked u;
  unlock(&u);
  const char* error = to.is_staged ? host_launch_staged(program, to.device, grid, all, count, l->written)
                                   : host_launch(program, to.device, grid, all, count, to.stream);
  bool is_done = lock_again(&u, error);
  for (size_t i = 0; is_done && i < l->operand_count; ++i)
    is_done = !l->written[i] || note_written(l->tensors[i], &l->operands[i]);
  return is_done;
}

static bool read_grid(PyObject* from, uint32_t* to) {
  for (Py_ssize_t i = 0; i < 3; ++i) {
    PyObject* number = PyTuple_GetItem(from, i);
    if (!number) return false;
    const long long count = PyLong_AsLongLong(number);
    if (count < 0 || count > UINT32_MAX) {
      PyErr_Format(PyExc_ValueError, "grid: %R; it must have a number of CTAs for each of x, y and z",
                   number);
      return false;
    }
    to[i] = (uint32_t)count;
  }
  return true;
}

PyDoc_STRVAR(launch_words,
             "launch(program, grid, arguments, device, stream)\n\n"
             "Queues one launch. `grid` is three integers, or None for the sidecar's rule.");
static PyObject* ext_launch(PyObject* self, PyObject* args) {
  (void)self;
  PyObject *capsule, *grid, *values, *device, *stream;
  if (!PyArg_ParseTuple(args, "OOOOO", &capsule, &grid, &values, &device, &stream)) return NULL;
  host_program* program = PyCapsule_GetPointer(capsule, program_capsule);
  if (!program) return NULL;
  uint32_t ctas[3];
  if (grid != Py_None && !read_grid(grid, ctas)) return NULL;
  launch* l = PyMem_Malloc(sizeof *l);
  if (!l) return PyErr_NoMemory();
  l->operand_count = l->argument_count = 0;
  const bool is_queued = run_launch(l, program, grid == Py_None ? NULL : ctas, values, device, stream);
  PyMem_Free(l);
  if (!is_queued) return NULL;
  Py_RETURN_NONE;
}

PyMethodDef launch_methods[] = {{"program", ext_program, METH_VARARGS, program_words},
                                {"launch", ext_launch, METH_VARARGS, launch_words},
                                {NULL, NULL, 0, NULL}};

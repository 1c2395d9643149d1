/* ptxbuilder._ext: operations on the rows of a matrix. */
#include <string.h>

#include "kernels/python/src/methods.h"

enum { MOST_NUMBERS = 8 };
typedef struct rows {
  operand all[MOST_ROW_TENSORS];
  float numbers[MOST_NUMBERS];
  operation call;
} rows;

/* Reads a call. `tensors` is a tuple with None for an omitted tensor, and True for a tensor that is to be
 * allocated. `numbers` is a tuple of floats. */
static bool read_rows(rows* r, PyObject* name, PyObject* tensors, PyObject* written, PyObject* numbers) {
  const ptxb_rows init = PTXB_ROWS_INIT;
  ptxb_rows* p = &r->call.rows;
  r->call.kind = ROWS, *p = init;
  r->call.rows_written = PyLong_AsUnsignedLong(written);
  p->operation = PyUnicode_AsUTF8AndSize(name, NULL);
  const Py_ssize_t count = PyTuple_Size(tensors), number_count = PyTuple_Size(numbers);
  if (PyErr_Occurred()) return false;
  if (count < 1 || count > MOST_ROW_TENSORS || number_count > MOST_NUMBERS)
    return fail("the operation has a different number of tensors or numbers");
  p->tensor_count = (size_t)count, p->number_count = (size_t)number_count, p->numbers = r->numbers;
  for (Py_ssize_t i = 0; i < number_count; ++i)
    r->numbers[i] = (float)PyFloat_AsDouble(PyTuple_GetItem(numbers, i));
  for (Py_ssize_t i = 0; i < count; ++i) {
    char words[16];
    PyOS_snprintf(words, sizeof words, "tensor %d", (int)i);
    r->all[i].is_read_only = false;
    if (PyTuple_GetItem(tensors, i) == Py_True) {
      r->call.row_tensors[i] = &r->all[i].tensor;
      continue;
    }
    if (!read_optional(PyTuple_GetItem(tensors, i), &r->all[i], words, &r->call.row_tensors[i])) return false;
    if (r->call.row_tensors[i] && (r->call.rows_written >> i & 1) && r->all[i].is_read_only) {
      PyErr_Format(PyExc_ValueError, "%s: it is read-only", words);
      return false;
    }
  }
  return !PyErr_Occurred();
}

/* Returns the index of the tensor that is to be allocated, or -1. */
static int number_made(PyObject* tensors) {
  for (int i = 0; i < (int)PyTuple_Size(tensors); ++i)
    if (PyTuple_GetItem(tensors, i) == Py_True) return i;
  return -1;
}

/* Returns a new tensor with the shape and type of the first tensor. */
static managed_tensor* allocate_result(rows* r, int number) {
  operand* first = &r->all[0];
  int64_t shape[MOST_RANK];
  if (number == 0 || !first->api || first->tensor.ndim > MOST_RANK) {
    fail("a new result has the shape and the type of the first tensor, which must be a framework's");
    return NULL;
  }
  memcpy(shape, first->tensor.shape, (size_t)first->tensor.ndim * sizeof *shape);
  managed_tensor* made = allocate(first, first->tensor.dtype, first->tensor.ndim, shape);
  if (made) r->all[number].tensor = made->tensor, r->all[number].api = first->api;
  return made;
}

static bool run_rows(const rows* r, const target* to) {
  for (size_t i = 0; to->is_staged && i < r->call.rows.tensor_count; ++i)
    if (r->call.row_tensors[i] && !check_staged(&r->all[i], "a tensor")) return false;
  return run_operation(&r->call, &r->all[0], to);
}

PyDoc_STRVAR(rows_words,
             "rows(operation, tensors, written, numbers, device, stream)\n\n"
             "Queues one operation of ROWS on a tuple of its tensors, where None means an omitted one; "
             "`written` has a bit for each that is written. If one of them is True, a new tensor like the "
             "first replaces it, and is returned.");
static PyObject* ext_rows(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (count != 6)
    return PyErr_Format(PyExc_ValueError, "rows() takes 6 arguments, but %zd were given", count);
  rows r;
  target to;
  if (!read_rows(&r, args[0], args[1], args[2], args[3])) return NULL;
  if (!r.call.row_tensors[0]) return fail("the first tensor must be given");
  if (!choose_target(args[4], args[5], &r.all[0], "the first tensor", &to)) return NULL;
  const int number = number_made(args[1]);
  managed_tensor* made = NULL;
  if (number >= 0 && !(made = allocate_result(&r, number))) return NULL;
  if (!run_rows(&r, &to)) {
    if (made) made->deleter(made);
    return NULL;
  }
  if (!made) Py_RETURN_NONE;
  void* object = NULL;
  return r.all[0].api->object_of(made, &object) ? NULL : object;
}

PyDoc_STRVAR(workspace_words,
             "rows_workspace(device, operation, tensors, written, numbers)\n\n"
             "Checks an operation, compiles its kernel, and returns the bytes of its workspace. Memory is "
             "not touched.");
static PyObject* ext_rows_workspace(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (count != 5)
    return PyErr_Format(PyExc_ValueError, "rows_workspace() takes 5 arguments, but %zd were given", count);
  rows r;
  return read_rows(&r, args[1], args[2], args[3], args[4]) ? workspace_bytes(args[0], &r.call) : NULL;
}

PyMethodDef rows_methods[] = {
    {"rows", (PyCFunction)(void (*)(void))ext_rows, METH_FASTCALL, rows_words},
    {"rows_workspace", (PyCFunction)(void (*)(void))ext_rows_workspace, METH_FASTCALL, workspace_words},
    {NULL, NULL, 0, NULL}};

/* ptxbuilder._ext: weights that are packed before products, in host memory. */
#include <string.h>

#include "kernels/python/src/methods.h"

/* Reads a host tensor without gaps, and sets the address of its first byte, or NULL for None. */
static bool read_plain(PyObject* from, operand* to, const char* name, void** first) {
  *first = NULL;
  if (from == Py_None) return true;
  if (!read_tensor(from, to, name) || !check_staged(to, name)) return false;
  const ptxb_tensor* t = &to->tensor;
  int64_t compact = 1;
  for (int i = t->ndim; i-- > 0;) {
    if (t->strides && t->shape[i] > 1 && t->strides[i] != compact) {
      PyErr_Format(PyExc_ValueError, "%s: its elements have gaps: make it contiguous", name);
      return false;
    }
    compact *= t->shape[i];
  }
  *first = (char*)t->data + t->byte_offset;
  return true;
}

PyDoc_STRVAR(form_words,
             "packed_form(type, group, scales)\n\n"
             "Returns the number of a form, from the number of a word; `scales` is 256 times DLPack's code "
             "plus the bits.");
static PyObject* ext_form(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (count != 3) return fail("packed_form() takes 3 arguments");
  const long type = PyLong_AsLong(args[0]), group = PyLong_AsLong(args[1]), code = PyLong_AsLong(args[2]);
  if (PyErr_Occurred()) return NULL;
  const ptxb_dtype scales = {(uint8_t)(code >> 8), (uint8_t)code, 1};
  int64_t form;
  if (ptxb_packed_form((int32_t)type, (int32_t)group, scales, &form)) return fail(ptxb_error());
  return PyLong_FromLongLong(form);
}

PyDoc_STRVAR(bytes_words,
             "packed_bytes(form, n, k)\n\nReturns the bytes that weights of n columns and k rows occupy.");
static PyObject* ext_bytes(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (count != 3) return fail("packed_bytes() takes 3 arguments");
  const int64_t form = PyLong_AsLongLong(args[0]), n = PyLong_AsLongLong(args[1]),
                k = PyLong_AsLongLong(args[2]);
  size_t bytes;
  if (PyErr_Occurred()) return NULL;
  if (ptxb_packed_bytes(form, n, k, &bytes)) return fail(ptxb_error());
  return PyLong_FromSize_t(bytes);
}

/* Packs or unpacks weights. The caller must have checked that the tensors have the sizes that the form, n and
 * k require. */
static PyObject* convert(PyObject* const* args, Py_ssize_t count, bool packs) {
  static const char* const names[] = {"weights", "scales", "zeros", "packed"};
  if (count != 7) return fail("pack() and unpack() take 7 arguments");
  const int64_t form = PyLong_AsLongLong(args[0]), n = PyLong_AsLongLong(args[1]),
                k = PyLong_AsLongLong(args[2]);
  operand tensors[4];
  void* first[4];
  if (PyErr_Occurred()) return NULL;
  for (int i = 0; i < 4; ++i)
    if (!read_plain(args[3 + i], &tensors[i], names[i], &first[i])) return NULL;
  unlocked u;
  unlock(&u);
  const int status = packs ? ptxb_pack(form, n, k, first[0], first[1], first[2], first[3])
                           : ptxb_unpack(form, n, k, first[3], first[0], first[1], first[2]);
  if (!lock_again(&u, status ? ptxb_error() : NULL)) return NULL;
  Py_RETURN_NONE;
}

PyDoc_STRVAR(pack_words,
             "pack(form, n, k, weights, scales, zeros, packed)\n\n"
             "Packs weights; scales and zeros may be None if the form has none.");
static PyObject* ext_pack(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  return convert(args, count, true);
}
PyDoc_STRVAR(unpack_words, "unpack(form, n, k, weights, scales, zeros, packed)\n\nReverses pack().");
static PyObject* ext_unpack(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  return convert(args, count, false);
}

PyMethodDef packed_methods[] = {
    {"packed_form", (PyCFunction)(void (*)(void))ext_form, METH_FASTCALL, form_words},
    {"packed_bytes", (PyCFunction)(void (*)(void))ext_bytes, METH_FASTCALL, bytes_words},
    {"pack", (PyCFunction)(void (*)(void))ext_pack, METH_FASTCALL, pack_words},
    {"unpack", (PyCFunction)(void (*)(void))ext_unpack, METH_FASTCALL, unpack_words},
    {NULL, NULL, 0, NULL}};

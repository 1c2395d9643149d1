/* ptxbuilder._ext: contractions by name. */
#include "kernels/python/src/methods.h"

typedef struct contraction {
  operand a, b, d;
  operation call;
} contraction;

static bool read_contraction(contraction* c, PyObject* const* args) {
  const ptxb_contraction init = PTXB_CONTRACTION_INIT;
  ptxb_contraction* p = &c->call.contraction;
  c->call.kind = CONTRACTION, *p = init;
  p->subscripts = PyUnicode_AsUTF8AndSize(args[0], NULL);
  p->alpha = (float)PyFloat_AsDouble(args[4]);
  const long flags = PyLong_AsLong(args[5]);
  if (PyErr_Occurred()) return false;
  p->tf32 = !!(flags & TF32), p->precise = !!(flags & PRECISE);
  p->a = &c->a.tensor, p->b = &c->b.tensor, p->d = &c->d.tensor;
  if (!read_tensor(args[1], &c->a, "A") || !read_tensor(args[2], &c->b, "B") ||
      !read_tensor(args[3], &c->d, "D"))
    return false;
  if (c->d.is_read_only) fail("D: it is read-only");
  return !c->d.is_read_only;
}

PyDoc_STRVAR(contraction_words,
             "contraction(subscripts, a, b, d, alpha, flags, device, stream)\n\n"
             "Queues one contraction. The subscripts have one letter for each dimension.");
static PyObject* ext_contraction(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (count != 8)
    return PyErr_Format(PyExc_ValueError, "contraction() takes 8 arguments, but %zd were given", count);
  contraction c;
  target to;
  if (!read_contraction(&c, args) || !choose_target(args[6], args[7], &c.a, "A", &to)) return NULL;
  if (to.is_staged && (!check_staged(&c.b, "B") || !check_staged(&c.d, "D"))) return NULL;
  if (!run_operation(&c.call, &c.a, &to) || !note_written(args[3], &c.d)) return NULL;
  Py_RETURN_NONE;
}

PyDoc_STRVAR(explain_words,
             "contraction_explained(device, subscripts, a, b, d, alpha, flags)\n\n"
             "Returns one line that states the role of each mode, and which operands are copied and why. "
             "Memory is not touched.");
static PyObject* ext_explained(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (count != 7)
    return PyErr_Format(PyExc_ValueError, "contraction_explained() takes 7 arguments, but %zd were given",
                        count);
  contraction c;
  const long device = PyLong_AsLong(args[0]);
  if ((device == -1 && PyErr_Occurred()) || !read_contraction(&c, args + 1)) return NULL;
  const char* text = NULL;
  unlocked u;
  unlock(&u);
  const char* error = host_explain((int)device, &c.call, &text);
  lock_again(&u, error);
  return PyErr_Occurred() ? NULL : PyUnicode_FromString(text);
}

PyMethodDef contraction_methods[] = {
    {"contraction", (PyCFunction)(void (*)(void))ext_contraction, METH_FASTCALL, contraction_words},
    {"contraction_explained", (PyCFunction)(void (*)(void))ext_explained, METH_FASTCALL, explain_words},
    {NULL, NULL, 0, NULL}};

/* ptxbuilder._ext: convolutions and their gradients. */
#include "kernels/python/src/methods.h"

typedef struct convolution {
  operand x, w, y, bias;
  operation call;
} convolution;

/* Reads a tuple of the steps, the zeros before, the zeros after and the spreads, each along lines and along
 * pixels, and then the groups. */
static bool read_windows(PyObject* numbers, ptxb_convolution* p) {
  return PyArg_ParseTuple(numbers, "LLLLLLLLL", &p->step[0], &p->step[1], &p->before[0], &p->before[1],
                          &p->behind[0], &p->behind[1], &p->spread[0], &p->spread[1], &p->groups);
}

static bool read_convolution(convolution* c, PyObject* const* args) {
  const ptxb_convolution init = PTXB_CONVOLUTION_INIT;
  ptxb_convolution* p = &c->call.convolution;
  c->call.kind = CONVOLUTION, *p = init;
  p->result = (int32_t)PyLong_AsLong(args[4]);
  p->activation = (int32_t)PyLong_AsLong(args[5]);
  const long flags = PyLong_AsLong(args[7]);
  if (PyErr_Occurred() || !read_windows(args[6], p)) return false;
  p->tf32 = !!(flags & TF32), p->precise = !!(flags & PRECISE);
  p->x = &c->x.tensor, p->w = &c->w.tensor, p->y = &c->y.tensor;
  return read_tensor(args[0], &c->x, "x") && read_tensor(args[1], &c->w, "w") &&
         read_tensor(args[2], &c->y, "y") && read_optional(args[3], &c->bias, "bias", &p->bias);
}

PyDoc_STRVAR(
    convolution_words,
    "convolution(x, w, y, bias, result, activation, windows, flags, device, stream)\n\n"
    "Queues one convolution of tensors whose channels are last, or with `result` 1 or 2 the gradient of x or "
    "w. `windows` are 9 numbers.");
static PyObject* ext_convolution(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (count != 10)
    return PyErr_Format(PyExc_ValueError, "convolution() takes 10 arguments, but %zd were given", count);
  convolution c;
  target to;
  if (!read_convolution(&c, args) || !choose_target(args[8], args[9], &c.x, "x", &to)) return NULL;
  if (to.is_staged && (!check_staged(&c.w, "w") || !check_staged(&c.y, "y") ||
                       (c.call.convolution.bias && !check_staged(&c.bias, "bias"))))
    return NULL;
  operand* const written[] = {&c.y, &c.x, &c.w};
  const Py_ssize_t places[] = {2, 0, 1};
  const int32_t result = c.call.convolution.result;
  if (result < PTXB_CONVOLUTION_Y || result > PTXB_CONVOLUTION_W) return fail("result: it must be 0 to 2");
  if (written[result]->is_read_only) return fail("the result is read-only");
  if (!run_operation(&c.call, &c.x, &to) || !note_written(args[places[result]], written[result])) return NULL;
  Py_RETURN_NONE;
}

PyDoc_STRVAR(
    workspace_words,
    "convolution_workspace(device, x, w, y, bias, result, activation, windows, flags)\n\n"
    "Checks a convolution, compiles its kernels, and gives the bytes of its workspace. Memory is not "
    "touched.");
static PyObject* ext_convolution_workspace(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (count != 9)
    return PyErr_Format(PyExc_ValueError, "convolution_workspace() takes 9 arguments, but %zd were given",
                        count);
  convolution c;
  return read_convolution(&c, args + 1) ? workspace_bytes(args[0], &c.call) : NULL;
}

PyMethodDef convolution_methods[] = {
    {"convolution", (PyCFunction)(void (*)(void))ext_convolution, METH_FASTCALL, convolution_words},
    {"convolution_workspace", (PyCFunction)(void (*)(void))ext_convolution_workspace, METH_FASTCALL,
     workspace_words},
    {NULL, NULL, 0, NULL}};

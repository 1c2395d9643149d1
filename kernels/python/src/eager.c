/* ptxbuilder._ext: products and convolutions in PyTorch's eager mode, in the usual cases. All other calls
 * return NotImplemented, and ptxbuilder/_torch/product.py and convolution.py handle them. */
#include "kernels/python/src/eager.h"

#include <string.h>

#include "kernels/python/src/methods.h"

/* The arguments of use_eager(), which are kept for the lifetime of the process. */
static struct {
  PyTypeObject *tensor, *parameter; /* the types of plain tensors; subclasses are excluded */
  /* The fields below are Python functions without arguments. */
  PyObject *mode_count, *is_tracing, *has_grad, *has_autocast, *is_deterministic;
  void* const* (*tracing_state)(void); /* returns the same as is_tracing, in 3 ns instead of 100; or NULL */
  PyObject* forward_ad;          /* a module; its _current_level is below 0 if there are no dual tensors */
  PyObject* profiler;            /* a module; its _is_profiler_enabled is True if calls must be named */
  PyObject *activations, *codes; /* dicts that map the caller's words to numbers */
} eager;

PyDoc_STRVAR(use_words,
             "use_eager(tensor, parameter, mode_count, is_tracing, tracing_state, has_grad, has_autocast, "
             "is_deterministic, forward_ad, profiler, activations, codes, written)\n\n"
             "Sets what eager_product() and eager_convolution() use, and the function with which PyTorch is "
             "notified of each written tensor. tracing_state is the address of a C function that returns the "
             "address of a pointer, which is NULL unless calls are traced; or 0.");
static PyObject* ext_use_eager(PyObject* self, PyObject* args) {
  (void)self;
  PyObject* written;
  unsigned long long tracing_state;
  if (!PyArg_ParseTuple(args, "O!O!OOKOOOOOOOO", &PyType_Type, &eager.tensor, &PyType_Type, &eager.parameter,
                        &eager.mode_count, &eager.is_tracing, &tracing_state, &eager.has_grad,
                        &eager.has_autocast, &eager.is_deterministic, &eager.forward_ad, &eager.profiler,
                        &eager.activations, &eager.codes, &written))
    return NULL;
  *(void**)&eager.tracing_state = (void*)(uintptr_t)tracing_state;
  tell_of_writes(written);
  Py_INCREF(args); /* keeps all arguments alive */
  Py_RETURN_NONE;
}

static bool is_plain(PyObject* x) { return Py_TYPE(x) == eager.tensor || Py_TYPE(x) == eager.parameter; }

/* Returns whether a function without arguments returns True or a nonzero number; also returns true if the
 * function fails. */
static bool is_true(PyObject* function) {
  PyObject* value = PyObject_CallNoArgs(function);
  const bool is = !value || PyObject_IsTrue(value) != 0;
  Py_XDECREF(value);
  return is;
}

/* Returns an attribute, or NULL with an exception. The string object for the name is created only once, in
 * *made. */
static PyObject* attribute(PyObject* of, const char* name, PyObject** made) {
  if (!*made) *made = PyUnicode_InternFromString(name);
  return PyObject_GetAttr(of, *made);
}

static bool requires_grad(PyObject* x) {
  static PyObject* name;
  PyObject* value = attribute(x, "requires_grad", &name);
  const bool is = !value || PyObject_IsTrue(value) != 0;
  Py_XDECREF(value);
  return is;
}

static bool is_tracing(void) {
  return eager.tracing_state ? *eager.tracing_state() != NULL : is_true(eager.is_tracing);
}

static bool has_tangents(void) {
  static PyObject* name;
  PyObject* level = attribute(eager.forward_ad, "_current_level", &name);
  const bool has = !level || PyLong_AsLong(level) >= 0;
  Py_XDECREF(level);
  return has;
}

static bool is_profiled(void) {
  static PyObject* name;
  PyObject* is = attribute(eager.profiler, "_is_profiler_enabled", &name);
  Py_XDECREF(is); /* True and False are immortal */
  return is != Py_False;
}

/* Returns whether a mode of PyTorch, a trace, forward derivatives or the profiler must observe the call. */
static bool is_observed(void) {
  return is_true(eager.mode_count) || is_tracing() || has_tangents() || is_profiled();
}

/* Returns whether one of the arguments that are not None requires a gradient. */
static bool want_grad(PyObject* const* all, int count) {
  for (int i = 0; i < count; ++i)
    if (all[i] != Py_None && requires_grad(all[i])) return true;
  return false;
}

bool are_plain(PyObject* const* all, int count) {
  for (int i = 0; i < count; ++i)
    if (all[i] != Py_None && !is_plain(all[i])) return false;
  return eager.tensor;
}

bool is_noticed(PyObject* const* all, int count) {
  return is_observed() || (is_true(eager.has_grad) && want_grad(all, count));
}

/* Returns the flags for arguments that are True or False, with the bits in `bits`; -1 if an argument has
 * another type, such as NumPy's bool. */
static long flags_of(PyObject* const* args, const int* bits, int count) {
  long flags = 0;
  for (int i = 0; i < count; ++i) {
    if (args[i] == Py_True)
      flags |= bits[i];
    else if (args[i] != Py_False)
      return -1;
  }
  return flags;
}

/* Returns the number that a dict holds for a key, or -1 if the dict does not contain the key. */
static long number_of(PyObject* dict, PyObject* key) {
  PyObject* value = PyDict_GetItemWithError(dict, key);
  return value ? PyLong_AsLong(value) : -1;
}

/* Returns the default type of a product's result, as output_of() of ptxbuilder/_common.py does. */
static bool output_of(ptxb_dtype of, ptxb_dtype* to) {
  const ptxb_dtype bfloat = {PTXB_BFLOAT, 16, 1}, integer = {PTXB_INT, 32, 1};
  *to = of;
  if (of.lanes != 1) return false;
  switch (of.code) {
    case PTXB_FLOAT:
      return of.bits == 16 || of.bits == 32;
    case PTXB_BFLOAT:
      return of.bits == 16;
    case PTXB_E4M3:
    case PTXB_E5M2:
      *to = bfloat;
      return of.bits == 8;
    case PTXB_INT:
    case PTXB_UINT:
      *to = integer;
      return of.bits == 8;
  }
  return false;
}

bool result_type(PyObject* asked, ptxb_dtype of, ptxb_dtype* to) {
  if (asked == Py_None) return output_of(of, to);
  const long code = number_of(eager.codes, asked);
  to->code = (uint8_t)(code >> 8), to->bits = (uint8_t)code, to->lanes = 1;
  return code >= 0;
}

static long activation_of(PyObject* word) {
  return word == Py_None ? PTXB_NONE : number_of(eager.activations, word);
}

PyDoc_STRVAR(eager_words,
             "eager_product(a, b, out, alpha, beta, activation, out_dtype, transpose_a, transpose_b, "
             "precise, tf32, gate, device, is_below, *operands)\n\n"
             "Does the same as matmul(), for plain tensors on a GPU that require no gradient; `is_below` "
             "means that PyTorch has handled gradients. `operands` are those of OPERANDS without alpha's, "
             "which `alpha` may be. Returns NotImplemented for all other calls.");
static PyObject* ext_eager_product(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  enum {
    A,
    B,
    OUT,
    ALPHA,
    BETA,
    ACTIVATION,
    OUT_DTYPE,
    FLAGS, /* five flags: A is transposed, B is transposed, sums are precise, tf32 is allowed, and the
              activation is a gate */
    FLAG_COUNT = 5,
    DEVICE = FLAGS + FLAG_COUNT,
    IS_BELOW,
    FIRST_OPERAND,
    ALL = FIRST_OPERAND + OPERANDS - 1
  };
  if (count != ALL) return fail("eager_product() takes 14 arguments and all operands but alpha's");
  if (args[DEVICE] != Py_None) return not_taken();
  const bool is_number = PyFloat_CheckExact(args[ALPHA]) || PyLong_Check(args[ALPHA]);
  PyObject* operands[OPERANDS];
  for (int i = 0, from = FIRST_OPERAND; i < OPERANDS; ++i)
    operands[i] = i != OPERAND_alpha_in_memory ? args[from++] : is_number ? Py_None : args[ALPHA];
  if (!are_plain(args, OUT + 1) || !are_plain(operands, OPERANDS)) return not_taken();
  if (args[IS_BELOW] != Py_True) {
    if (is_observed()) return not_taken();
    if (is_true(eager.has_grad) && (want_grad(args, OUT + 1) || want_grad(operands, OPERANDS)))
      return not_taken();
  }
  /* With add_to_rows, rows are added to the contents of `out` in an order that is not fixed. */
  if (operands[OPERAND_add_to_rows] != Py_None && (args[OUT] == Py_None || is_true(eager.is_deterministic)))
    return not_taken();
  product p;
  const long activation = activation_of(args[ACTIVATION]);
  static const int bits[FLAG_COUNT] = {TRANSPOSE_A, TRANSPOSE_B, PRECISE, TF32, GATE};
  const long flags = flags_of(args + FLAGS, bits, FLAG_COUNT);
  if (activation < 0 || flags < 0 || !read_tensor(args[A], &p.a, "A") || !read_tensor(args[B], &p.b, "B"))
    return not_taken();
  /* torch.autocast converts only f32, so it is checked only if A is f32. If the operands have different
   * types, the call returns to Python, which checks autocast. */
  if (p.a.tensor.dtype.code == PTXB_FLOAT && p.a.tensor.dtype.bits == 32 && args[IS_BELOW] != Py_True &&
      is_true(eager.has_autocast))
    return not_taken();
  ptxb_dtype type;
  if (!result_type(args[OUT_DTYPE], p.a.tensor.dtype, &type)) return not_taken();
  const bool has_c = operands[OPERAND_c] != Py_None;
  const product_numbers numbers = {is_number ? PyFloat_AsDouble(args[ALPHA]) : 1,
                                   args[BETA] == Py_None ? has_c : PyFloat_AsDouble(args[BETA]), activation,
                                   flags};
  if ((numbers.alpha == -1 || numbers.beta == -1) && PyErr_Occurred()) return not_taken();
  PyObject* d = run_product(&p, args[OUT], operands, &numbers, type, Py_None, Py_None);
  return d ? d : not_taken();
}

/* Reads an int that is at least `least`, or a tuple of two ints, for lines and for pixels. */
static bool read_pair(PyObject* from, int64_t least, int64_t* to) {
  const bool is_tuple = PyTuple_CheckExact(from);
  if (is_tuple && PyTuple_Size(from) != 2) return false;
  for (int i = 0; i < 2; ++i) {
    PyObject* one = is_tuple ? PyTuple_GetItem(from, i) : from;
    if (!PyLong_CheckExact(one)) return false;
    to[i] = PyLong_AsLongLong(one); /* -1 with an exception is also below `least` */
    if (to[i] < least) return false;
  }
  return true;
}

/* Makes the channels of an image the last dimension. Returns whether TMA supports the resulting layout, in
 * which channels must be contiguous and pixels must not overlap. */
static bool put_channels_last(operand* o, const char* name) {
  if (o->tensor.ndim != 4 || !swap_dimensions(o, name, 1, 2) || !swap_dimensions(o, name, 2, 3)) return false;
  const int64_t *shape = o->tensor.shape, *strides = o->tensor.strides, channels = shape[3];
  if (channels != 1 && strides[3] != 1) return false;
  for (int i = 0; i < 3; ++i)
    if (shape[i] == 0 || (shape[i] != 1 && strides[i] < channels)) return false;
  return channels > 0;
}

PyDoc_STRVAR(convolution_words,
             "eager_convolution(x, w, bias, stride, padding, dilation, groups, activation, out_dtype, "
             "precise, tf32, device)\n\n"
             "Does the same as conv2d(), for plain tensors on a GPU whose channels are last in memory, and "
             "which require no gradient. Returns NotImplemented for all other calls.");
static PyObject* ext_eager_convolution(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  enum {
    X,
    W,
    BIAS,
    TENSORS,
    STRIDE = TENSORS,
    PADDING,
    DILATION,
    GROUPS,
    ACTIVATION,
    OUT_DTYPE,
    FLAGS,
    FLAG_COUNT = 2,
    DEVICE = FLAGS + FLAG_COUNT,
    ALL
  };
  if (count != ALL) return fail("eager_convolution() takes 12 arguments");
  if (args[DEVICE] != Py_None || !are_plain(args, TENSORS) || is_noticed(args, TENSORS)) return not_taken();
  operation call;
  const ptxb_convolution init = PTXB_CONVOLUTION_INIT;
  ptxb_convolution* p = &call.convolution;
  call.kind = CONVOLUTION, *p = init;
  operand x, w, bias, y;
  static const int bits[FLAG_COUNT] = {PRECISE, TF32};
  const long flags = flags_of(args + FLAGS, bits, FLAG_COUNT), activation = activation_of(args[ACTIVATION]);
  ptxb_dtype type;
  if (flags < 0 || activation < 0 || !read_pair(args[STRIDE], 1, p->step) ||
      !read_pair(args[PADDING], 0, p->before) || !read_pair(args[DILATION], 1, p->spread) ||
      !PyLong_CheckExact(args[GROUPS]) || (p->groups = PyLong_AsLongLong(args[GROUPS])) < 1 ||
      !read_tensor(args[X], &x, "x") || !read_tensor(args[W], &w, "w") ||
      !read_optional(args[BIAS], &bias, "bias", &p->bias) || !put_channels_last(&x, "x") ||
      !put_channels_last(&w, "w") || !result_type(args[OUT_DTYPE], x.tensor.dtype, &type))
    return not_taken();
  if (x.tensor.dtype.code == PTXB_FLOAT && x.tensor.dtype.bits == 32 && is_true(eager.has_autocast))
    return not_taken();
  p->precise = !!(flags & PRECISE), p->tf32 = !!(flags & TF32), p->activation = (int32_t)activation;
  int64_t shape[4] = {x.tensor.shape[0], 0, 0, w.tensor.shape[0]};
  for (int d = 0; d < 2; ++d) {
    p->behind[d] = p->before[d];
    const int64_t room =
        x.tensor.shape[1 + d] + 2 * p->before[d] - p->spread[d] * (w.tensor.shape[1 + d] - 1) - 1;
    if (room < 0) return not_taken();
    shape[1 + d] = room / p->step[d] + 1;
  }
  target to;
  if (!choose_target(Py_None, Py_None, &x, "x", &to)) return not_taken();
  managed_tensor* made = allocate(&x, type, 4, shape);
  if (!made) return NULL;
  y.tensor = made->tensor, y.api = x.api;
  p->x = &x.tensor, p->w = &w.tensor, p->y = &y.tensor;
  if (!run_operation(&call, &x, &to)) {
    made->deleter(made);
    return not_taken();
  }
  /* The result has the shape [images, filters, lines, pixels], but its filters are last in memory. */
  const int64_t lying[4] = {shape[1] * shape[2] * shape[3], 1, shape[2] * shape[3], shape[3]},
                seen[4] = {shape[0], shape[3], shape[1], shape[2]};
  memcpy(made->tensor.shape, seen, sizeof seen), memcpy(made->tensor.strides, lying, sizeof lying);
  void* object = NULL;
  return x.api->object_of(made, &object) ? NULL : object;
}

PyMethodDef eager_methods[] = {
    {"use_eager", ext_use_eager, METH_VARARGS, use_words},
    {"eager_product", (PyCFunction)(void (*)(void))ext_eager_product, METH_FASTCALL, eager_words},
    {"eager_convolution", (PyCFunction)(void (*)(void))ext_eager_convolution, METH_FASTCALL,
     convolution_words},
    {NULL, NULL, 0, NULL}};

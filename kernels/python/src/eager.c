/* ptxbuilder._ext: the product in PyTorch's eager mode, where everything is as usual. What is not goes the
 * way of ptxbuilder/_torch/product.py, to which NotImplemented leads. */
#include <string.h>

#include "kernels/python/src/methods.h"

/* This is what use_eager() has got, and keeps for ever. */
static struct {
  PyTypeObject *tensor, *parameter; /* types of tensors that are nothing else besides */
  PyObject *mode_count, *is_tracing, *has_grad, *has_autocast; /* functions without arguments */
  void* const* (*tracing_state)(void); /* what is_tracing asks, in 3 ns where that takes 100; or NULL */
  PyObject* forward_ad; /* a module, whose _current_level is below 0 where there are no dual tensors */
  PyObject* profiler;   /* a module, whose _is_profiler_enabled is True where calls are named */
  PyObject *activations, *codes; /* dicts: by what the caller says, a number */
} eager;

PyDoc_STRVAR(use_words,
             "use_eager(tensor, parameter, mode_count, is_tracing, tracing_state, has_grad, has_autocast, "
             "forward_ad, profiler, activations, codes, written)\n\n"
             "What eager_product() goes by; and what PyTorch is told of each tensor that was written. "
             "tracing_state is the address of a function of C's that gives where a pointer is, which is NULL "
             "unless calls are traced; or 0.");
static PyObject* ext_use_eager(PyObject* self, PyObject* args) {
  (void)self;
  PyObject* written;
  unsigned long long tracing_state;
  if (!PyArg_ParseTuple(args, "O!O!OOKOOOOOOO", &PyType_Type, &eager.tensor, &PyType_Type, &eager.parameter,
                        &eager.mode_count, &eager.is_tracing, &tracing_state, &eager.has_grad,
                        &eager.has_autocast, &eager.forward_ad, &eager.profiler, &eager.activations,
                        &eager.codes, &written))
    return NULL;
  *(void**)&eager.tracing_state = (void*)(uintptr_t)tracing_state;
  tell_of_writes(written);
  Py_INCREF(args); /* and with it all that is in it */
  Py_RETURN_NONE;
}

static bool is_plain(PyObject* x) { return Py_TYPE(x) == eager.tensor || Py_TYPE(x) == eager.parameter; }

/* Says whether a call without arguments gives a number or bool that is not 0; true where it fails. */
static bool is_true(PyObject* function) {
  PyObject* value = PyObject_CallNoArgs(function);
  const bool is = !value || PyObject_IsTrue(value) != 0;
  Py_XDECREF(value);
  return is;
}

/* An attribute, of a name that is made once; NULL with an exception. */
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
  Py_XDECREF(is); /* True and False stay */
  return is != Py_False;
}

/* Says whether one does of those that are not None. */
static bool want_grad(PyObject* const* all, int count) {
  for (int i = 0; i < count; ++i)
    if (all[i] != Py_None && requires_grad(all[i])) return true;
  return false;
}

/* The bits of arguments that are Python's True or False; -1 where one is something else, such as numpy's. */
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

/* The number that a dict has for a key; -1 for none. */
static long number_of(PyObject* dict, PyObject* key) {
  PyObject* value = PyDict_GetItemWithError(dict, key);
  return value ? PyLong_AsLong(value) : -1;
}

/* The type of a product that the caller leaves open, as ptxbuilder/_common.py has it in output_of(). */
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

PyDoc_STRVAR(
    eager_words,
    "eager_product(a, b, out, alpha, beta, activation, out_dtype, transpose_a, transpose_b, precise, tf32, "
    "gate, device, is_below, *operands)\n\n"
    "As matmul(), of plain tensors on a GPU that ask for no gradient; `is_below` says that PyTorch has "
    "seen to that. `operands` are those of OPERANDS without alpha's, which `alpha` may be. NotImplemented "
    "for all else.");
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
    FLAGS, /* whether A and B are turned, sums precise, tf32 allowed, and whether it gates */
    FLAG_COUNT = 5,
    DEVICE = FLAGS + FLAG_COUNT,
    IS_BELOW,
    FIRST_OPERAND,
    ALL = FIRST_OPERAND + OPERANDS - 1
  };
  if (count != ALL) return fail("eager_product() takes 14 arguments and all operands but alpha's");
  if (!eager.tensor || args[DEVICE] != Py_None) return not_taken();
  const bool is_number = PyFloat_CheckExact(args[ALPHA]) || PyLong_Check(args[ALPHA]);
  PyObject* operands[OPERANDS];
  for (int i = 0, from = FIRST_OPERAND; i < OPERANDS; ++i)
    operands[i] = i != OPERAND_alpha_in_memory ? args[from++] : is_number ? Py_None : args[ALPHA];
  for (int i = A; i <= OUT; ++i)
    if (args[i] != Py_None && !is_plain(args[i])) return not_taken();
  for (int i = 0; i < OPERANDS; ++i)
    if (operands[i] != Py_None && !is_plain(operands[i])) return not_taken();
  if (args[IS_BELOW] != Py_True) {
    if (is_true(eager.mode_count) || is_tracing() || has_tangents() || is_profiled()) return not_taken();
    if (is_true(eager.has_grad) && (want_grad(args, OUT + 1) || want_grad(operands, OPERANDS)))
      return not_taken();
  }
  product p;
  long code = 0;
  const long activation =
      args[ACTIVATION] == Py_None ? PTXB_NONE : number_of(eager.activations, args[ACTIVATION]);
  static const int bits[FLAG_COUNT] = {TRANSPOSE_A, TRANSPOSE_B, PRECISE, TF32, GATE};
  const long flags = flags_of(args + FLAGS, bits, FLAG_COUNT);
  if (activation < 0 || flags < 0 || !read_tensor(args[A], &p.a, "A") || !read_tensor(args[B], &p.b, "B"))
    return not_taken();
  /* torch.autocast converts f32; without any, it is not asked. Two types in one product are refused, and come
   * back where it is. */
  if (p.a.tensor.dtype.code == PTXB_FLOAT && p.a.tensor.dtype.bits == 32 && args[IS_BELOW] != Py_True &&
      is_true(eager.has_autocast))
    return not_taken();
  ptxb_dtype type;
  if (args[OUT_DTYPE] == Py_None) {
    if (!output_of(p.a.tensor.dtype, &type)) return not_taken();
  } else {
    if ((code = number_of(eager.codes, args[OUT_DTYPE])) < 0) return not_taken();
    type.code = (uint8_t)(code >> 8), type.bits = (uint8_t)code, type.lanes = 1;
  }
  const bool has_c = operands[OPERAND_c] != Py_None;
  const product_numbers numbers = {is_number ? PyFloat_AsDouble(args[ALPHA]) : 1,
                                   args[BETA] == Py_None ? has_c : PyFloat_AsDouble(args[BETA]), activation,
                                   flags};
  if ((numbers.alpha == -1 || numbers.beta == -1) && PyErr_Occurred()) return not_taken();
  PyObject* d = run_product(&p, args[OUT], operands, &numbers, type, Py_None, Py_None);
  return d ? d : not_taken();
}

PyMethodDef eager_methods[] = {
    {"use_eager", ext_use_eager, METH_VARARGS, use_words},
    {"eager_product", (PyCFunction)(void (*)(void))ext_eager_product, METH_FASTCALL, eager_words},
    {NULL, NULL, 0, NULL}};

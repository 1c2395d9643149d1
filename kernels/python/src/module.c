/* The module ptxbuilder._ext runs operations and launches kernels on Python tensors, on the streams of the
 * tensors' frameworks. */
#include "kernels/python/src/methods.h"
#include "kernels/python/src/xla.h"

PyDoc_STRVAR(open_words, "open(device)\n\nOpens a device by its number, -1 for the emulator.");
static PyObject* ext_open(PyObject* self, PyObject* number) {
  (void)self;
  const long device = PyLong_AsLong(number);
  if (device == -1 && PyErr_Occurred()) return NULL;
  ptxb_device* on;
  PyThreadState* state = PyEval_SaveThread();
  const char* error = host_device((int)device, &on);
  PyEval_RestoreThread(state);
  if (error) return fail(error);
  Py_RETURN_NONE;
}

PyDoc_STRVAR(handlers_words, "handlers()\n\nXLA's handlers, as {(target, platform): capsule}.");
static PyObject* ext_handlers(PyObject* self, PyObject* none) {
  (void)self, (void)none;
  static const struct {
    const char *target, *platform;
    xla_handler* handler;
  } all[] = {{"ptxbuilder_matmul", "cpu", xla_matmul_cpu},
             {"ptxbuilder_matmul", "CUDA", xla_matmul_cuda},
             {"ptxbuilder_attention", "cpu", xla_attention_cpu},
             {"ptxbuilder_attention", "CUDA", xla_attention_cuda},
             {"ptxbuilder_attention_gradient", "cpu", xla_attention_gradient_cpu},
             {"ptxbuilder_attention_gradient", "CUDA", xla_attention_gradient_cuda},
             {"ptxbuilder_convolution", "cpu", xla_convolution_cpu},
             {"ptxbuilder_convolution", "CUDA", xla_convolution_cuda},
             {"ptxbuilder_rows", "cpu", xla_rows_cpu},
             {"ptxbuilder_rows", "CUDA", xla_rows_cuda},
             {"ptxbuilder_kernel", "cpu", xla_kernel_cpu},
             {"ptxbuilder_kernel", "CUDA", xla_kernel_cuda},
             {"ptxbuilder_kernel_waits", "cpu", xla_kernel_cpu},
             {"ptxbuilder_kernel_waits", "CUDA", xla_kernel_waits_cuda}};
  PyObject* handlers = PyDict_New();
  for (size_t i = 0; handlers && i < sizeof all / sizeof *all; ++i) {
    PyObject* key = Py_BuildValue("(ss)", all[i].target, all[i].platform);
    PyObject* capsule = PyCapsule_New(*(void**)&all[i].handler, "xla._CUSTOM_CALL_TARGET", NULL);
    if (!key || !capsule || PyDict_SetItem(handlers, key, capsule)) Py_CLEAR(handlers);
    Py_XDECREF(key);
    Py_XDECREF(capsule);
  }
  return handlers;
}

static PyMethodDef methods[] = {{"open", ext_open, METH_O, open_words},
                                {"handlers", ext_handlers, METH_NOARGS, handlers_words},
                                {NULL, NULL, 0, NULL}};

#define NUMBER(name) \
  { #name, name }
static const struct {
  const char* name;
  long value;
} numbers[] = {
    NUMBER(EMULATOR),        NUMBER(TF32),        NUMBER(PRECISE),          NUMBER(TRANSPOSE_A),
    NUMBER(TRANSPOSE_B),     NUMBER(GATE),        NUMBER(HAS_OPERAND),      NUMBER(CAUSAL),
    NUMBER(TOP_LEFT),        NUMBER(HEADS_FIRST), NUMBER(HAS_LSE),          NUMBER(PACKED),
    NUMBER(DETERMINISTIC),   NUMBER(HAS_SINKS),   NUMBER(HAS_DROPOUT_SEED), NUMBER(HAS_KEY_LENGTHS),
    NUMBER(HAS_BLOCK_TABLE), NUMBER(HAS_K_SCALE), NUMBER(HAS_V_SCALE),      NUMBER(HAS_Q_SCALE),
    NUMBER(XLA_ARGUMENT),    NUMBER(XLA_RESULT),  NUMBER(XLA_BITS),         NUMBER(XLA_INTEGER),
    NUMBER(XLA_STRUCT),      NUMBER(XLA_BITS_AT), NUMBER(XLA_INTEGER_AT),   NUMBER(PACKED_FORM),
    NUMBER(HAS_TREE_MASK)};

typedef struct word {
  const char* text;
  long value;
} word;
static PyObject* numbers_of(const word* all, size_t count) {
  PyObject* numbers = PyDict_New();
  for (size_t i = 0; numbers && i < count; ++i) {
    PyObject* value = PyLong_FromLong(all[i].value);
    if (!value || PyDict_SetItemString(numbers, all[i].text, value)) Py_CLEAR(numbers);
    Py_XDECREF(value);
  }
  return numbers;
}

/* The activations of the library: {"relu": PTXB_RELU, ...}. */
static const word activations[] = {
#define PTXBUILDER_ACTIVATION(word, WORD, ...) {#word, PTXB_##WORD},
#include "kernels/gemm/activation.def"
#undef PTXBUILDER_ACTIVATION
};
/* The types of packed weights: {"int4": PTXB_PACKED_INT4, ...}. */
static const word packed_types[] = {
#define PTXBUILDER_WEIGHT(word, WORD, ...) {#word, PTXB_PACKED_##WORD},
#include "kernels/gemm/weight.def"
};

/* Returns (word, label, type, shape, role) of each operand of a product, from product.def. */
static PyObject* operands(void) {
  PyObject* all = PyTuple_New(OPERANDS);
  for (int i = 0; all && i < OPERANDS; ++i) {
    const operand_row* row = &operand_rows[i];
    PyObject* words = Py_BuildValue("(sssss)", row->word, row->label, row->type, row->shape, row->role);
    if (!words || PyTuple_SetItem(all, i, words)) Py_CLEAR(all);
  }
  return all;
}

/* Returns a dict that maps the names of attention's numbers (floats) and sizes (integers) to their defaults,
 * such as {"left": -1, ...}, in the order in which they are passed. */
static PyObject* attention_numbers(void) {
  PyObject* all = PyDict_New();
  PyObject* value;
#define ADD(name, made)                                                 \
  value = all ? made : NULL;                                            \
  if (!value || PyDict_SetItemString(all, #name, value)) Py_CLEAR(all); \
  Py_XDECREF(value);
#define PTXBUILDER_ATTENTION_NUMBER(name, below, rule, meaning) ADD(name, PyFloat_FromDouble(0))
#include "kernels/attention/attention.def"
#define PTXBUILDER_ATTENTION_SIZE(name, unsaid, meaning) ADD(name, PyLong_FromLong(unsaid))
#include "kernels/attention/attention.def"
#undef ADD
  return all;
}

/* Adds `made` to the module, and releases it. `made` is NULL if it could not be created. */
static int add(PyObject* module, const char* name, PyObject* made) {
  const int status = made ? PyModule_AddObjectRef(module, name, made) : -1;
  Py_XDECREF(made);
  return status;
}

static int fill(PyObject* module) {
  int status = PyModule_AddIntConstant(module, "VERSION", ptxb_version());
  for (size_t i = 0; !status && i < sizeof numbers / sizeof *numbers; ++i)
    status = PyModule_AddIntConstant(module, numbers[i].name, numbers[i].value);
  if (!status)
    status = add(module, "ACTIVATIONS", numbers_of(activations, sizeof activations / sizeof *activations));
  if (!status)
    status =
        add(module, "PACKED_TYPES", numbers_of(packed_types, sizeof packed_types / sizeof *packed_types));
  if (!status) status = add(module, "OPERANDS", operands());
  if (!status) status = add(module, "ATTENTION_NUMBERS", attention_numbers());
  if (!status) status = PyModule_AddFunctions(module, methods);
  if (!status) status = PyModule_AddFunctions(module, product_methods);
  if (!status) status = PyModule_AddFunctions(module, sparse_methods);
  if (!status) status = PyModule_AddFunctions(module, eager_methods);
  if (!status) status = PyModule_AddFunctions(module, attention_methods);
  if (!status) status = PyModule_AddFunctions(module, contraction_methods);
  if (!status) status = PyModule_AddFunctions(module, convolution_methods);
  if (!status) status = PyModule_AddFunctions(module, launch_methods);
  if (!status) status = PyModule_AddFunctions(module, packed_methods);
  if (!status) status = PyModule_AddFunctions(module, rows_methods);
  if (!status) status = PyModule_AddFunctions(module, ranks_methods);
  if (!status) status = add(module, "ROWS", PyUnicode_FromString(ptxb_rows_table()));
  return status;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void*)fill}, {0, NULL}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_ext", NULL, 0, NULL, slots, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__ext(void) { return PyModuleDef_Init(&definition); }

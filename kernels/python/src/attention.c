/* ptxbuilder._ext: attention. */
#include "kernels/python/src/methods.h"

typedef struct attention {
#define PTXBUILDER_ATTENTION_TENSOR(name, word, is_written) operand name;
#include "kernels/attention/attention.def"
  operation call;
} attention;

/* The arguments of a call: the tensors of attention.def, where `out` may be None; the numbers and sizes of
 * attention.def; and the flags, including those of host.h. */
enum {
#define PTXBUILDER_ATTENTION_TENSOR(name, word, is_written) AT_##name,
#include "kernels/attention/attention.def"
#define PTXBUILDER_ATTENTION_NUMBER(name, below, rule, meaning) AT_##name,
#include "kernels/attention/attention.def"
#define PTXBUILDER_ATTENTION_SIZE(name, unsaid, meaning) AT_##name,
#include "kernels/attention/attention.def"
  AT_flags,
  ATTENTION_ARGUMENTS
};

/* Returns whether an argument may be None. If O is None, it is allocated; if V is None, the first columns of
 * K are the values. */
static bool may_be_none(int argument) { return argument == AT_o || argument == AT_v; }

/* Reads the arguments of attention. If `runs` is true, O and lse will be written; otherwise they are read for
 * a gradient. */
static bool read_attention(attention* t, PyObject* const* args, bool runs) {
  const ptxb_attention init = PTXB_ATTENTION_INIT;
  ptxb_attention* a = &t->call.attention;
  t->call.kind = ATTENTION, *a = init;
  t->o.is_read_only = false; /* O may be None, in which case it has not been read */
#define PTXBUILDER_ATTENTION_HEADS(name, word, is_written)       \
  a->name = &t->name.tensor;                                     \
  if ((args[AT_##name] != Py_None || !may_be_none(AT_##name)) && \
      !read_tensor(args[AT_##name], &t->name, word))             \
    return false;
#define PTXBUILDER_ATTENTION_ROWS(name, word, is_written) \
  if (!read_optional(args[AT_##name], &t->name, word, &a->name)) return false;
#define PTXBUILDER_ATTENTION_NUMBER(name, below, rule, meaning) \
  a->name = (float)PyFloat_AsDouble(args[AT_##name]);
#define PTXBUILDER_ATTENTION_SIZE(name, unsaid, meaning) a->name = PyLong_AsLongLong(args[AT_##name]);
#define PTXBUILDER_ATTENTION_FLAG(name, BIT, meaning) a->name = !!(PyLong_AsLong(args[AT_flags]) & BIT);
#include "kernels/attention/attention.def"
  if (PyErr_Occurred()) return false;
  if (args[AT_v] == Py_None) a->v = NULL;
#define PTXBUILDER_ATTENTION_TENSOR(name, word, is_written)    \
  if (runs && is_written && a->name && t->name.is_read_only) { \
    fail(word ": it is read-only");                            \
    return false;                                              \
  }
#include "kernels/attention/attention.def"
  return true;
}

static bool lay(attention* t, bool is_heads_first) {
  return !is_heads_first ||
         (swap_dimensions(&t->q, "Q", 1, 2) && swap_dimensions(&t->k, "K", 1, 2) &&
          (!t->call.attention.v || swap_dimensions(&t->v, "V", 1, 2)) && swap_dimensions(&t->o, "O", 1, 2));
}

/* Returns a new O with the shape of Q, except for the columns of V, and with the type of Q, or bf16 if Q is
 * e4m3. */
static managed_tensor* allocate_result(attention* t) {
  const int32_t ndim = t->q.tensor.ndim;
  int64_t shape[4];
  const int32_t of_v = t->v.tensor.ndim; /* a cache has 4 dimensions even if the queries are packed */
  if (!t->q.api || !t->call.attention.v || ndim < 3 || of_v < ndim || of_v > 4) {
    fail("O: it must be given");
    return NULL;
  }
  for (int i = 0; i < ndim - 1; ++i) shape[i] = t->q.tensor.shape[i];
  shape[ndim - 1] = t->v.tensor.shape[of_v - 1];
  const ptxb_dtype bf16 = {PTXB_BFLOAT, 16, 1}, type = t->q.tensor.dtype;
  managed_tensor* made = allocate(&t->q, type.code == PTXB_E4M3 ? bf16 : type, ndim, shape);
  if (made) t->o.tensor = made->tensor, t->o.api = t->q.api;
  return made;
}

static bool check_all_staged(const attention* t) {
#define PTXBUILDER_ATTENTION_TENSOR(name, word, is_written) \
  if (t->call.attention.name && !check_staged(&t->name, word)) return false;
#include "kernels/attention/attention.def"
  return true;
}

PyDoc_STRVAR(attention_words,
             "attention(q, k, v, out, lse, query_offsets, key_offsets, sinks, dropout_seed, key_lengths, "
             "block_table, k_scale, v_scale, q_scale, tree_mask, *numbers, flags, device, stream)\n\n"
             "Queues one attention, and gives `out`, or where that is None, a new tensor. The numbers are "
             "those of ATTENTION_NUMBERS.");
static PyObject* ext_attention(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (count != ATTENTION_ARGUMENTS + 2)
    return PyErr_Format(PyExc_ValueError, "attention() takes %d arguments, but %zd were given",
                        ATTENTION_ARGUMENTS + 2, count);
  attention t;
  target to;
  PyObject* out = args[AT_o];
  if (!read_attention(&t, args, true) ||
      !choose_target(args[ATTENTION_ARGUMENTS], args[ATTENTION_ARGUMENTS + 1], &t.q, "Q", &to))
    return NULL;
  managed_tensor* made = NULL;
  if (out == Py_None && !(made = allocate_result(&t))) return NULL;
  const long flags = PyLong_AsLong(args[AT_flags]);
  if (!lay(&t, flags & HEADS_FIRST) || (to.is_staged && !check_all_staged(&t)) ||
      !run_operation(&t.call, &t.q, &to)) {
    if (made) made->deleter(made);
    return NULL;
  }
  if (!made) {
    if (!note_written(out, &t.o)) return NULL;
    Py_INCREF(out);
    return out;
  }
  void* object = NULL;
  return t.q.api->object_of(made, &object) ? NULL : object;
}

PyDoc_STRVAR(
    workspace_words,
    "attention_workspace(device, q, k, v, out, lse, query_offsets, key_offsets, sinks, dropout_seed, "
    "key_lengths, block_table, k_scale, v_scale, q_scale, tree_mask, *numbers, flags)\n\n"
    "Checks an attention, compiles its kernel, and gives the bytes of its workspace. Memory is not touched.");
static PyObject* ext_attention_workspace(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (count != 1 + ATTENTION_ARGUMENTS)
    return PyErr_Format(PyExc_ValueError, "attention_workspace() takes %d arguments, but %zd were given",
                        1 + ATTENTION_ARGUMENTS, count);
  attention t;
  return read_attention(&t, args + 1, true) && lay(&t, PyLong_AsLong(args[1 + AT_flags]) & HEADS_FIRST)
             ? workspace_bytes(args[0], &t.call)
             : NULL;
}

/* The gradients of attention. They are those of O (which is read), Q, K and V, and those of lse (which is
 * read) and of sinks. The last two may be None. */
enum { GRAD, DQ, DK, DV, GRADIENTS, LSE_GRAD = GRADIENTS, DSINKS, GRADIENT_ARGUMENTS };
static const char* const gradient_words[GRADIENT_ARGUMENTS] = {
    "dO", "dQ", "dK", "dV", "the gradient of lse", "dsinks"};
static bool is_written(int gradient) { return gradient != GRAD && gradient != LSE_GRAD; }
typedef struct attention_gradient {
  attention of;
  operand all[GRADIENT_ARGUMENTS];
} attention_gradient;

static bool read_gradients(attention_gradient* t, PyObject* const* args_of_all) {
  PyObject* const* args = args_of_all + ATTENTION_ARGUMENTS;
  const ptxb_attention_gradient init = PTXB_ATTENTION_GRADIENT_INIT;
  ptxb_attention_gradient* g = &t->of.call.gradient;
  t->of.call.kind = ATTENTION_GRADIENT, *g = init;
  g->deterministic = PyLong_AsLong(args_of_all[AT_flags]) & DETERMINISTIC;
  const ptxb_tensor** const places[GRADIENT_ARGUMENTS] = {&g->grad, &g->dq,       &g->dk,
                                                          &g->dv,   &g->lse_grad, &g->dsinks};
  for (int i = 0; i < GRADIENT_ARGUMENTS; ++i) {
    if (i < GRADIENTS) *places[i] = &t->all[i].tensor;
    if (i < GRADIENTS ? !read_tensor(args[i], &t->all[i], gradient_words[i])
                      : !read_optional(args[i], &t->all[i], gradient_words[i], places[i]))
      return false;
    if (is_written(i) && *places[i] && t->all[i].is_read_only) {
      PyErr_Format(PyExc_ValueError, "%s: it is read-only", gradient_words[i]);
      return false;
    }
  }
  return true;
}

static bool lay_gradients(attention_gradient* t, bool is_heads_first) {
  if (!lay(&t->of, is_heads_first)) return false;
  for (int i = 0; is_heads_first && i < GRADIENTS; ++i)
    if (!swap_dimensions(&t->all[i], gradient_words[i], 1, 2)) return false;
  return true;
}

PyDoc_STRVAR(gradient_doc,
             "attention_gradient(q, k, v, o, lse, query_offsets, key_offsets, sinks, dropout_seed, "
             "key_lengths, block_table, k_scale, v_scale, q_scale, tree_mask, *numbers, flags, grad, dq, "
             "dk, dv, lse_grad, dsinks, device, stream)\n\n"
             "Queues the gradients of one attention, which are written into `dq`, `dk`, `dv` and `dsinks`.");
static PyObject* ext_attention_gradient(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (count != ATTENTION_ARGUMENTS + GRADIENT_ARGUMENTS + 2)
    return PyErr_Format(PyExc_ValueError, "attention_gradient() takes %d arguments, but %zd were given",
                        ATTENTION_ARGUMENTS + GRADIENT_ARGUMENTS + 2, count);
  PyObject* const* gradients = args + ATTENTION_ARGUMENTS;
  attention_gradient t;
  target to;
  if (args[AT_o] == Py_None) return fail("O: it must be given");
  if (!read_attention(&t.of, args, false) || !read_gradients(&t, args) ||
      !choose_target(gradients[GRADIENT_ARGUMENTS], gradients[GRADIENT_ARGUMENTS + 1], &t.of.q, "Q", &to) ||
      !lay_gradients(&t, PyLong_AsLong(args[AT_flags]) & HEADS_FIRST) ||
      (to.is_staged && !check_all_staged(&t.of)))
    return NULL;
  for (int i = 0; to.is_staged && i < GRADIENT_ARGUMENTS; ++i)
    if (gradients[i] != Py_None && !check_staged(&t.all[i], gradient_words[i])) return NULL;
  if (!run_operation(&t.of.call, &t.of.q, &to)) return NULL;
  for (int i = 0; i < GRADIENT_ARGUMENTS; ++i)
    if (is_written(i) && gradients[i] != Py_None && !note_written(gradients[i], &t.all[i])) return NULL;
  Py_RETURN_NONE;
}

PyDoc_STRVAR(gradient_workspace_doc,
             "attention_gradient_workspace(device, q, k, v, o, lse, query_offsets, key_offsets, sinks, "
             "dropout_seed, key_lengths, block_table, k_scale, v_scale, q_scale, tree_mask, *numbers, flags, "
             "grad, dq, dk, dv, lse_grad, dsinks)\n\n"
             "Checks it, compiles its kernels, and gives the bytes of its workspace. Memory is not touched.");
static PyObject* ext_attention_gradient_workspace(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (count != 1 + ATTENTION_ARGUMENTS + GRADIENT_ARGUMENTS)
    return PyErr_Format(PyExc_ValueError,
                        "attention_gradient_workspace() takes %d arguments, but %zd were given",
                        1 + ATTENTION_ARGUMENTS + GRADIENT_ARGUMENTS, count);
  attention_gradient t;
  return read_attention(&t.of, args + 1, false) && read_gradients(&t, args + 1) &&
                 lay_gradients(&t, PyLong_AsLong(args[1 + AT_flags]) & HEADS_FIRST)
             ? workspace_bytes(args[0], &t.of.call)
             : NULL;
}

PyMethodDef attention_methods[] = {
    {"attention", (PyCFunction)(void (*)(void))ext_attention, METH_FASTCALL, attention_words},
    {"attention_workspace", (PyCFunction)(void (*)(void))ext_attention_workspace, METH_FASTCALL,
     workspace_words},
    {"attention_gradient", (PyCFunction)(void (*)(void))ext_attention_gradient, METH_FASTCALL, gradient_doc},
    {"attention_gradient_workspace", (PyCFunction)(void (*)(void))ext_attention_gradient_workspace,
     METH_FASTCALL, gradient_workspace_doc},
    {NULL, NULL, 0, NULL}};

/* ptxbuilder._ext: attention. */
#include "kernels/python/src/methods.h"

typedef struct attention {
#define PTXBUILDER_ATTENTION_TENSOR(name, word, is_written) operand name;
#include "kernels/attention/attention.def"
  operation call;
} attention;

/* The arguments of a call: the tensors of attention.def, of which `out` may be None, its numbers, its sizes,
 * and its flags with what host.h adds to them. */
enum {
#define PTXBUILDER_ATTENTION_TENSOR(name, word, is_written) AT_##name,
#include "kernels/attention/attention.def"
#define PTXBUILDER_ATTENTION_NUMBER(name, rule, meaning) AT_##name,
#include "kernels/attention/attention.def"
#define PTXBUILDER_ATTENTION_SIZE(name, unsaid, meaning) AT_##name,
#include "kernels/attention/attention.def"
  AT_flags,
  ATTENTION_ARGUMENTS
};

static bool read_attention(attention* t, PyObject* const* args) {
  const ptxb_attention init = PTXB_ATTENTION_INIT;
  ptxb_attention* a = &t->call.attention;
  t->call.kind = ATTENTION, *a = init;
  t->o.is_read_only = false; /* of one that is to be made */
#define PTXBUILDER_ATTENTION_HEADS(name, word, is_written)                                                \
  a->name = &t->name.tensor;                                                                              \
  if ((args[AT_##name] != Py_None || AT_##name != AT_o) && !read_tensor(args[AT_##name], &t->name, word)) \
    return false;
#define PTXBUILDER_ATTENTION_ROWS(name, word, is_written) \
  if (!read_optional(args[AT_##name], &t->name, word, &a->name)) return false;
#define PTXBUILDER_ATTENTION_NUMBER(name, rule, meaning) a->name = (float)PyFloat_AsDouble(args[AT_##name]);
#define PTXBUILDER_ATTENTION_SIZE(name, unsaid, meaning) a->name = PyLong_AsLongLong(args[AT_##name]);
#define PTXBUILDER_ATTENTION_FLAG(name, BIT, meaning) a->name = !!(PyLong_AsLong(args[AT_flags]) & BIT);
#include "kernels/attention/attention.def"
  if (PyErr_Occurred()) return false;
#define PTXBUILDER_ATTENTION_TENSOR(name, word, is_written) \
  if (is_written && a->name && t->name.is_read_only) {      \
    fail(word ": it is read-only");                         \
    return false;                                           \
  }
#include "kernels/attention/attention.def"
  return true;
}

static bool lay(attention* t, bool is_heads_first) {
  return !is_heads_first || (swap_dimensions(&t->q, "Q", 1, 2) && swap_dimensions(&t->k, "K", 1, 2) &&
                             swap_dimensions(&t->v, "V", 1, 2) && swap_dimensions(&t->o, "O", 1, 2));
}

/* A new O, of Q's shape with V's columns. */
static managed_tensor* allocate_result(attention* t) {
  const int32_t ndim = t->q.tensor.ndim;
  int64_t shape[4];
  if (!t->q.api || ndim < 3 || ndim > 4 || t->v.tensor.ndim != ndim) {
    fail("O: it has to be given");
    return NULL;
  }
  for (int i = 0; i < ndim; ++i) shape[i] = (i == ndim - 1 ? &t->v : &t->q)->tensor.shape[i];
  managed_tensor* made = allocate(&t->q, t->q.tensor.dtype, ndim, shape);
  if (made) t->o.tensor = made->tensor, t->o.api = t->q.api;
  return made;
}

static bool check_all_staged(const attention* t) {
#define PTXBUILDER_ATTENTION_TENSOR(name, word, is_written) \
  if (t->call.attention.name && !check_staged(&t->name, word)) return false;
#include "kernels/attention/attention.def"
  return true;
}

PyDoc_STRVAR(
    attention_words,
    "attention(q, k, v, out, lse, query_offsets, key_offsets, *numbers, flags, device, stream)\n\n"
    "Queues one attention, and gives `out`, or where that is None, a new tensor. The numbers are those "
    "of ATTENTION_NUMBERS.");
static PyObject* ext_attention(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (count != ATTENTION_ARGUMENTS + 2) return fail("attention() takes another number of arguments");
  attention t;
  target to;
  PyObject* out = args[AT_o];
  if (!read_attention(&t, args) ||
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

PyDoc_STRVAR(workspace_words,
             "attention_workspace(device, q, k, v, out, lse, query_offsets, key_offsets, *numbers, flags)\n\n"
             "Checks an attention, compiles its kernel, and gives the bytes of its workspace. Memory is not "
             "touched.");
static PyObject* ext_attention_workspace(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (count != 1 + ATTENTION_ARGUMENTS)
    return fail("attention_workspace() takes another number of arguments");
  attention t;
  return read_attention(&t, args + 1) && lay(&t, PyLong_AsLong(args[1 + AT_flags]) & HEADS_FIRST)
             ? workspace_bytes(args[0], &t.call)
             : NULL;
}

PyMethodDef attention_methods[] = {
    {"attention", (PyCFunction)(void (*)(void))ext_attention, METH_FASTCALL, attention_words},
    {"attention_workspace", (PyCFunction)(void (*)(void))ext_attention_workspace, METH_FASTCALL,
     workspace_words},
    {NULL, NULL, 0, NULL}};

/* ptxbuilder._ext: attention. */
#include "kernels/python/src/methods.h"

typedef struct attention {
  operand q, k, v, o, lse, query_offsets, key_offsets;
  operation call;
} attention;

/* q, k, v, out or None, lse, query_offsets, key_offsets, scale, softcap, left, right, flags, queries, keys */
enum { ATTENTION_ARGUMENTS = 14 };
static bool read_attention(attention* t, PyObject* const* args) {
  const ptxb_attention init = PTXB_ATTENTION_INIT;
  ptxb_attention* a = &t->call.attention;
  t->call.kind = ATTENTION, *a = init;
  a->q = &t->q.tensor, a->k = &t->k.tensor, a->v = &t->v.tensor, a->o = &t->o.tensor;
  if (!read_tensor(args[0], &t->q, "Q") || !read_tensor(args[1], &t->k, "K") ||
      !read_tensor(args[2], &t->v, "V") || (args[3] != Py_None && !read_tensor(args[3], &t->o, "O")) ||
      !read_optional(args[4], &t->lse, "lse", &a->lse) ||
      !read_optional(args[5], &t->query_offsets, "query_offsets", &a->query_offsets) ||
      !read_optional(args[6], &t->key_offsets, "key_offsets", &a->key_offsets))
    return false;
  a->scale = (float)PyFloat_AsDouble(args[7]), a->softcap = (float)PyFloat_AsDouble(args[8]);
  a->left = PyLong_AsLongLong(args[9]), a->right = PyLong_AsLongLong(args[10]);
  a->causal = !!(PyLong_AsLong(args[11]) & CAUSAL), a->top_left = !!(PyLong_AsLong(args[11]) & TOP_LEFT);
  a->queries = PyLong_AsLongLong(args[12]), a->keys = PyLong_AsLongLong(args[13]);
  if (PyErr_Occurred()) return false;
  if ((args[3] != Py_None && t->o.is_read_only) || (a->lse && t->lse.is_read_only)) {
    fail(a->lse && t->lse.is_read_only ? "lse: it is read-only" : "O: it is read-only");
    return false;
  }
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
  const ptxb_attention* a = &t->call.attention;
  return check_staged(&t->k, "K") && check_staged(&t->v, "V") && check_staged(&t->o, "O") &&
         (!a->lse || check_staged(&t->lse, "lse")) &&
         (!a->query_offsets || check_staged(&t->query_offsets, "query_offsets")) &&
         (!a->key_offsets || check_staged(&t->key_offsets, "key_offsets"));
}

PyDoc_STRVAR(attention_words,
             "attention(q, k, v, out, lse, query_offsets, key_offsets, scale, softcap, left, right, flags, "
             "queries, keys, device, stream)\n\nQueues one attention, and gives `out`, or where that is "
             "None, a new tensor.");
static PyObject* ext_attention(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (count != ATTENTION_ARGUMENTS + 2) return fail("attention() takes 16 arguments");
  attention t;
  target to;
  PyObject* out = args[3];
  if (!read_attention(&t, args) ||
      !choose_target(args[ATTENTION_ARGUMENTS], args[ATTENTION_ARGUMENTS + 1], &t.q, "Q", &to))
    return NULL;
  managed_tensor* made = NULL;
  if (out == Py_None && !(made = allocate_result(&t))) return NULL;
  const long flags = PyLong_AsLong(args[11]);
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
             "attention_workspace(device, q, k, v, out, lse, query_offsets, key_offsets, scale, softcap, "
             "left, right, flags, queries, keys)\n\n"
             "Checks an attention, compiles its kernel, and gives the bytes of its workspace. Memory is not "
             "touched.");
static PyObject* ext_attention_workspace(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (count != 1 + ATTENTION_ARGUMENTS) return fail("attention_workspace() takes 15 arguments");
  attention t;
  return read_attention(&t, args + 1) && lay(&t, PyLong_AsLong(args[12]) & HEADS_FIRST)
             ? workspace_bytes(args[0], &t.call)
             : NULL;
}

PyMethodDef attention_methods[] = {
    {"attention", (PyCFunction)(void (*)(void))ext_attention, METH_FASTCALL, attention_words},
    {"attention_workspace", (PyCFunction)(void (*)(void))ext_attention_workspace, METH_FASTCALL,
     workspace_words},
    {NULL, NULL, 0, NULL}};

/* ptxbuilder._ext: this rank's part of a product, a norm or an exchange of tokens of several ranks. */
#include "kernels/python/src/methods.h"

enum { MOST_RANKS = 64 };
typedef struct ranked {
  operand a, b, d, gathered, scale;
  void* memory[MOST_RANKS];
  ptxb_ranked call;
} ranked;

typedef struct ranked_norm {
  operand x, residual, weight, y, new_residual;
  void* memory[MOST_RANKS];
  ptxb_ranked_norm call;
} ranked_norm;

typedef struct ranked_tokens {
  operand sorted, ends, grouped, splits, grouped_ends;
  void* memory[MOST_RANKS];
  ptxb_ranked_tokens call;
} ranked_tokens;

/* `given` is a tuple of the ranks' addresses, or how many ranks there are. Returns that, or -1 with an
 * exception. */
static int32_t read_memory(PyObject* given, void** memory) {
  if (!PyTuple_Check(given)) return (int32_t)PyLong_AsLong(given);
  const Py_ssize_t ranks = PyTuple_Size(given);
  if (ranks > MOST_RANKS) return fail("more than 64 ranks"), -1;
  for (Py_ssize_t i = 0; i < ranks; ++i) memory[i] = PyLong_AsVoidPtr(PyTuple_GetItem(given, i));
  return (int32_t)ranks;
}

/* `tensors` is a tuple of A, B, D, where all ranks' A is kept, and the scale; the last two may be
 * None. */
static bool read_ranked(ranked* r, PyObject* tensors, PyObject* memory, PyObject* scatters) {
  const ptxb_ranked init = PTXB_RANKED_INIT;
  r->call = init;
  if (!PyTuple_Check(tensors) || PyTuple_Size(tensors) != 5)
    return fail("a product of ranks has five tensors");
  if (!read_tensor(PyTuple_GetItem(tensors, 0), &r->a, "A") ||
      !read_tensor(PyTuple_GetItem(tensors, 1), &r->b, "B") ||
      !read_tensor(PyTuple_GetItem(tensors, 2), &r->d, "D") ||
      !read_optional(PyTuple_GetItem(tensors, 3), &r->gathered, "gathered", &r->call.gathered) ||
      !read_optional(PyTuple_GetItem(tensors, 4), &r->scale, "scale", &r->call.scale))
    return false;
  r->call.a = &r->a.tensor, r->call.b = &r->b.tensor, r->call.d = &r->d.tensor;
  r->call.scatters = (int32_t)PyLong_AsLong(scatters);
  r->call.ranks = read_memory(memory, r->memory), r->call.memory = r->memory;
  return !PyErr_Occurred();
}

/* `tensors` is a tuple of x, residual, weight, y and new_residual. */
static bool read_ranked_norm(ranked_norm* r, PyObject* tensors, PyObject* memory) {
  const ptxb_ranked_norm init = PTXB_RANKED_NORM_INIT;
  r->call = init;
  if (!PyTuple_Check(tensors) || PyTuple_Size(tensors) != 5) return fail("a norm of ranks has five tensors");
  if (!read_tensor(PyTuple_GetItem(tensors, 0), &r->x, "x") ||
      !read_optional(PyTuple_GetItem(tensors, 1), &r->residual, "residual", &r->call.residual) ||
      !read_optional(PyTuple_GetItem(tensors, 2), &r->weight, "weight", &r->call.weight) ||
      !read_tensor(PyTuple_GetItem(tensors, 3), &r->y, "y") ||
      !read_tensor(PyTuple_GetItem(tensors, 4), &r->new_residual, "new_residual"))
    return false;
  r->call.x = &r->x.tensor, r->call.y = &r->y.tensor, r->call.new_residual = &r->new_residual.tensor;
  r->call.ranks = read_memory(memory, r->memory), r->call.memory = r->memory;
  return !PyErr_Occurred();
}

PyDoc_STRVAR(ranked_words,
             "ranked(tensors, memory, bytes, rank, scatters, multiprocessors, device, stream)\n\n"
             "Queues this rank's part of a product of (A, B, D, gathered, scale): `memory` is a tuple of the "
             "addresses of all ranks' exchange memory, each of so many bytes, and `scatters` is 0, 1 or 2, "
             "as that of ptxb_ranked.");
static PyObject* ext_ranked(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (count != 8) return fail("ranked() takes another number of arguments");
  ranked r;
  target to;
  if (!read_ranked(&r, args[0], args[1], args[4])) return NULL;
  r.call.memory_bytes = PyLong_AsSize_t(args[2]);
  r.call.rank = (int32_t)PyLong_AsLong(args[3]);
  r.call.multiprocessors = (int32_t)PyLong_AsLong(args[5]);
  if (PyErr_Occurred() || !choose_target(args[6], args[7], &r.a, "A", &to)) return NULL;
  if (to.is_staged) return fail("a product of ranks takes tensors on GPUs");
  PyThreadState* state = PyEval_SaveThread();
  const char* error = host_ranked(to.device, &r.call, to.stream);
  PyEval_RestoreThread(state);
  if (error) return fail(error);
  Py_RETURN_NONE;
}

PyDoc_STRVAR(memory_words,
             "ranked_memory(tensors, ranks, scatters, device)\n\n"
             "The bytes of exchange memory that each rank has for such a product.");
static PyObject* ext_ranked_memory(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (count != 4) return fail("ranked_memory() takes another number of arguments");
  ranked r;
  if (!read_ranked(&r, args[0], args[1], args[2])) return NULL;
  const long device = PyLong_AsLong(args[3]);
  if (PyErr_Occurred()) return NULL;
  size_t bytes = 0;
  PyThreadState* state = PyEval_SaveThread();
  const char* error = host_ranked_memory((int)device, &r.call, &bytes);
  PyEval_RestoreThread(state);
  return error ? fail(error) : PyLong_FromSize_t(bytes);
}

PyDoc_STRVAR(norm_words,
             "ranked_norm(tensors, memory, bytes, rank, epsilon, multiprocessors, device, stream)\n\n"
             "Queues this rank's part of an all-reduce with a norm of (x, residual, weight, y, "
             "new_residual), by memory as ranked() takes it.");
static PyObject* ext_ranked_norm(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (count != 8) return fail("ranked_norm() takes another number of arguments");
  ranked_norm r;
  target to;
  if (!read_ranked_norm(&r, args[0], args[1])) return NULL;
  r.call.memory_bytes = PyLong_AsSize_t(args[2]);
  r.call.rank = (int32_t)PyLong_AsLong(args[3]);
  r.call.epsilon = (float)PyFloat_AsDouble(args[4]);
  r.call.multiprocessors = (int32_t)PyLong_AsLong(args[5]);
  if (PyErr_Occurred() || !choose_target(args[6], args[7], &r.x, "x", &to)) return NULL;
  if (to.is_staged) return fail("a norm of ranks takes tensors on GPUs");
  PyThreadState* state = PyEval_SaveThread();
  const char* error = host_ranked_norm(to.device, &r.call, to.stream);
  PyEval_RestoreThread(state);
  if (error) return fail(error);
  Py_RETURN_NONE;
}

PyDoc_STRVAR(norm_memory_words,
             "ranked_norm_memory(tensors, ranks, device)\n\n"
             "The bytes of exchange memory that each rank has at least for such a norm.");
static PyObject* ext_ranked_norm_memory(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (count != 3) return fail("ranked_norm_memory() takes another number of arguments");
  ranked_norm r;
  if (!read_ranked_norm(&r, args[0], args[1])) return NULL;
  const long device = PyLong_AsLong(args[2]);
  if (PyErr_Occurred()) return NULL;
  size_t bytes = 0;
  PyThreadState* state = PyEval_SaveThread();
  const char* error = host_ranked_norm_memory((int)device, &r.call, &bytes);
  PyEval_RestoreThread(state);
  return error ? fail(error) : PyLong_FromSize_t(bytes);
}

/* `tensors` is a tuple of sorted, ends, grouped, splits and grouped_ends; the last may be None in a combine.
 */
static bool read_ranked_tokens(ranked_tokens* r, PyObject* tensors, PyObject* memory, PyObject* combines) {
  const ptxb_ranked_tokens init = PTXB_RANKED_TOKENS_INIT;
  r->call = init;
  if (!PyTuple_Check(tensors) || PyTuple_Size(tensors) != 5)
    return fail("an exchange of tokens has five tensors");
  if (!read_tensor(PyTuple_GetItem(tensors, 0), &r->sorted, "sorted") ||
      !read_tensor(PyTuple_GetItem(tensors, 1), &r->ends, "ends") ||
      !read_tensor(PyTuple_GetItem(tensors, 2), &r->grouped, "grouped") ||
      !read_tensor(PyTuple_GetItem(tensors, 3), &r->splits, "splits") ||
      !read_optional(PyTuple_GetItem(tensors, 4), &r->grouped_ends, "grouped_ends", &r->call.grouped_ends))
    return false;
  r->call.sorted = &r->sorted.tensor, r->call.ends = &r->ends.tensor;
  r->call.grouped = &r->grouped.tensor, r->call.splits = &r->splits.tensor;
  r->call.combines = (int32_t)PyLong_AsLong(combines);
  r->call.ranks = read_memory(memory, r->memory), r->call.memory = r->memory;
  return !PyErr_Occurred();
}

PyDoc_STRVAR(tokens_words,
             "ranked_tokens(tensors, memory, bytes, rank, combines, multiprocessors, device, stream)\n\n"
             "Queues this rank's part of a dispatch, or with `combines` 1 of a combine, of (sorted, ends, "
             "grouped, splits, grouped_ends), by memory as ranked() takes it.");
static PyObject* ext_ranked_tokens(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (count != 8) return fail("ranked_tokens() takes another number of arguments");
  ranked_tokens r;
  target to;
  if (!read_ranked_tokens(&r, args[0], args[1], args[4])) return NULL;
  r.call.memory_bytes = PyLong_AsSize_t(args[2]);
  r.call.rank = (int32_t)PyLong_AsLong(args[3]);
  r.call.multiprocessors = (int32_t)PyLong_AsLong(args[5]);
  if (PyErr_Occurred() || !choose_target(args[6], args[7], &r.sorted, "sorted", &to)) return NULL;
  if (to.is_staged) return fail("an exchange of tokens takes tensors on GPUs");
  PyThreadState* state = PyEval_SaveThread();
  const char* error = host_ranked_tokens(to.device, &r.call, to.stream);
  PyEval_RestoreThread(state);
  if (error) return fail(error);
  Py_RETURN_NONE;
}

PyDoc_STRVAR(tokens_memory_words,
             "ranked_tokens_memory(tensors, ranks, device)\n\n"
             "The bytes of exchange memory that each rank has at least for such an exchange.");
static PyObject* ext_ranked_tokens_memory(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  if (count != 3) return fail("ranked_tokens_memory() takes another number of arguments");
  ranked_tokens r;
  PyObject* dispatches = PyLong_FromLong(0);
  (void)self;
  const bool is_read = dispatches && read_ranked_tokens(&r, args[0], args[1], dispatches);
  Py_XDECREF(dispatches);
  if (!is_read) return NULL;
  const long device = PyLong_AsLong(args[2]);
  if (PyErr_Occurred()) return NULL;
  size_t bytes = 0;
  PyThreadState* state = PyEval_SaveThread();
  const char* error = host_ranked_tokens_memory((int)device, &r.call, &bytes);
  PyEval_RestoreThread(state);
  return error ? fail(error) : PyLong_FromSize_t(bytes);
}

PyMethodDef ranks_methods[] = {
    {"ranked", (PyCFunction)(void (*)(void))ext_ranked, METH_FASTCALL, ranked_words},
    {"ranked_memory", (PyCFunction)(void (*)(void))ext_ranked_memory, METH_FASTCALL, memory_words},
    {"ranked_norm", (PyCFunction)(void (*)(void))ext_ranked_norm, METH_FASTCALL, norm_words},
    {"ranked_norm_memory", (PyCFunction)(void (*)(void))ext_ranked_norm_memory, METH_FASTCALL,
     norm_memory_words},
    {"ranked_tokens", (PyCFunction)(void (*)(void))ext_ranked_tokens, METH_FASTCALL, tokens_words},
    {"ranked_tokens_memory", (PyCFunction)(void (*)(void))ext_ranked_tokens_memory, METH_FASTCALL,
     tokens_memory_words},
    {NULL, NULL, 0, NULL}};

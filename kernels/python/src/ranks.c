/* ptxbuilder._ext: this rank's part of a product of several ranks. */
#include "kernels/python/src/methods.h"

enum { MOST_RANKS = 64 };
typedef struct ranked {
  operand a, b, d;
  void* memory[MOST_RANKS];
  ptxb_ranked call;
} ranked;

/* `memory` is a tuple of the ranks' addresses, or how many ranks there are. */
static bool read_ranked(ranked* r, PyObject* a, PyObject* b, PyObject* d, PyObject* memory,
                        PyObject* scatters) {
  const ptxb_ranked init = PTXB_RANKED_INIT;
  r->call = init;
  if (!read_tensor(a, &r->a, "A") || !read_tensor(b, &r->b, "B") || !read_tensor(d, &r->d, "D")) return false;
  r->call.a = &r->a.tensor, r->call.b = &r->b.tensor, r->call.d = &r->d.tensor;
  r->call.scatters = PyObject_IsTrue(scatters);
  if (!PyTuple_Check(memory)) {
    r->call.ranks = (int32_t)PyLong_AsLong(memory);
    return !PyErr_Occurred();
  }
  const Py_ssize_t ranks = PyTuple_Size(memory);
  if (ranks > MOST_RANKS) return fail("more than 64 ranks");
  r->call.ranks = (int32_t)ranks, r->call.memory = r->memory;
  for (Py_ssize_t i = 0; i < ranks; ++i) r->memory[i] = PyLong_AsVoidPtr(PyTuple_GetItem(memory, i));
  return !PyErr_Occurred();
}

PyDoc_STRVAR(
    ranked_words,
    "ranked(a, b, d, memory, bytes, rank, scatters, device, stream)\n\n"
    "Queues this rank's part of a product: `memory` is a tuple of the addresses of all ranks' exchange "
    "memory, each of so many bytes.");
static PyObject* ext_ranked(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (count != 9) return fail("ranked() takes another number of arguments");
  ranked r;
  target to;
  if (!read_ranked(&r, args[0], args[1], args[2], args[3], args[6])) return NULL;
  r.call.memory_bytes = PyLong_AsSize_t(args[4]);
  r.call.rank = (int32_t)PyLong_AsLong(args[5]);
  if (PyErr_Occurred() || !choose_target(args[7], args[8], &r.a, "A", &to)) return NULL;
  if (to.is_staged) return fail("a product of ranks takes tensors on GPUs");
  PyThreadState* state = PyEval_SaveThread();
  const char* error = host_ranked(to.device, &r.call, to.stream);
  PyEval_RestoreThread(state);
  if (error) return fail(error);
  Py_RETURN_NONE;
}

PyDoc_STRVAR(memory_words,
             "ranked_memory(a, b, d, ranks, scatters, device)\n\n"
             "The bytes of exchange memory that each rank has for such a product.");
static PyObject* ext_ranked_memory(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  if (count != 6) return fail("ranked_memory() takes another number of arguments");
  ranked r;
  if (!read_ranked(&r, args[0], args[1], args[2], args[3], args[4])) return NULL;
  const long device = PyLong_AsLong(args[5]);
  if (PyErr_Occurred()) return NULL;
  size_t bytes = 0;
  PyThreadState* state = PyEval_SaveThread();
  const char* error = host_ranked_memory((int)device, &r.call, &bytes);
  PyEval_RestoreThread(state);
  return error ? fail(error) : PyLong_FromSize_t(bytes);
}

PyMethodDef ranks_methods[] = {
    {"ranked", (PyCFunction)(void (*)(void))ext_ranked, METH_FASTCALL, ranked_words},
    {"ranked_memory", (PyCFunction)(void (*)(void))ext_ranked_memory, METH_FASTCALL, memory_words},
    {NULL, NULL, 0, NULL}};

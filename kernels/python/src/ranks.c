/* ptxbuilder._ext: this rank's part of a product, a norm or a token exchange of several ranks. */
#include <stdlib.h>
#include <string.h>

#include "kernels/python/src/eager.h"
#include "kernels/python/src/methods.h"

enum { MOST_RANKS = 64 };

/* ---- Exchange memory ---- */

/* The exchange memory of all ranks of a group, for calls of one kind on one stream. It is never removed. */
enum { PRODUCTS, NORMS, TOKENS };
typedef struct room {
  PyObject* group;
  int device;
  void* stream;
  long use;
  int32_t ranks, rank;
  size_t bytes;
  void* memory[MOST_RANKS];
  struct room* next;
} room;
static room* rooms;

/* The stream of a device's most recent calls. A call on another stream first waits for that stream, in
 * ptxbuilder/_torch/ranks.py. */
static struct {
  bool is_known;
  void* stream;
} last[MOST_GPUS];

static room* room_of(PyObject* group, long device, void* stream, long use) {
  room* r = rooms;
  while (r && (r->group != group || r->device != device || r->stream != stream || r->use != use)) r = r->next;
  return r;
}

PyDoc_STRVAR(
    follow_words,
    "follow_stream(device, stream)\n\nCalls of ranks on this stream follow the device's last ones from "
    "now on, and those on another wait.");
static PyObject* ext_follow_stream(PyObject* self, PyObject* args) {
  (void)self;
  int device;
  unsigned long long stream;
  if (!PyArg_ParseTuple(args, "iK", &device, &stream)) return NULL;
  if (device < 0 || device >= MOST_GPUS) return fail("follow_stream() takes the number of a GPU");
  last[device].is_known = true, last[device].stream = (void*)(uintptr_t)stream;
  Py_RETURN_NONE;
}

PyDoc_STRVAR(
    keep_words,
    "keep_exchange(group, device, stream, use, memory, bytes, rank)\n\n"
    "Keeps the exchange memory of calls on this stream: `use` is 0 for products, 1 for norms and 2 for "
    "tokens, and `memory` is a tuple of the addresses of all ranks' memory, each of so many bytes.");
static PyObject* ext_keep_exchange(PyObject* self, PyObject* args) {
  (void)self;
  PyObject *group, *memory;
  int device, rank;
  unsigned long long stream;
  long use;
  Py_ssize_t bytes;
  if (!PyArg_ParseTuple(args, "OiKlO!ni", &group, &device, &stream, &use, &PyTuple_Type, &memory, &bytes,
                        &rank))
    return NULL;
  const Py_ssize_t ranks = PyTuple_Size(memory);
  if (ranks > MOST_RANKS) return fail("more than 64 ranks");
  room made = {group,  device, (void*)(uintptr_t)stream, use, (int32_t)ranks, rank, (size_t)bytes,
               {NULL}, NULL};
  for (Py_ssize_t i = 0; i < ranks; ++i) made.memory[i] = PyLong_AsVoidPtr(PyTuple_GetItem(memory, i));
  if (PyErr_Occurred()) return NULL;
  room* known = room_of(group, device, made.stream, use);
  if (!known) {
    if (!(known = malloc(sizeof *known))) return PyErr_NoMemory();
    Py_INCREF(group);
    made.next = rooms, rooms = known;
  } else {
    made.next = known->next;
  }
  *known = made;
  Py_RETURN_NONE;
}

/* ---- Calls ---- */

/* The caller's position. ABOVE means above PyTorch's dispatcher, and BELOW means below it, after PyTorch has
 * processed the call. At both positions, calls that Python must prepare first return NotImplemented. READY
 * means that the call has been prepared, so an error raises an exception. */
enum { ABOVE, BELOW, READY };

/* The last arguments of a call, which all kinds of calls have in common, and the place where the call runs.
 */
typedef struct place {
  int32_t multiprocessors;
  long way;
  target to;
  room of; /* a copy, because other threads may make calls while Python's lock is released */
} place;

/* Reads `args`, which are multiprocessors, the group and the caller's position. Returns whether the call can
 * continue. */
static bool begin(PyObject* const* tensors, int count, PyObject* const* args, place* p) {
  p->way = PyLong_AsLong(args[2]);
  p->multiprocessors = (int32_t)PyLong_AsLong(args[0]);
  if (PyErr_Occurred()) return false;
  return p->way == READY || (are_plain(tensors, count) && PyLong_CheckExact(args[0]) &&
                             (p->way == BELOW || !is_noticed(tensors, count)));
}

/* Finds the exchange memory for a call. The call runs on the current stream of its first tensor. */
static bool find_room(const operand* first, const char* name, PyObject* group, long use, place* p) {
  if (!first->api) return fail("a call of ranks needs tensors of a framework");
  if (!choose_target(Py_None, Py_None, first, name, &p->to)) return false;
  const int device = p->to.device;
  const bool follows =
      device >= 0 && device < MOST_GPUS && last[device].is_known && last[device].stream == p->to.stream;
  const room* found = follows || p->way == READY ? room_of(group, device, p->to.stream, use) : NULL;
  if (!found) return fail("there is no exchange memory for this call");
  p->of = *found;
  return true;
}

/* Returns the result of a call that has failed, which is NULL with an exception for READY, and otherwise
 * NotImplemented. */
static PyObject* refused(const place* p) { return p->way == READY ? NULL : not_taken(); }

/* The results of a call. These tensors are converted to Python objects after the call has been queued. */
typedef struct results {
  managed_tensor* all[3];
  int count;
} results;

static const ptxb_tensor* add_result(results* r, const operand* like, ptxb_dtype type, int32_t ndim,
                                     int64_t* shape) {
  managed_tensor* made = allocate(like, type, ndim, shape);
  if (!made) return NULL;
  r->all[r->count++] = made;
  return &made->tensor;
}

/* Returns the result, or a tuple if there are several results. If there is an error or an exception, returns
 * refused(). */
static PyObject* end(results* r, const operand* like, const char* error, const place* p) {
  if (error) fail(error);
  if (PyErr_Occurred()) {
    for (int i = 0; i < r->count; ++i) r->all[i]->deleter(r->all[i]);
    return refused(p);
  }
  void* objects[3] = {NULL};
  bool are_made = true;
  for (int i = 0; i < r->count; ++i) are_made &= !like->api->object_of(r->all[i], &objects[i]);
  if (are_made && r->count == 1) return objects[0];
  PyObject* tuple = are_made ? PyTuple_New(r->count) : NULL;
  for (int i = 0; i < r->count; ++i) {
    if (tuple)
      PyTuple_SetItem(tuple, i, objects[i]);
    else
      Py_XDECREF((PyObject*)objects[i]);
  }
  return tuple;
}

/* Queues a call of any of the three kinds without Python's lock. The value of the macro is the call's
 * error. */
#define QUEUE(error, function, call, p)                                \
  call.memory = p.of.memory, call.memory_bytes = p.of.bytes;           \
  call.ranks = p.of.ranks, call.rank = p.of.rank;                      \
  call.multiprocessors = p.multiprocessors;                            \
  PyThreadState* const state = PyEval_SaveThread();                    \
  const char* const error = function(p.to.device, &call, p.to.stream); \
  PyEval_RestoreThread(state)

PyDoc_STRVAR(
    ranked_words,
    "ranked(a, b, gathered, scale, out_dtype, scatters, multiprocessors, group, way)\n\n"
    "Queues this rank's part of a product of A and B, and gives D. `gathered`, where all ranks' A is kept, "
    "and the scale may be None; `scatters` is 0, 1 or 2, as that of ptxb_ranked. The memory is the one "
    "that keep_exchange() has got. `way` is 0 for a caller above PyTorch's dispatcher and 1 for one below "
    "it, which get NotImplemented for all that Python has to prepare, and 2 where it has done so.");
static PyObject* ext_ranked(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  enum { A, B, GATHERED, SCALE, TENSORS, OUT_DTYPE = TENSORS, SCATTERS, REST, ALL = REST + 3 };
  if (count != ALL)
    return PyErr_Format(PyExc_ValueError, "ranked() takes %d arguments, but %zd were given", ALL, count);
  place p;
  operand a, b, gathered, scale;
  ptxb_ranked call = PTXB_RANKED_INIT;
  ptxb_dtype type;
  if (!begin(args, TENSORS, args + REST, &p)) return refused(&p);
  call.scatters = (int32_t)PyLong_AsLong(args[SCATTERS]);
  if (PyErr_Occurred() || !read_tensor(args[A], &a, "A") || !read_tensor(args[B], &b, "B") ||
      !read_optional(args[GATHERED], &gathered, "gathered", &call.gathered) ||
      !read_optional(args[SCALE], &scale, "scale", &call.scale))
    return refused(&p);
  if (a.tensor.ndim != 2 || b.tensor.ndim != 2 || !result_type(args[OUT_DTYPE], a.tensor.dtype, &type)) {
    fail("a product of ranks is of two matrices, of one of its types");
    return refused(&p);
  }
  if (!swap_dimensions(&b, "B", 0, 1) || !find_room(&a, "A", args[REST + 1], PRODUCTS, &p))
    return refused(&p);
  const int64_t rows = a.tensor.shape[0], ranks = p.of.ranks;
  int64_t shape[] = {call.scatters == 0   ? rows * ranks
                     : call.scatters == 1 ? rows / ranks
                                          : rows,
                     b.tensor.shape[0]};
  results made = {{NULL}, 0};
  call.a = &a.tensor, call.b = &b.tensor, call.d = add_result(&made, &a, type, 2, shape);
  if (!call.d) return end(&made, &a, NULL, &p);
  QUEUE(error, host_ranked, call, p);
  return end(&made, &a, error, &p);
}

PyDoc_STRVAR(
    norm_words,
    "ranked_norm(x, residual, weight, epsilon, multiprocessors, group, way)\n\n"
    "Queues this rank's part of an all-reduce with a norm, like ranked(), and gives y and new_residual.");
static PyObject* ext_ranked_norm(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  enum { X, RESIDUAL, WEIGHT, TENSORS, EPSILON = TENSORS, REST, ALL = REST + 3 };
  if (count != ALL)
    return PyErr_Format(PyExc_ValueError, "ranked_norm() takes %d arguments, but %zd were given", ALL, count);
  place p;
  operand x, residual, weight;
  ptxb_ranked_norm call = PTXB_RANKED_NORM_INIT;
  if (!begin(args, TENSORS, args + REST, &p)) return refused(&p);
  if (!PyFloat_CheckExact(args[EPSILON])) return not_taken();
  call.epsilon = (float)PyFloat_AsDouble(args[EPSILON]);
  if (!read_tensor(args[X], &x, "x") ||
      !read_optional(args[RESIDUAL], &residual, "residual", &call.residual) ||
      !read_optional(args[WEIGHT], &weight, "weight", &call.weight) ||
      !find_room(&x, "x", args[REST + 1], NORMS, &p))
    return refused(&p);
  int64_t shape[MOST_RANK];
  results made = {{NULL}, 0};
  if (x.tensor.ndim > MOST_RANK) return fail("x: it has more than 8 dimensions"), refused(&p);
  memcpy(shape, x.tensor.shape, sizeof(int64_t) * (size_t)x.tensor.ndim);
  call.x = &x.tensor, call.y = add_result(&made, &x, x.tensor.dtype, x.tensor.ndim, shape);
  call.new_residual = call.y ? add_result(&made, &x, x.tensor.dtype, x.tensor.ndim, shape) : NULL;
  if (!call.new_residual) return end(&made, &x, NULL, &p);
  QUEUE(error, host_ranked_norm, call, p);
  return end(&made, &x, error, &p);
}

PyDoc_STRVAR(
    dispatch_words,
    "ranked_dispatch(x, ends, most_rows, multiprocessors, group, way)\n\n"
    "Queues this rank's part of a dispatch of tokens, like ranked(), and gives the rows that come, the "
    "ends of each expert's rows, and the splits.");
static PyObject* ext_ranked_dispatch(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  enum { X, ENDS, TENSORS, MOST_ROWS = TENSORS, REST, ALL = REST + 3 };
  if (count != ALL)
    return PyErr_Format(PyExc_ValueError, "ranked_dispatch() takes %d arguments, but %zd were given", ALL,
                        count);
  place p;
  operand x, ends;
  ptxb_ranked_tokens call = PTXB_RANKED_TOKENS_INIT;
  if (!begin(args, TENSORS, args + REST, &p)) return refused(&p);
  const int64_t most_rows = PyLong_AsLongLong(args[MOST_ROWS]);
  if (PyErr_Occurred() || !read_tensor(args[X], &x, "x") || !read_tensor(args[ENDS], &ends, "ends") ||
      !find_room(&x, "x", args[REST + 1], TOKENS, &p))
    return refused(&p);
  const int64_t ranks = p.of.ranks;
  if (x.tensor.ndim != 2 || ends.tensor.ndim != 1 || ends.tensor.shape[0] % ranks != 0 || most_rows < 0)
    return fail("a dispatch takes a matrix, and an end for each expert, as many of each rank"), refused(&p);
  int64_t of_grouped[] = {ranks * most_rows, x.tensor.shape[1]},
          of_splits[] = {ranks, ends.tensor.shape[0] / ranks};
  results made = {{NULL}, 0};
  call.sorted = &x.tensor, call.ends = &ends.tensor;
  call.grouped = add_result(&made, &x, x.tensor.dtype, 2, of_grouped);
  call.grouped_ends = call.grouped ? add_result(&made, &x, ends.tensor.dtype, 1, of_splits + 1) : NULL;
  call.splits = call.grouped_ends ? add_result(&made, &x, ends.tensor.dtype, 2, of_splits) : NULL;
  if (!call.splits) return end(&made, &x, NULL, &p);
  QUEUE(error, host_ranked_tokens, call, p);
  return end(&made, &x, error, &p);
}

PyDoc_STRVAR(combine_words,
             "ranked_combine(rows, ends, splits, x, multiprocessors, group, way)\n\n"
             "Queues this rank's part of a combine of tokens, like ranked(), which writes x, and gives x.");
static PyObject* ext_ranked_combine(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  enum { GROUPED, ENDS, SPLITS, X, TENSORS, REST = TENSORS, ALL = REST + 3 };
  if (count != ALL)
    return PyErr_Format(PyExc_ValueError, "ranked_combine() takes %d arguments, but %zd were given", ALL,
                        count);
  place p;
  operand rows, ends, splits, x;
  ptxb_ranked_tokens call = PTXB_RANKED_TOKENS_INIT;
  if (!begin(args, TENSORS, args + REST, &p)) return refused(&p);
  if (!read_tensor(args[GROUPED], &rows, "rows") || !read_tensor(args[ENDS], &ends, "ends") ||
      !read_tensor(args[SPLITS], &splits, "splits") || !read_tensor(args[X], &x, "x") ||
      !find_room(&rows, "rows", args[REST + 1], TOKENS, &p))
    return refused(&p);
  call.sorted = &x.tensor, call.ends = &ends.tensor, call.grouped = &rows.tensor,
  call.splits = &splits.tensor;
  call.combines = 1;
  QUEUE(error, host_ranked_tokens, call, p);
  if (error) return fail(error), refused(&p);
  Py_INCREF(args[X]);
  return args[X];
}

/* ---- The size of the exchange memory ---- */

/* Tensors without memory, which Python passes as tuples for read_tensor(). */
typedef struct shapes {
  operand all[5];
  const ptxb_tensor* given[5];
} shapes;

static bool read_shapes(PyObject* tensors, shapes* s) {
  if (!PyTuple_Check(tensors) || PyTuple_Size(tensors) != 5) return fail("a call of ranks has five tensors");
  for (int i = 0; i < 5; ++i)
    if (!read_optional(PyTuple_GetItem(tensors, i), &s->all[i], "a tensor", &s->given[i])) return false;
  return true;
}

/* Returns the number of bytes that `function` computes for the call, or raises its error. */
#define BYTES_OF(function, call, device)                            \
  do {                                                              \
    const long number = PyLong_AsLong(device);                      \
    if (PyErr_Occurred()) return NULL;                              \
    size_t bytes = 0;                                               \
    PyThreadState* const state = PyEval_SaveThread();               \
    const char* const error = function((int)number, &call, &bytes); \
    PyEval_RestoreThread(state);                                    \
    return error ? fail(error) : PyLong_FromSize_t(bytes);          \
  } while (false)

PyDoc_STRVAR(memory_words,
             "ranked_memory(tensors, ranks, scatters, device)\n\n"
             "The bytes of exchange memory that each rank has for a product of (A, B, D, gathered, scale).");
static PyObject* ext_ranked_memory(PyObject* self, PyObject* args) {
  (void)self;
  PyObject *tensors, *device;
  shapes s;
  ptxb_ranked call = PTXB_RANKED_INIT;
  if (!PyArg_ParseTuple(args, "OiiO", &tensors, &call.ranks, &call.scatters, &device) ||
      !read_shapes(tensors, &s))
    return NULL;
  call.a = s.given[0], call.b = s.given[1], call.d = s.given[2], call.gathered = s.given[3],
  call.scale = s.given[4];
  BYTES_OF(host_ranked_memory, call, device);
}

PyDoc_STRVAR(norm_memory_words,
             "ranked_norm_memory(tensors, ranks, device)\n\n"
             "The bytes that each rank has at least for a norm of (x, residual, weight, y, new_residual).");
static PyObject* ext_ranked_norm_memory(PyObject* self, PyObject* args) {
  (void)self;
  PyObject *tensors, *device;
  shapes s;
  ptxb_ranked_norm call = PTXB_RANKED_NORM_INIT;
  if (!PyArg_ParseTuple(args, "OiO", &tensors, &call.ranks, &device) || !read_shapes(tensors, &s))
    return NULL;
  call.x = s.given[0], call.residual = s.given[1], call.weight = s.given[2];
  call.y = s.given[3], call.new_residual = s.given[4];
  BYTES_OF(host_ranked_norm_memory, call, device);
}

PyDoc_STRVAR(tokens_memory_words,
             "ranked_tokens_memory(tensors, ranks, device)\n\n"
             "The bytes that each rank has at least for a dispatch of (sorted, ends, grouped, splits, "
             "grouped_ends), and for its combine.");
static PyObject* ext_ranked_tokens_memory(PyObject* self, PyObject* args) {
  (void)self;
  PyObject *tensors, *device;
  shapes s;
  ptxb_ranked_tokens call = PTXB_RANKED_TOKENS_INIT;
  if (!PyArg_ParseTuple(args, "OiO", &tensors, &call.ranks, &device) || !read_shapes(tensors, &s))
    return NULL;
  call.sorted = s.given[0], call.ends = s.given[1], call.grouped = s.given[2];
  call.splits = s.given[3], call.grouped_ends = s.given[4];
  BYTES_OF(host_ranked_tokens_memory, call, device);
}

PyMethodDef ranks_methods[] = {
    {"follow_stream", ext_follow_stream, METH_VARARGS, follow_words},
    {"keep_exchange", ext_keep_exchange, METH_VARARGS, keep_words},
    {"ranked", (PyCFunction)(void (*)(void))ext_ranked, METH_FASTCALL, ranked_words},
    {"ranked_norm", (PyCFunction)(void (*)(void))ext_ranked_norm, METH_FASTCALL, norm_words},
    {"ranked_dispatch", (PyCFunction)(void (*)(void))ext_ranked_dispatch, METH_FASTCALL, dispatch_words},
    {"ranked_combine", (PyCFunction)(void (*)(void))ext_ranked_combine, METH_FASTCALL, combine_words},
    {"ranked_memory", ext_ranked_memory, METH_VARARGS, memory_words},
    {"ranked_norm_memory", ext_ranked_norm_memory, METH_VARARGS, norm_memory_words},
    {"ranked_tokens_memory", ext_ranked_tokens_memory, METH_VARARGS, tokens_memory_words},
    {NULL, NULL, 0, NULL}};

/* ptxbuilder._ext: matrix products. */
#include <string.h>

#include "kernels/python/src/methods.h"

static int64_t elements_of(const ptxb_tensor* t) {
  int64_t count = 1;
  for (int i = 0; i < t->ndim; ++i) count *= t->shape[i];
  return count;
}

/* Reads the operands. A factor with one element becomes alpha_in_memory if that operand is not given. */
static bool read_operands(product* p, PyObject* const* given) {
  ptxb_matmul* m = &p->call.matmul;
  for (int i = 0; i < OPERANDS; ++i) {
    if (given[i] == Py_None) continue; /* the usual case */
    const operand_row* row = &operand_rows[i];
    const ptxb_tensor** const place = place_of(m, i);
    if (!read_optional(given[i], &p->operands[i], row->label, place)) return false;
    if (row->role_is == ROLE_greatest && p->operands[i].is_read_only) {
      PyErr_Format(PyExc_ValueError, "%s: it is read-only", row->label);
      return false;
    }
    if (row->role_is == ROLE_factor && row->shape_is != SHAPE_one && !m->alpha_in_memory &&
        elements_of(*place) == 1)
      m->alpha_in_memory = *place, *place = NULL;
  }
  if (m->inputs && m->use == PTXB_VALUE) m->use = PTXB_SLOPE; /* so that the library rejects the inputs */
  return true;
}

static bool read_product(product* p, PyObject* const* operands, const product_numbers* numbers) {
  static const ptxb_matmul init = PTXB_MATMUL_INIT;
  ptxb_matmul* m = &p->call.matmul;
  const long flags = numbers->flags;
  p->call.kind = MATMUL;
  memcpy(m, &init, sizeof init); /* for an assignment, gcc emits `rep stos`, which takes 15 ns to start */
  m->alpha = (float)numbers->alpha, m->beta = (float)numbers->beta;
  m->activation = (int32_t)numbers->activation;
  m->tf32 = !!(flags & TF32), m->precise = !!(flags & PRECISE), m->packed_form = flags >> PACKED_FORM;
  m->a = &p->a.tensor, m->b = &p->b.tensor, m->d = &p->d.tensor;
  m->use = flags & GATE ? PTXB_GATE : PTXB_VALUE;
  return read_operands(p, operands) &&
         (!(flags & TRANSPOSE_A) ||
          swap_dimensions(&p->a, "A", p->a.tensor.ndim - 2, p->a.tensor.ndim - 1)) &&
         (!(flags & TRANSPOSE_B) || swap_dimensions(&p->b, "B", p->b.tensor.ndim - 2, p->b.tensor.ndim - 1));
}

static bool read_numbers(PyObject* const* args, product_numbers* to) {
  to->alpha = PyFloat_AsDouble(args[0]), to->beta = PyFloat_AsDouble(args[1]);
  to->activation = PyLong_AsLong(args[2]), to->flags = PyLong_AsLong(args[3]);
  return !PyErr_Occurred();
}

/* If the rows of all batches are evenly spaced, turns them into rows of one matrix and returns true. */
static bool fold_batches(operand* o) {
  ptxb_tensor* t = &o->tensor;
  int64_t compact = 1, rows = 1, apart = 0;
  for (int i = t->ndim; i-- > 0;) {
    const int64_t extent = t->shape[i], stride = t->strides ? t->strides[i] : compact;
    compact *= extent;
    if (i == t->ndim - 1) {
      o->shape[1] = extent, o->strides[1] = stride;
    } else if (rows == 1) {
      rows = extent, apart = stride;
    } else if (extent == 1 || stride == rows * apart) {
      rows *= extent;
    } else {
      return false;
    }
  }
  o->shape[0] = rows, o->strides[0] = apart;
  t->ndim = 2, t->shape = o->shape, t->strides = o->strides;
  return true;
}

/* Merges the dimensions of an operand with a number for each row of A, in all batches, into one dimension.
 * Returns false if the memory layout does not allow this. */
static bool fold_rows(operand* o, const operand* a) {
  ptxb_tensor* t = &o->tensor;
  const int rows = a->tensor.ndim - 1;
  int64_t compact = 1;
  if ((t->ndim != rows && (t->ndim != rows + 1 || t->shape[rows] != 1)) ||
      memcmp(t->shape, a->tensor.shape, sizeof(int64_t) * (size_t)rows) != 0)
    return false;
  for (int i = rows; i-- > 0;) {
    if (t->strides && t->shape[i] > 1 && t->strides[i] != compact) return false;
    compact *= t->shape[i];
  }
  o->shape[0] = compact;
  t->ndim = 1, t->shape = o->shape, t->strides = NULL;
  return true;
}

static bool check_all_staged(const product* p, PyObject* const* operands) {
  for (int i = 0; i < OPERANDS; ++i)
    if (operands[i] != Py_None && !check_staged(&p->operands[i], operand_rows[i].label)) return false;
  return check_staged(&p->b, "B") && check_staged(&p->d, "D");
}

/* Returns whether groups divide k. */
static bool groups_k(const product* p) {
  return p->call.matmul.group_ends && !p->call.matmul.b_addresses && p->a.tensor.ndim == 2 &&
         p->b.tensor.ndim == 2;
}
static bool has_groups(PyObject* const* operands) {
  return operands[OPERAND_group_ends] != Py_None || operands[OPERAND_group_counts] != Py_None;
}

/* Returns a new D. Its shape is derived from A and B, including batches, gathered rows and groups of k. */
static managed_tensor* allocate_result(product* p, ptxb_dtype type) {
  if (!p->a.api) {
    fail("D: it must be given for a product of tuples");
    return NULL;
  }
  int32_t ndim = p->a.tensor.ndim;
  int64_t shape[MOST_RANK];
  if (groups_k(p))
    shape[0] = elements_of(&p->operands[OPERAND_group_ends].tensor), shape[1] = p->a.tensor.shape[0],
    ndim = 3;
  else
    memcpy(shape, p->a.tensor.shape, sizeof(int64_t) * (size_t)ndim);
  if (p->call.matmul.a_rows) shape[ndim - 2] = elements_of(p->call.matmul.a_rows);
  shape[ndim - 1] = p->b.tensor.shape[p->b.tensor.ndim - 1] / (p->call.matmul.use == PTXB_GATE ? 2 : 1);
  managed_tensor* made = allocate(&p->a, type, ndim, shape);
  if (made) p->d.tensor = made->tensor, p->d.api = p->a.api;
  return made;
}

/* Returns whether the library supports the shapes of the product. A and B must be matrices or have the same
 * number of batches; with groups, they must have the shapes that groups need. If all batches of A share a
 * matrix B, the batches are merged, so that A is a matrix with more rows. */
static bool is_taken(product* p, const operand* d, bool is_grouped) {
  const int32_t ndim = p->a.tensor.ndim;
  if (is_grouped) return ndim == 2 && (p->b.tensor.ndim == 2 || p->b.tensor.ndim == 3);
  if (ndim < 2 || ndim > MOST_RANK || (d && d->tensor.ndim != ndim)) return false;
  if (p->b.tensor.ndim == ndim) return ndim <= 3;
  return p->b.tensor.ndim == 2 && ndim > 2;
}
static bool has_batches_of(const operand* a, const operand* o) {
  const ptxb_tensor *s = &a->tensor, *t = &o->tensor;
  return s->ndim == t->ndim && !memcmp(s->shape, t->shape, sizeof(int64_t) * (size_t)(s->ndim - 1));
}
static bool fold_all(product* p) {
  ptxb_matmul* m = &p->call.matmul;
  if (p->a.tensor.ndim == p->b.tensor.ndim || m->group_ends || m->group_counts) return true;
  if (!has_batches_of(&p->a, &p->d)) return false;
  for (int i = 0; i < OPERANDS; ++i) {
    operand* o = &p->operands[i];
    const int shape = operand_rows[i].shape_is;
    if (!*place_of(m, i)) continue;
    if (shape == SHAPE_elements && !(has_batches_of(&p->a, o) && fold_batches(o))) return false;
    if (shape == SHAPE_rows && !fold_rows(o, &p->a)) return false;
    if (shape == SHAPE_rows_by_k || shape == SHAPE_row_blocks)
      return false; /* these operands would be used for every batch */
  }
  return fold_batches(&p->a) && fold_batches(&p->d);
}

PyObject* not_taken(void) {
  PyErr_Clear();
  Py_INCREF(Py_NotImplemented);
  return Py_NotImplemented;
}

PyObject* run_product(product* p, PyObject* out, PyObject* const* operands, const product_numbers* numbers,
                      ptxb_dtype type, PyObject* device, PyObject* stream) {
  p->d.is_read_only = false;
  if (out != Py_None && !read_tensor(out, &p->d, "D")) return NULL;
  if (p->d.is_read_only) return fail("D: it is read-only");
  if (!is_taken(p, out == Py_None ? NULL : &p->d, has_groups(operands))) return not_taken();
  target to;
  if (!read_product(p, operands, numbers) || !choose_target(device, stream, &p->a, "A", &to)) return NULL;
  managed_tensor* made = NULL;
  if (out == Py_None && !(made = allocate_result(p, type))) return NULL;
  const bool is_folded = fold_all(p);
  if (!is_folded || (to.is_staged && !check_all_staged(p, operands)) ||
      !run_operation(&p->call, &p->a, &to)) {
    if (made) made->deleter(made);
    return is_folded ? NULL : not_taken();
  }
  for (int i = 0; i < OPERANDS; ++i)
    if (operands[i] != Py_None && operand_rows[i].role_is == ROLE_greatest &&
        !note_written(operands[i], &p->operands[i]))
      return NULL;
  if (!made) {
    if (!note_written(out, &p->d)) return NULL;
    Py_INCREF(out);
    return out;
  }
  void* object = NULL;
  return p->a.api->object_of(made, &object) ? NULL : object;
}

PyDoc_STRVAR(product_words,
             "product(a, b, out, alpha, beta, activation, flags, out_code, device, stream, *operands)\n\n"
             "Queues one product, and returns `out` or, if that is None, a new tensor of the type "
             "`out_code`, which is 256 times DLPack's code plus the bits. `operands` are those of OPERANDS, "
             "or None. Returns NotImplemented unless both have the same batches, or only A has any.");
static PyObject* ext_product(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  enum { COUNT = 10 };
  if (count != COUNT + OPERANDS) return fail("product() needs 10 arguments and all operands");
  product p;
  product_numbers numbers;
  const long code = PyLong_AsLong(args[7]);
  const ptxb_dtype type = {(uint8_t)(code >> 8), (uint8_t)code, 1};
  if (!read_numbers(args + 3, &numbers) || !read_tensor(args[0], &p.a, "A") ||
      !read_tensor(args[1], &p.b, "B"))
    return NULL;
  return run_product(&p, args[2], args + COUNT, &numbers, type, args[8], args[9]);
}

PyDoc_STRVAR(
    workspace_words,
    "product_workspace(device, a, b, d, alpha, beta, activation, flags, *operands)\n\n"
    "Checks a product, compiles its kernel, and returns the bytes of its workspace. Memory is not touched.");
static PyObject* ext_product_workspace(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  enum { COUNT = 8 };
  if (count != COUNT + OPERANDS) return fail("product_workspace() needs 8 arguments and all operands");
  product p;
  product_numbers numbers;
  if (!read_numbers(args + 4, &numbers) || !read_tensor(args[1], &p.a, "A") ||
      !read_tensor(args[2], &p.b, "B") || !read_tensor(args[3], &p.d, "D") ||
      !read_product(&p, args + COUNT, &numbers))
    return NULL;
  return workspace_bytes(args[0], &p.call);
}

PyMethodDef product_methods[] = {
    {"product", (PyCFunction)(void (*)(void))ext_product, METH_FASTCALL, product_words},
    {"product_workspace", (PyCFunction)(void (*)(void))ext_product_workspace, METH_FASTCALL, workspace_words},
    {NULL, NULL, 0, NULL}};

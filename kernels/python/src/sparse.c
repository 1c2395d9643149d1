/* ptxbuilder._ext: matrices that store two of every four elements. */
#include "kernels/python/src/methods.h"

/* Three matrices without gaps in host memory, which are the dense matrix, its values and its metadata. */
typedef struct sparse {
  operand dense, values, metadata;
} sparse;

static void* data_of(const operand* o) { return (char*)o->tensor.data + o->tensor.byte_offset; }

static bool read_sparse(sparse* s, PyObject* const* args, Py_ssize_t count) {
  if (count != 3) return fail("a sparse matrix needs a dense one, values and metadata");
  return read_tensor(args[0], &s->dense, "the matrix") && read_tensor(args[1], &s->values, "values") &&
         read_tensor(args[2], &s->metadata, "metadata");
}
static PyObject* result_of(int status) {
  if (status) return fail(ptxb_error());
  Py_RETURN_NONE;
}

PyDoc_STRVAR(compress_words,
             "compress_2_4(dense, values, metadata)\n\n"
             "Fills values and metadata with those of the dense matrix.");
static PyObject* ext_compress(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  sparse s;
  if (!read_sparse(&s, args, count)) return NULL;
  const ptxb_tensor* t = &s.dense.tensor;
  return result_of(ptxb_compress_2_4(t->dtype, data_of(&s.dense), t->shape[0], t->shape[1], 0,
                                     data_of(&s.values), data_of(&s.metadata)));
}

PyDoc_STRVAR(decompress_words,
             "decompress_2_4(dense, values, metadata)\n\n"
             "Fills the dense matrix from values and metadata.");
static PyObject* ext_decompress(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  sparse s;
  if (!read_sparse(&s, args, count)) return NULL;
  const ptxb_tensor* t = &s.dense.tensor;
  return result_of(ptxb_decompress_2_4(t->dtype, data_of(&s.values), data_of(&s.metadata), t->shape[0],
                                       t->shape[1], data_of(&s.dense)));
}

PyMethodDef sparse_methods[] = {
    {"compress_2_4", (PyCFunction)(void (*)(void))ext_compress, METH_FASTCALL, compress_words},
    {"decompress_2_4", (PyCFunction)(void (*)(void))ext_decompress, METH_FASTCALL, decompress_words},
    {NULL, NULL, 0, NULL}};

"""Operations on NumPy arrays, including arrays of ml_dtypes, on the emulator or on a GPU, to which arrays are copied."""
import sys

import numpy

from . import _attention, _convolution, _einsum, _packed, _product, _rows
from ._common import check_kind
from ._common import host_tensor as tensor

IS_ALLOCATED = False  # whether the extension can allocate results in the framework's memory
broadcast_shapes, broadcast_to, compact = numpy.broadcast_shapes, numpy.broadcast_to, numpy.ascontiguousarray
copy = numpy.array


def dtype_of(name):
    try:
        return numpy.dtype(name)
    except TypeError:
        import ml_dtypes

        return numpy.dtype(getattr(ml_dtypes, name))


def is_on_host(x):
    return True


def empty(like, shape, name):
    return numpy.empty(shape, dtype_of(name))


def strides_of(x):
    return x.strides


def element_strides_of(x):
    return tuple(stride // x.itemsize for stride in x.strides)


def permuted(x, axes):
    return x.transpose(axes)


def view(out, shape):
    result = out.view()
    try:
        result.shape = shape  # raises AttributeError instead of copying
    except AttributeError:
        raise ValueError(f"D: its batches, of shape {out.shape} and strides {out.strides} bytes, must follow each other without gaps")
    return result


def _check(required, **optional):
    check_kind(numpy.ndarray, "numpy", "numpy.asarray(x)", required, **optional)


def matmul(a, b, out, operands, options):
    operands, options = _product.alpha_as_given(operands, options, lambda x: not isinstance(x, numpy.generic))
    _check({"A": a, "B": b}, out=out, **_product.by_label(operands))
    for row, x in _product.with_role(operands, "greatest"):
        if not isinstance(x, numpy.ndarray):
            raise ValueError(f"{row.label}: it is written, but {type(x)} is not an array")
    operands = _product.Operands(*(x if x is None else numpy.asarray(x) for x in operands))
    return _product.run(_kit, a, numpy.asarray(b), out, operands, options)


def einsum(letters, a, b, out, words):
    _check({"A": a, "B": b}, out=out)
    # Copies arrays with negative strides, because tensor maps do not support them.
    a, b = (x if all(stride >= 0 for stride in x.strides) else compact(x) for x in (a, b))
    return _einsum.run(_kit, letters, a, b, out, words)


def sparse(make, *matrix):
    return make(_kit, *matrix)


def conv2d(x, w, bias, words):
    _check({"x": x, "w": w}, bias=bias)
    return _convolution.run(_kit, x, w, bias, words)


def packed_mm(a, b, bias, c, alpha, beta, activation, out, out_dtype, device, offs, a_rows):
    _check({"A": a, "B": b.data}, bias=bias, C=c, out=out, offs=offs, a_rows=a_rows)
    return _packed.run(_kit, a, b, bias, c, alpha, beta, activation, out, out_dtype, device, offs, a_rows)


class packed_kit:
    """The functions that packing uses. NumPy arrays are already in host memory."""
    check, on_host, tensor = staticmethod(_check), staticmethod(compact), staticmethod(tensor)

    @staticmethod
    def empty(shape, name):
        return numpy.empty(shape, dtype_of(name))

    @staticmethod
    def back(x, like):
        return x

    @staticmethod
    def floats(x):
        return x.astype(numpy.float32)


def attention(q, k, v, extras, numbers, return_lse, out, device):
    extras = _attention.seeded(extras, _attention.dropout_of(numbers), lambda words: numpy.array(words, numpy.int32))
    _check(_attention.operands_of(q, k, v), **extras._asdict(), out=out)
    return _attention.run(_kit, q, k, v, extras, numbers, return_lse, out, device)


def rows(operation, given, numbers, device, extents):
    required, optional = _rows.by_use(operation, given)
    _check(required, **optional)
    found = _rows.run(_kit, operation, given, numbers, _rows.wanted_of(operation, extents), device, extents=extents)
    return None if operation.updated else found if extents else found[0]


def call(kernel, grid, arguments, first, device):
    _check({f"parameter '{name}'": x for name, _, x in kernel.tensors(arguments)})
    arguments = kernel.with_outputs(arguments, lambda shape, name: empty(first, shape, name))
    kernel.run(grid, arguments, tensor, device)
    return kernel.results(arguments)


_kit = sys.modules[__name__]

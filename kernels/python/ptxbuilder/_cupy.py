"""CuPy arrays, on CuPy's current stream."""
import sys

import cupy

from . import _attention, _numpy, _product, _rows
from ._common import CODES, name_of
from ._numpy import dtype_of, view  # noqa: F401  view: run() uses it through the kit

IS_ALLOCATED = False  # whether the extension can allocate results in the framework's memory
broadcast_shapes, broadcast_to, compact = cupy.broadcast_shapes, cupy.broadcast_to, cupy.ascontiguousarray
copy = cupy.array


def tensor(x):
    strides = tuple(stride // x.dtype.itemsize for stride in x.strides) if x.size else None
    return (x.data.ptr, *CODES[name_of(x.dtype)], x.shape, strides, 2, x.device.id, False)


def is_on_host(x):
    return False


def empty(like, shape, name):
    with cupy.cuda.Device(like.device.id):
        return cupy.empty(shape, dtype_of(name))


def _stream():
    return cupy.cuda.get_current_stream().ptr


def matmul(a, b, out, operands, options):
    operands, options = _product.alpha_as_given(operands, options, lambda x: isinstance(x, cupy.ndarray))
    return _product.run(_kit, a, b, out, operands, options, _stream())


def sparse(make, *matrix):
    with cupy.cuda.Device(matrix[0].device.id):
        return tuple(map(cupy.asarray, make(_numpy, *map(cupy.asnumpy, matrix))))


def attention(q, k, v, extras, numbers, return_lse, out, device):
    extras = _attention.seeded(extras, _attention.dropout_of(numbers), lambda words: cupy.array(words, cupy.int32))
    return _attention.run(_kit, q, k, v, extras, numbers, return_lse, out, device, _stream())


def rows(operation, given, numbers, device, extents):
    found = _rows.run(_kit, operation, given, numbers, _rows.wanted_of(operation, extents), device, _stream(), extents)
    return None if operation.updated else found if extents else found[0]


def call(kernel, grid, arguments, first, device):
    arguments = kernel.with_outputs(arguments, lambda shape, name: empty(first, shape, name))
    kernel.run(grid, arguments, tensor, device, _stream())
    return kernel.results(arguments)


_kit = sys.modules[__name__]

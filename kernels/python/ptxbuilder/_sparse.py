"""Sparse matrices, which store two of every four elements along their rows, for the tensors of any framework."""
import math
from collections import namedtuple

from . import _ext
from ._common import CODES, door_of, name_of

GROUP, BLOCK, WORDS = 4, 64, 128  # elements of a group, two of them stored; rows and elements of a block; metadata words of a block


class SparseMatrix(namedtuple("SparseMatrix", "values, metadata")):
    """The elements that compress_2_4() stores, and metadata with their positions."""

    __slots__ = ()


def compress_2_4(x):
    """Compresses a matrix [.., rows, k] that has at least two zeros in every four elements along k. The result, a SparseMatrix, has
    `values` [.., rows, k/2], the elements that are stored, and `metadata`, int32 [.., k/64, 128 rows/64] with quotients rounded up, which
    holds their positions.

    matmul() accepts a SparseMatrix as A or, with `transpose_b`, as B; the tensor cores then take half the time. Elements are f16, bf16,
    8-bit floats or 8-bit integers, and k is a multiple of 4; -0 counts as zero. The work is done on the host. If a group has more than two
    nonzero elements, raises a ValueError that names its row and columns.
    """
    return SparseMatrix(*door_of(x).sparse(compressed, x))


def decompress_2_4(matrix):
    """Restores the dense matrix [.., rows, k]. If the metadata of a group is wrong, raises a ValueError that names the group's row and
    columns."""
    return door_of(matrix.values).sparse(decompressed, *matrix)[0]


def compressed(kit, x):
    """Returns the values and metadata of a matrix on the host, or of batches of matrices."""
    if x.ndim < 2 or name_of(x.dtype) not in CODES:
        raise ValueError(f"compress_2_4: x is {tuple(x.shape)} of {x.dtype}; it must be a matrix, or batches of matrices")
    *batch, rows, k = x.shape
    values = kit.empty(x, (*batch, rows, k // 2), name_of(x.dtype))
    metadata = kit.empty(x, (*batch, *metadata_shape(rows, k)), "int32")
    _each(_ext.compress_2_4, kit, kit.compact(x), values, metadata)
    return values, metadata


def decompressed(kit, values, metadata):
    """Returns a tuple with the dense matrix on the host."""
    *batch, rows, half = values.shape
    if tuple(metadata.shape) != (*batch, *metadata_shape(rows, 2 * half)) or name_of(metadata.dtype) != "int32":
        raise ValueError(f"metadata: {tuple(metadata.shape)} of {metadata.dtype}; with values {tuple(values.shape)} it must be "
                         f"{(*batch, *metadata_shape(rows, 2 * half))} of int32")
    dense = kit.empty(values, (*batch, rows, 2 * half), name_of(values.dtype))
    _each(_ext.decompress_2_4, kit, dense, kit.compact(values), kit.compact(metadata))
    return (dense,)


def metadata_shape(rows, k):
    return -(-k // BLOCK), -(-rows // BLOCK) * WORDS


def _each(call, kit, *tensors):
    count = math.prod(tensors[0].shape[:-2])
    for parts in zip(*(x.reshape(count, *x.shape[-2:]) for x in tensors)):
        call(*map(kit.tensor, parts))


def shares(operands):
    """Returns the ratios of the length of k to the number of elements that A and B store along k."""
    return 1 if operands.a_metadata is None else 2, 1 if operands.b_metadata is None else 2

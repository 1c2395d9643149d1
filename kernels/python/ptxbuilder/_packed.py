"""Packs weights of 4 or 8 bits in advance, and computes products with them."""
import functools
import math
import numbers
from typing import Any, NamedTuple

from . import _ext
from ._common import CODES, activation_of, check_number, device_of, door_of, name_of, warn_of_work
from ._product import Operands, rows_of

_DEPTHS = (128, 64, 32)
_TYPES = {"int8": "int8", "uint8": "uint4", "float8_e4m3fn": "e4m3"}
_BYTES = {"int4": "int8", "uint4": "uint8", "int8": "int8", "e4m3": "float8_e4m3fn"}
_SCALES = ("float32", "float16", "bfloat16")
_C, _BIAS, _SCALE_B, _OFFS, _A_ROWS = (Operands._fields.index(word) for word in ("c", "bias", "scale_b", "offs", "a_rows"))
_NOTHING = [None] * len(Operands._fields)
_name_of = functools.cache(name_of)  # cached, because each call needs two names


class PackedWeights(NamedTuple):
    """A matrix B [k, n], or one for each of several experts, for packed_mm(), as returned by pack_weights()."""
    data: Any  # uint8 [n/64, bytes], with the quotient rounded up, or [experts, n/64, bytes]
    scale_b: Any  # float32 [n], or [experts, n], if each column has one scale; else None, and the scales of the groups are in the data
    shape: tuple  # (k, n), or (experts, k, n)
    form: int  # the library's number for the type of weights, the group and the type of scales


def pack_weights(w, scales=None, zeros=None, *, type=None, group=None):
    """Packs the weights of a layer for packed_mm(), in the order in which tensor cores use them. `w` is [n, k], like the weight of
    torch.nn.Linear.

    `w` has a byte for each weight: int8 from -8 to 7 with `type` "int4", uint8 from 0 to 15 ("uint4"), int8 ("int8", the default) or
    float8_e4m3fn ("e4m3", without NaN). Every `group` of 32, 64 or 128 elements along k has a scale. `scales` is float32, float16 or
    bfloat16 [n, groups], where groups is k/group, rounded up. If there is only one scale for each column, [n] or [n, 1], all of k is one
    group. `zeros`, only for uint4, holds the zero points, uint8 [n, groups] from 0 to 15; the value of a weight is (w - zero) * scale.
    Tensors may be on any device; they are packed on the CPU, once for all products. The weights of experts are [experts, n, k], with scales
    and zeros [experts, n, groups].
    """
    kit = _kit_of(w)
    kit.check({"w": w}, scales=scales, zeros=zeros)
    if w.ndim not in (2, 3):
        raise ValueError(f"w: {w.ndim} dimensions; weights must be [n, k], or [experts, n, k]")
    *experts, n, k = w.shape
    type = _TYPES.get(name_of(w.dtype)) if type is None else type
    if type not in tuple(_BYTES) or name_of(w.dtype) != _BYTES[type]:
        raise ValueError(f"w: {type!r} of {name_of(w.dtype)}; it must be "
                         f"{', '.join(f'{word!r} of {name}' for word, name in _BYTES.items())}")
    if (zeros is not None) != (type == "uint4"):
        raise ValueError(f"zeros: {'given' if zeros is not None else 'None'} with {type}; they must be given with uint4, and only with it")
    if scales is None or name_of(scales.dtype) not in _SCALES:
        raise ValueError(f"scales: {scales if scales is None else name_of(scales.dtype)}; they must be {' or '.join(_SCALES)}")
    scales = scales[..., None] if scales.ndim == w.ndim - 1 else scales
    group = group_of(k, scales, group)
    form = _ext.packed_form(_ext.PACKED_TYPES[type], group, _code("float32" if group == 0 else name_of(scales.dtype)))
    groups = -(-k // group) if group else 1
    for name, x in (("scales", scales), ("zeros", zeros)):
        if x is not None and tuple(x.shape) != (*experts, n, groups):
            raise ValueError(f"{name}: {tuple(x.shape)}; with groups of {group or k} values along k they must be {(*experts, n, groups)}")
    if zeros is not None and name_of(zeros.dtype) != "uint8":
        raise ValueError(f"zeros: {name_of(zeros.dtype)}; they must be uint8")
    lines = -(-n // 64)
    data = kit.empty((*experts, lines, _ext.packed_bytes(form, n, k) // max(lines, 1)), "uint8")
    given = (w, None if group == 0 else scales, zeros)
    _on_host(kit, _ext.pack, (form, n, k), experts, *given, data)
    return PackedWeights(kit.back(data, w), kit.floats(scales.reshape(*experts, n)) if group == 0 else None, (*experts, k, n), form)


def unpack_weights(packed):
    """Reverses pack_weights(): returns (w, scales, zeros), where zeros is None if there are no zero points."""
    _check_packed("packed", packed)
    kit, (*experts, k, n) = _kit_of(packed.data), packed.shape
    kit.check({"data": packed.data}, scale_b=packed.scale_b)
    word, group, scales = describe(packed.form)
    groups, lines = -(-k // group) if group else 1, -(-n // 64)
    shape = (*experts, lines, _ext.packed_bytes(packed.form, n, k) // max(lines, 1))
    if tuple(packed.data.shape) != shape or name_of(packed.data.dtype) != "uint8":
        raise ValueError(f"packed: its data is {name_of(packed.data.dtype)} {tuple(packed.data.shape)}; weights of {k} rows and {n} "
                         f"columns in this form must be uint8 {shape}")
    given = None if packed.scale_b is None else tuple(packed.scale_b.shape)
    if group == 0 and given != (*experts, n):
        raise ValueError(f"packed: scale_b is {given}; without groups it must be {(*experts, n)}")
    w = kit.empty((*experts, n, k), _BYTES[word])
    made = kit.empty((*experts, n, groups), scales) if group else None
    zeros = kit.empty((*experts, n, groups), "uint8") if word == "uint4" else None
    _on_host(kit, _ext.unpack, (packed.form, n, k), experts, w, made, zeros, packed.data)
    w, made, zeros = (None if x is None else kit.back(x, packed.data) for x in (w, made, zeros))
    return w, packed.scale_b.reshape(*experts, n, 1) if group == 0 else made, zeros


def packed_mm(a, b, bias=None, c=None, *, alpha=1.0, beta=None, activation=None, out=None, out_dtype=None, device=None,
              offs=None, a_rows=None):
    """Returns activation(alpha A B + beta C + bias) with packed weights B, rounded once. A is float16 or bfloat16 [.., k], and the result
    is [.., n].

    Weights are converted to A's type exactly, and the sum of each group of k is multiplied by the group's scale in float32, so only the
    result is rounded. matmul() describes `bias`, `c` and the other arguments; torch.compile and jax.jit are supported, too. A, C and bias
    have gradients; the gradient of A uses weights that are rounded once to A's type. Weights and scales have no gradient.

    With weights of experts, A [m, k] has the rows of the experts, one expert after the other, and `offs`, int32 [experts] in device memory,
    holds the end of each expert's rows, as in matmul(); bias is [experts, n], and C is [m, n]. For rows after the last end, A B is 0.

    With `a_rows`, int32 [m], row i of the product uses row a_rows[i] of A [any, k], which is gathered as in matmul().
    """
    _check_packed("B", b)
    beta = beta if beta is not None else 1.0 if c is not None else 0.0
    for name, x in (("alpha", alpha), ("beta", beta)):
        check_number(name, x)
        if not isinstance(x, (int, float, numbers.Real)):
            raise ValueError(f"{name}: it is of type {type(x).__name__}, but must be a number, since its gradient would be lost: multiply "
                             "A or C by this tensor")
    activation_of(activation)  # raises ValueError if the activation is not valid
    if (offs is not None) != (b.data.ndim == 3):
        raise ValueError(f"offs: {'given' if offs is not None else 'none'} with weights of shape {tuple(b.shape)}; it must be given with "
                         "weights of experts, [experts, k, n], and only with these")
    return _door_of(a).packed_mm(a, b, bias, c, float(alpha), float(beta), activation, out, out_dtype, device, offs, a_rows)


def _on_host(kit, call, numbers, experts, *tensors):
    """Packs or unpacks a matrix, or each of the matrices along the tensors' first dimension."""
    there = [None if x is None else kit.on_host(x) for x in tensors]  # keeps copies alive until the call has ended
    for each in ([None if x is None else x[i] for x in there] for i in range(experts[0])) if experts else [there]:
        call(*numbers, *(None if x is None else kit.tensor(x) for x in each))


def _door_of(x):
    door = door_of(x)
    if not hasattr(door, "packed_mm"):
        raise ValueError(f"packed weights: {type(x)}; they must be tensors of PyTorch, JAX or numpy")
    return door


def _check_packed(name, packed):
    if not isinstance(packed, PackedWeights):
        raise ValueError(f"{name}: it is of {type(packed)}, but must be a result of pack_weights()")
    if getattr(packed.data, "ndim", 0) != len(packed.shape):
        raise ValueError(f"{name}: its data is {tuple(packed.data.shape) if hasattr(packed.data, 'shape') else type(packed.data)}; it must "
                         f"have {len(packed.shape)} dimensions, like that of pack_weights()")


def _kit_of(x):
    return _door_of(x).packed_kit


def group_of(k, scales, group):
    """Returns the group size that a number of scales implies; 0 means all of k."""
    count = scales.shape[-1] if scales.ndim > 1 else 0
    if group is None:
        group = 0 if count == 1 else next((depth for depth in _DEPTHS if -(-k // depth) == count), None)
    if group not in (0, *_DEPTHS):
        raise ValueError(f"group: {group} with scales {tuple(scales.shape)} and k = {k}; it must be 32, 64 or 128, or 0 for all of k, and "
                         "each group must have a scale")
    return group


def _code(name):
    code, bits = CODES[name]
    return code << 8 | bits


def describe(form):
    """Returns (type, group, name of the scales' type) for the number of a form."""
    word = next(word for word, number in _ext.PACKED_TYPES.items() if number == form & 0xff)
    return word, form >> 8 & 0xff, next(name for name in _SCALES if _code(name) == (form >> 16 & 0xff) << 8 | form >> 24 & 0xff)


def columns_of(kit, b, name):
    """Returns (w, scales): w [n, k], of the type with this name, times scales, float32 [n], are the weights. A dimension of experts comes
    first. They are computed with the framework's functions, which may be traced. Each column is divided by its largest scale, so that its
    elements are in the range of f16 for all scales."""
    (*experts, k, n), (word, group, scales) = b.shape, describe(b.form)
    lines, depth = math.prod(b.data.shape[:-1]), -(-k // 128)
    bits = 4 if word.endswith("int4") else 8
    blocks = b.data.reshape(lines, depth, -1)
    size = 64 * 128 * bits // 8
    # Bytes are in the order of PackedPlace's threads and words. The position along a column consists of warp, high_row and row, and the
    # position along k consists of the block, two parts of the step, high_pair, pair and second. The permutation sorts the parts into this
    # order.
    if bits == 4:
        w = blocks[..., :size].reshape(lines, depth, 2, 4, 8, 4, 4, 2, 2)
        w = kit.permuted(kit.stacked([w & 15, w >> 4]), (1, 4, 0, 5, 2, 3, 7, 9, 6, 8))
    else:
        w = kit.permuted(blocks[..., :size].reshape(lines, depth, 4, 4, 8, 4, 2, 2, 2, 2), (0, 3, 9, 4, 1, 2, 6, 7, 5, 8))
    length = group or 128
    w = w.reshape(64 * lines, 128 // length * depth, length)
    w = kit.cast(kit.of_bytes(w[..., None], "float8_e4m3fn") if word == "e4m3" else w, "float32")
    w = w - {"int4": 8.0, "int8": 128.0}.get(word, 0.0)

    def of_groups(at, name, item):  # returns a number of `item` bytes for each group of each column
        x = blocks[..., at:at + 128 // length * 64 * item].reshape(lines, depth, 128 // length, 64, item)
        x = x[..., 0] if name == "uint8" else kit.of_bytes(x, name)
        return kit.cast(kit.permuted(x, (0, 3, 1, 2)).reshape(64 * lines, -1), "float32")

    item = (b.form >> 24 & 0xff) // 8 if group else 0
    if word == "uint4":
        w = w - of_groups(size + 128 // length * 64 * item, "uint8", 2)[..., None]
    if group:
        by_group = of_groups(size, scales, item)
        greatest = kit.greatest(by_group)
        factor = kit.where(greatest > 0, greatest, 1.0)
        w = w * (by_group / factor[:, None])[..., None]
        factor = factor.reshape(*experts, -1)[..., :n]
    else:
        factor = b.scale_b
    return kit.cast(w.reshape(*experts, -1, 128 * depth)[..., :n, :k], name), factor


def result_of(a, b, out_dtype, a_rows=None):
    """Returns the shape of a product's result and the name of its type."""
    *experts, k, n = b.shape
    if experts and a.ndim != 2:
        raise ValueError(f"A: {tuple(a.shape)}; with weights of experts it must be [m, {k}], with the rows of each expert after those of "
                         "the previous one")
    if a.ndim < 1 or a.shape[-1] != k:
        raise ValueError(f"B: packed weights of {k} rows, but A is {tuple(a.shape)}; A's last dimension must be {k}")
    name = _name_of(a.dtype)
    if name not in ("float16", "bfloat16"):
        raise ValueError(f"A: {name}; with packed weights it must be float16 or bfloat16")
    rows = a.shape[:-1] if a_rows is None else (rows_of(a, a_rows),)
    return (*rows, n), name if out_dtype is None else _name_of(out_dtype)


def run(kit, a, b, bias, c, alpha, beta, activation, out, out_dtype, device, offs=None, a_rows=None):
    """Computes one product; `kit` has the framework's functions that create tensors and pass them."""
    shape, name = result_of(a, b, out_dtype, a_rows)
    is_matrix = len(shape) == 2
    folded = shape if is_matrix else (math.prod(shape[:-1]), shape[-1])
    if out is not None and (tuple(out.shape) != shape or out_dtype is not None and name_of(out.dtype) != name):
        raise ValueError(f"D: {name_of(out.dtype)} {tuple(out.shape)}; it must be {name} {shape}, like the product")
    if c is not None and tuple(c.shape) != shape:
        raise ValueError(f"C: its shape is {tuple(c.shape)}, but that of the product is {shape}")
    number = device_of(device)
    if number == _ext.EMULATOR:
        warn_of_work(math.prod(shape) * b.shape[-2])
    made = kit.empty(a, folded, name) if out is None else kit.view(out, folded)
    given = _NOTHING.copy()
    beside = [None if x is None else kit.compact(x) for x in (c if c is None or is_matrix else c.reshape(folded), bias, b.scale_b,
                                                            offs, a_rows)]
    for at, x in zip((_C, _BIAS, _SCALE_B, _OFFS, _A_ROWS), beside):  # keeps copies alive until the call has ended
        if x is not None:
            given[at] = kit.tensor(x)
    rows = kit.compact(a) if is_matrix else kit.compact(a).reshape(folded[0], a.shape[-1])
    _ext.product(kit.tensor(rows), kit.tensor(b.data), kit.tensor(made), alpha, beta, activation_of(activation),
                 b.form << _ext.PACKED_FORM, 0, number, None, *given)
    return out if out is not None else made if is_matrix else made.reshape(shape)

"""Operations on the rows of a matrix for the tensors of any framework."""
import functools
import json

from . import _ext
from ._common import check_number, device_of, door_of, name_of, untouched


class Operation:
    """An operation in the library's table. It has numbers, and a dict of its tensors with the shape in words, the type and the use of each
    tensor."""

    def __init__(self, row):
        self.name = row["name"]
        self.tensors = {tensor["name"]: tensor for tensor in row["tensors"]}
        self.updated = tuple(name for name, tensor in self.tensors.items() if tensor["updated"])
        self.read = tuple(name for name, tensor in self.tensors.items() if tensor["updated"] or not tensor["written"])
        self.written = tuple(name for name in self.tensors if name not in self.read)
        self.numbers = {number["name"]: number["unsaid"] for number in row["numbers"]}

    def results_of(self, given, wanted, extents=()):
        """Returns (shape, type's name) for each requested result. `given` has (shape, type's name) or None for each tensor that is read,
        and `extents` has (word, number) for extents that shapes do not determine."""
        first, first_type = given[self.read[0]]
        sizes = {word: (number,) for word, number in extents}
        for name in self.read:
            words = self.tensors[name]["shape"]
            if given[name] is None:
                continue
            shape = given[name][0]
            if len(shape) + 1 < len(words):
                raise ValueError(f"{self.name}: {name} must have the shape [{', '.join(words)}], but is {tuple(shape)}")
            ahead = len(shape) + 1 - len(words)  # number of dimensions that count as rows
            sizes.setdefault(words[0], tuple(shape[:ahead]))
            for word, extent in zip(words[1:], shape[ahead:]):
                sizes.setdefault(word, (extent,))

        def type_of(name):
            kind = self.tensors[name]["type"]
            of = given.get(name[1:]) if kind == "any" and name.startswith("d") else None  # a gradient has the type of its tensor
            known = {"number": "float32", "integer": "int32", "e4m3": "float8_e4m3fn"}.get(kind)
            return known or (of[1] if of else first_type)

        return [(sum((sizes[word] for word in self.tensors[name]["shape"]), ()), type_of(name)) for name in wanted]

    @functools.lru_cache(maxsize=None)
    def bits_of(self, names):
        return sum(1 << i for i, name in enumerate(self.tensors) if name in names)


OPERATIONS = {row["name"]: Operation(row) for row in json.loads(_ext.ROWS)}
for _operation in OPERATIONS.values():
    _operation.gradient = _gradient = OPERATIONS.get(_operation.name + "_gradient")
    # The results that are computed if a gradient is requested, which are the first result and the results that the gradient's operation
    # reads.
    _operation.kept = tuple(name for name in _operation.written if name in _operation.written[:1] or (_gradient and name in _gradient.read))


@functools.lru_cache(maxsize=1 << 12)
def _plan(operation, wanted, extents, *described):
    """Returns the values of a call that are determined by the shape and type of each tensor that is read (None if it is omitted). They are
    cached because computing them takes most of the host's time. The values are (shape, type's name) of each result; whether the first
    result has the shape and type of the first tensor; for each tensor of the operation, its index among the tensors that are read and
    created; and a bit mask of the tensors that are created."""
    given = {name: x and (tuple(x[0]), name_of(x[1])) for name, x in zip(operation.read, described)}
    found, there = operation.results_of(given, wanted, extents), operation.read + wanted
    places = tuple(there.index(name) if name in there else None for name in operation.tensors)
    is_alike = bool(found) and found[0] == given[operation.read[0]]
    return tuple(found), is_alike, places, operation.bits_of(wanted + operation.updated)


def run(kit, operation, given, numbers, wanted, device, stream=None, extents=()):
    """Runs one operation on tensors with any strides. `given` has a tensor for each name in operation.read, or None if it is omitted.
    Returns a tuple of the wanted results."""
    given = [x if x is None or name in operation.updated else kit.compact(x) for name, x in zip(operation.read, given)]
    found, is_alike, places, bits = _plan(operation, wanted, extents, *[None if x is None else (x.shape, x.dtype) for x in given])
    first = given[0]
    is_made = is_alike and kit.IS_ALLOCATED  # whether the extension creates the first result, which is faster
    results = [True if is_made and i == 0 else kit.empty(first, *one) for i, one in enumerate(found)]
    tensors = [None if x is None else kit.tensor(x) for x in given]
    tensors += [x if x is True else kit.tensor(x) for x in results]
    made = _ext.rows(operation.name, tuple([None if place is None else tensors[place] for place in places]), bits, numbers,
                     device if device is None else device_of(device), stream)
    if is_made:
        results[0] = made
    return tuple(results)


def workspace_of(device, operation, given, numbers, wanted, extents=()):
    """Compiles an operation with compact tensors, and returns the size of its workspace in bytes. `given` maps names to (shape, type's
    name) or None."""
    described = {**given, **dict(zip(wanted, operation.results_of(given, wanted, extents)))}
    tensors = untouched(*(described.get(name) for name in operation.tensors))
    return _ext.rows_workspace(device, operation.name, tuple(tensors), operation.bits_of(wanted), numbers)


def by_use(operation, given):
    """Returns two dicts, indexed by name: the required tensors that are read, and the optional tensors that are read."""
    named = dict(zip(operation.read, given))
    required = {name: x for name, x in named.items() if not operation.tensors[name]["optional"]}
    return required, {name: x for name, x in named.items() if name not in required}


def wanted_of(operation, extents):
    """Returns the names of the results of a call without a gradient, which are only the first, or all if `extents` is not empty."""
    return operation.written if extents else operation.written[:1]


def _call(name, device, given, numbers=(), extents=()):
    """Calls an operation. `given` has the tensors that it reads, and `numbers` has its numbers, both in the order of the operation's
    table."""
    operation = OPERATIONS[name]
    for word, value in zip(operation.numbers, numbers):
        check_number(word, value)
    return door_of(given[0]).rows(operation, given, tuple([float(x) for x in numbers]), device, extents)


def rms_norm(x, weight=None, *, epsilon=1e-6, device=None):
    """Returns y = x / sqrt(mean(x^2) + epsilon) * weight for each row, the last dimension of x, with x's framework and type.

    x is f16, bf16 or float32, with 1 to 262144 columns; `weight` has one number for each column, of any of these types, or is omitted. The
    call runs on the framework's current stream, like matmul(). y is differentiable once in x and weight, with up to 163840 columns if x is
    float32 or has an odd number of columns. If an operand breaks a rule, raises a ValueError that names both.
    """
    return _call("rms_norm", device, (x, weight), (epsilon,))


def rms_scale(x, *, epsilon=1e-6, device=None):
    """Returns 1 / sqrt(mean(x^2) + epsilon) for each row, in float32. A product can scale its rows with it, which replaces an RMS norm
    without storing normalized rows:

        y = matmul(x, weight[:, None] * w, scale_a=rms_scale(x)[:, None])  # rms_norm(x, weight) @ w

    rms_norm() describes the arguments. There is no gradient.
    """
    return _call("rms_scale", device, (x,), (epsilon,))


def layer_norm(x, weight=None, bias=None, *, epsilon=1e-5, device=None):
    """Returns y = (x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias for each row. The rules of rms_norm() apply."""
    return _call("layer_norm", device, (x, weight, bias), (epsilon,))


def softmax(x, *, device=None):
    """Returns y = exp(x) / sum(exp(x)) for each row. The rules of rms_norm() apply, but y is differentiable once in x for any width."""
    return _call("softmax", device, (x,))


def cross_entropy(x, target, *, device=None):
    """Returns log(sum(exp(x))) - x[target] for each row, in float32, with the shape of target. The rules of rms_norm() apply; the result is
    differentiable once in x.

    `target` is int32 or int64, and holds the number of a column for each row. If a row's target is below 0, its loss and its gradient are
    0; if the target is beyond the last column, the loss is NaN.
    """
    return _call("cross_entropy", device, (x, target))


def _halves(x):
    """Returns a view of heads [.., columns] as [.., 2, columns / 2]."""
    return x.reshape(*x.shape[:-1], 2, x.shape[-1] // 2)


def _scales(scale, cache, cache_layout):
    """Returns the scales of pages in the form that matches the result of _pages()."""
    if scale is None or cache_layout == "HND" or _has_strides(cache) or len(scale.shape) != 2 or scale.shape[0] == 1:
        return scale
    return scale.repeat(cache.shape[1], 0)


def _has_strides(x):
    """Returns whether a tensor has strides, which JAX arrays do not have."""
    return hasattr(x, "strides") or hasattr(x, "stride")


def _pages(name, cache, k, cache_layout):
    """Returns a view of a cache in the table's form, [pages, heads, rows of a page, 2, columns / 2]."""
    shape = tuple(cache.shape)
    words = "page, row, heads, columns" if cache_layout == "NHD" else "page, heads, row, columns"
    if len(shape) != 4 or shape[-1] != k.shape[-1]:
        raise ValueError(f"append: {name} must be [{words}] with k's {k.shape[-1]} columns, but is {shape}")
    if cache_layout == "NHD":
        # An array without strides is treated as pages of one row.
        cache = cache.swapaxes(1, 2) if _has_strides(cache) else cache.reshape(shape[0] * shape[1], shape[2], 1, shape[3])
    return _halves(cache)


def append(k, v, k_cache, v_cache, slot_mapping, cos=None, sin=None, positions=None, *, k_scale=None, v_scale=None, cache_layout="NHD",
           device=None):
    """Stores the keys and values of new tokens in their slots of paged caches, in the form that decode() reads, and returns (k_cache,
    v_cache).

    k and v are [tokens, heads, columns], possibly with more leading dimensions, of f16, bf16 or float32. The caches, of the same type or of
    float8_e4m3fn, are [page, row, heads, columns], or with cache_layout="HND" [page, heads, row, columns]. `slot_mapping`, int32 or int64
    [tokens] on the device, holds the slot of each token: page * (rows of a page) + row. A token is skipped if its slot does not exist, such
    as -1. No two tokens may share a slot. All other rows of the caches remain unchanged. Caches may have gaps between their pages, rows and
    heads, for instance if both are parts of one tensor [page, 2, row, heads, columns].

    With `cos` and `sin`, [positions, columns / 2] of the same type, keys are rotated as by rotary(). `positions`, int32 or int64 [tokens],
    holds the row of `cos` and `sin` for each token; a row that does not exist yields NaN. The number of columns must be even and at most
    2048.

    Keys are divided by `k_scale` and values by `v_scale`, if these are given: float32 [1] or [heads] on k's device, or [pages, 1] or
    [pages, heads] with scales for each page. Values beyond the range of a float8_e4m3fn cache are clamped. decode() multiplies by the same
    scales.

    The caches are written in place, also under torch.compile and in a CUDA graph. In JAX the results are new arrays; they use the memory of
    the caches if a jitted function has the caches in donate_argnums. There is no gradient.
    """
    if cache_layout not in ("NHD", "HND"):
        raise ValueError(f"cache_layout {cache_layout!r} is not one of 'NHD' and 'HND'")
    for name, x in (("k", k), ("v", v), ("k_cache", k_cache), ("v_cache", v_cache)):
        if not hasattr(x, "shape"):
            raise ValueError(f"append: {name} is of type {type(x).__name__}, but must be a tensor")
    for name, x in (("k", k), ("v", v)):
        if len(x.shape) < 3 or x.shape[-1] % 2 != 0:
            raise ValueError(f"append: {name} must be [tokens, heads, columns] with an even number of columns, but is {tuple(x.shape)}")
    caches = (_pages("k_cache", k_cache, k, cache_layout), _pages("v_cache", v_cache, v, cache_layout))
    found = _call("append", device, (_halves(k), _halves(v), *caches, slot_mapping, cos, sin, positions,
                                     *(_scales(scale, cache, cache_layout) for scale, cache in ((k_scale, k_cache), (v_scale, v_cache)))))
    if found is None:  # the caches were written in place
        return k_cache, v_cache
    return tuple(x.reshape(cache.shape) for x, cache in zip(found, (k_cache, v_cache)))


def mla_append(kv_c, k_pe, kv_cache, slot_mapping, *, device=None):
    """Stores the latent keys of new tokens in their slots of a paged 8-bit cache, in the form that mla_decode() reads, and returns
    kv_cache.

    kv_c is [tokens, 512] and holds the columns that are also values; k_pe is [tokens, 64] and holds the columns with the rotary embedding.
    Both are f16, bf16 or float32. kv_cache is uint8 [page, row, 656]; a dimension of 1 may precede the last dimension. A row has 512
    float8_e4m3fn values, then a float32 factor for every 128 values, chosen so that the largest stored value is 448, and then k_pe in
    bfloat16. Pages and rows may have gaps between them, and must begin at multiples of 16 bytes. append() describes `slot_mapping` and how
    the cache is written. There is no gradient.
    """
    for name, x in (("kv_c", kv_c), ("k_pe", k_pe), ("kv_cache", kv_cache)):
        if not hasattr(x, "shape"):
            raise ValueError(f"mla_append: {name} is of type {type(x).__name__}, but must be a tensor")
    shape = tuple(kv_cache.shape)
    if len(shape) not in (3, 4) or len(shape) == 4 and shape[2] != 1:
        raise ValueError(f"mla_append: kv_cache must be [page, row, bytes], but has the shape {shape}")
    found = _call("mla_append", device, (kv_c, k_pe, kv_cache if len(shape) == 3 else kv_cache[:, :, 0], slot_mapping))
    return kv_cache if found is None else found[0].reshape(shape)  # with JAX, the result is a new array


def rotary(x, cos, sin, *, device=None):
    """Rotates the two halves (a, b) of each head of x to (a cos - b sin, b cos + a sin). The result has x's type, and is differentiable in
    x.

    x is [.., positions, heads, columns], of f16, bf16 or float32, with an even number of columns, up to 2048; `cos` and `sin` are
    [positions, columns / 2] of the same type.
    """
    shape = tuple(x.shape)
    if len(shape) < 3 or shape[-1] % 2 != 0:
        raise ValueError(f"rotary: x must be [.., positions, heads, columns] with an even number of columns, but is {shape}")
    if len(cos.shape) != 2 or cos.shape[0] != shape[-3]:
        raise ValueError(f"rotary: cos must be [positions, columns / 2] = ({shape[-3]}, {shape[-1] // 2}), but is {tuple(cos.shape)}")
    return _call("rotary", device, (_halves(x), cos, sin)).reshape(shape)


def embedding(index, table, *, device=None):
    """Returns the rows of `table`, [entries, columns], that `index` selects. `index` is int32 or int64 of any shape; for a row that does
    not exist, the result is NaN.

    The table is f16, bf16 or float32. There is no gradient.
    """
    return _call("embedding", device, (table, index))


def cumsum(x, *, device=None):
    """Returns the cumulative sums along the rows, the last dimension of x: for each element, the sum of it and all elements before it. Sums
    are added in float32 and have x's type. There is no gradient."""
    return _call("cumsum", device, (x,))


def transpose(x, *, device=None):
    """Returns the transpose of an f16, bf16 or float32 matrix, in new memory. There is no gradient."""
    return _call("transpose", device, (x,))


def quantize_1x128(x, *, silu_gate=False, power_of_two=False, device=None):
    """Returns (q, scale) for x, with x approximately q * scale: q is float8_e4m3fn, and scale has a float32 for every 128 elements of a
    row, the last dimension. A product uses them like this:

        q, scale = quantize_1x128(x)
        y = matmul(q, w8, transpose_b=True, scale_a_1x128=scale, scale_b_128x128=scale_w)

    q has x's shape. scale is [columns/128 rounded up, rows], where rows counts all dimensions of x except the last; `scale.T` has the
    layout for torch.nn.functional.scaled_mm. With `silu_gate`, silu(a) * b of each row's two halves (a, b) is computed in float32 and then
    quantized. A scale is the largest magnitude of its block divided by 448; with `power_of_two`, it is rounded up to a power of two, which
    float8_e8m0fnu can represent. If an element is infinite, the elements of its block become NaN or 0; a NaN affects no other element. x is
    f16, bf16 or float32. There is no gradient.
    """
    columns = x.shape[-1]
    if silu_gate and columns % 2 != 0:
        raise ValueError(f"quantize_1x128: {columns} columns; their number must be even")
    columns = columns // 2 if silu_gate else columns
    rows = x.reshape(-1, 2, columns) if silu_gate else x.reshape(-1, columns)
    name = "silu_gate_quantize_1x128" if silu_gate else "quantize_1x128"
    q, scale = _call(name, device, (rows,), (power_of_two,), (("column_blocks", -(-columns // 128)),))
    return q.reshape(*x.shape[:-1], columns), scale


def quantize_128x1(x, *, power_of_two=False, device=None):
    """Returns the result of quantize_1x128() for the transpose of a matrix x: q, float8_e4m3fn [columns, rows], and a float32 scale for
    every 128 elements of a row of q, [rows/128 rounded up, columns]. It is useful for gradients of weights."""
    if len(x.shape) != 2:
        raise ValueError(f"quantize_128x1: x must be a matrix, but has {len(x.shape)} dimensions")
    return _call("quantize_128x1", device, (x,), (power_of_two,), (("row_blocks", -(-x.shape[0] // 128)),))


def top_k(x, k, *, device=None):
    """Returns (values, columns): the k largest elements of each row in descending order, and the numbers of their columns, int32.

    Equal elements keep their order, and NaN is ignored. x is f16, bf16 or float32, with up to 16384 columns. Each of the k elements
    requires a pass over the row, so k should be small. There is no gradient.
    """
    if isinstance(k, bool) or not hasattr(k, "__index__") or k < 1:
        raise ValueError(f"k: {k!r}; it must be an integer above 0")
    return _call("top_k", device, (x,), (), (("k", int(k)),))

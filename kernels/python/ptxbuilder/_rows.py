"""Operations on the rows of a matrix, for the framework of their operands."""
import functools
import json

from . import _ext
from ._common import check_number, device_of, door_of, name_of, untouched


class Operation:
    """An operation in the library's table: its tensors by name, each with its shape in words, its type and its use; and its numbers."""

    def __init__(self, row):
        self.name = row["name"]
        self.tensors = {tensor["name"]: tensor for tensor in row["tensors"]}
        self.updated = tuple(name for name, tensor in self.tensors.items() if tensor["updated"])
        self.read = tuple(name for name, tensor in self.tensors.items() if tensor["updated"] or not tensor["written"])
        self.written = tuple(name for name in self.tensors if name not in self.read)
        self.numbers = {number["name"]: number["unsaid"] for number in row["numbers"]}

    def results_of(self, given, wanted, extents=()):
        """Returns (shape, type's name) of each requested result. `given` holds the same for tensors that are read, or None; `extents` holds
        (word, number) for extents that do not follow from shapes."""
        first, first_type = given[self.read[0]]
        sizes = {word: (number,) for word, number in extents}
        for name in self.read:
            words = self.tensors[name]["shape"]
            if given[name] is None:
                continue
            shape = given[name][0]
            if len(shape) + 1 < len(words):
                raise ValueError(f"{self.name}: {name} must have the shape [{', '.join(words)}], but is {tuple(shape)}")
            ahead = len(shape) + 1 - len(words)  # dimensions that are rows
            sizes.setdefault(words[0], tuple(shape[:ahead]))
            for word, extent in zip(words[1:], shape[ahead:]):
                sizes.setdefault(word, (extent,))

        def type_of(name):
            kind = self.tensors[name]["type"]
            of = given.get(name[1:]) if kind == "any" and name.startswith("d") else None  # like the tensor whose gradient this is
            known = {"number": "float32", "integer": "int32", "e4m3": "float8_e4m3fn"}.get(kind)
            return known or (of[1] if of else first_type)

        return [(sum((sizes[word] for word in self.tensors[name]["shape"]), ()), type_of(name)) for name in wanted]

    @functools.lru_cache(maxsize=None)
    def bits_of(self, names):
        return sum(1 << i for i, name in enumerate(self.tensors) if name in names)


OPERATIONS = {row["name"]: Operation(row) for row in json.loads(_ext.ROWS)}
for _operation in OPERATIONS.values():
    _operation.gradient = _gradient = OPERATIONS.get(_operation.name + "_gradient")
    # The results that are computed if a gradient is requested: the first one, and those that the gradient's operation reads.
    _operation.kept = tuple(name for name in _operation.written if name in _operation.written[:1] or (_gradient and name in _gradient.read))


@functools.lru_cache(maxsize=1 << 12)
def _plan(operation, wanted, extents, *described):
    """Returns the values of a call that follow from the shape and type, or None, of each tensor that is read; finding them takes most of
    the host's time. They are the (shape, type's name) of the results, whether the first result is like the first tensor, the index of each
    of the operation's tensors among those that are read and made, and the bits of those that are made."""
    given = {name: x and (tuple(x[0]), name_of(x[1])) for name, x in zip(operation.read, described)}
    found, there = operation.results_of(given, wanted, extents), operation.read + wanted
    places = tuple(there.index(name) if name in there else None for name in operation.tensors)
    is_alike = bool(found) and found[0] == given[operation.read[0]]
    return tuple(found), is_alike, places, operation.bits_of(wanted + operation.updated)


def run(kit, operation, given, numbers, wanted, device, stream=None, extents=()):
    """Runs one operation on tensors with any strides. `given` holds a tensor for each name in operation.read, or None for an omitted one.
    Returns the wanted results, as a tuple."""
    given = [x if x is None or name in operation.updated else kit.compact(x) for name, x in zip(operation.read, given)]
    found, is_alike, places, bits = _plan(operation, wanted, extents, *[None if x is None else (x.shape, x.dtype) for x in given])
    first = given[0]
    is_made = is_alike and kit.IS_ALLOCATED  # the extension makes it, which is faster
    results = [True if is_made and i == 0 else kit.empty(first, *one) for i, one in enumerate(found)]
    tensors = [None if x is None else kit.tensor(x) for x in given]
    tensors += [x if x is True else kit.tensor(x) for x in results]
    made = _ext.rows(operation.name, tuple([None if place is None else tensors[place] for place in places]), bits, numbers,
                     device if device is None else device_of(device), stream)
    if is_made:
        results[0] = made
    return tuple(results)


def workspace_of(device, operation, given, numbers, wanted, extents=()):
    """Returns the bytes of workspace for an operation with compact tensors, and compiles it. `given` holds (shape, type's name) or None by
    name."""
    described = {**given, **dict(zip(wanted, operation.results_of(given, wanted, extents)))}
    tensors = untouched(*(described.get(name) for name in operation.tensors))
    return _ext.rows_workspace(device, operation.name, tuple(tensors), operation.bits_of(wanted), numbers)


def by_use(operation, given):
    """Returns the tensors that are read, by name: the required ones, and the optional ones."""
    named = dict(zip(operation.read, given))
    required = {name: x for name, x in named.items() if not operation.tensors[name]["optional"]}
    return required, {name: x for name, x in named.items() if name not in required}


def wanted_of(operation, extents):
    """Returns the results of a call without a gradient: the first, or all if they have their own extents."""
    return operation.written if extents else operation.written[:1]


def _call(name, device, given, numbers=(), extents=()):
    """Calls an operation; `given` holds the tensors that it reads, and `numbers` its numbers, in the order of its table."""
    operation = OPERATIONS[name]
    for word, value in zip(operation.numbers, numbers):
        check_number(word, value)
    return door_of(given[0]).rows(operation, given, tuple([float(x) for x in numbers]), device, extents)


def rms_norm(x, weight=None, *, epsilon=1e-6, device=None):
    """Returns y = x / sqrt(mean(x^2) + epsilon) * weight for each row, the last dimension of x, with x's framework and type.

    x is f16, bf16 or float32, with 1 to 262144 columns; `weight` has one number for each column, of any of these types, or is omitted. The
    call runs on the framework's current stream, like matmul(). y is differentiable once in x and weight, up to 163840 columns if x is
    float32 or has an odd number of columns. Raises ValueError that names the operand and the rule.
    """
    return _call("rms_norm", device, (x, weight), (epsilon,))


def rms_scale(x, *, epsilon=1e-6, device=None):
    """Returns 1 / sqrt(mean(x^2) + epsilon) for each row, float32: an RMS norm for a product that scales its rows, so that normalized rows
    are never written:

        y = matmul(x, weight[:, None] * w, scale_a=rms_scale(x)[:, None])  # rms_norm(x, weight) @ w

    Everything else is as for rms_norm(), but there is no gradient.
    """
    return _call("rms_scale", device, (x,), (epsilon,))


def layer_norm(x, weight=None, bias=None, *, epsilon=1e-5, device=None):
    """Returns y = (x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias for each row, like rms_norm()."""
    return _call("layer_norm", device, (x, weight, bias), (epsilon,))


def softmax(x, *, device=None):
    """Returns y = exp(x) / sum(exp(x)) for each row, like rms_norm(); differentiable once in x, for any width."""
    return _call("softmax", device, (x,))


def cross_entropy(x, target, *, device=None):
    """Returns log(sum(exp(x))) - x[target] for each row, float32 with target's shape, like rms_norm(); differentiable once in x.

    `target` is int32 or int64, and names a column for each row. A row whose target is below 0 has no loss and no gradient; a row whose
    target is beyond the last column is NaN.
    """
    return _call("cross_entropy", device, (x, target))


def _halves(x):
    """Returns a view of heads [.., columns] as [.., 2, columns / 2]."""
    return x.reshape(*x.shape[:-1], 2, x.shape[-1] // 2)


def _scales(scale, cache, cache_layout):
    """Returns the scales of pages, in the form of _pages()."""
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
        # If there are no strides, each row is treated as a page of one row.
        cache = cache.swapaxes(1, 2) if _has_strides(cache) else cache.reshape(shape[0] * shape[1], shape[2], 1, shape[3])
    return _halves(cache)


def append(k, v, k_cache, v_cache, slot_mapping, cos=None, sin=None, positions=None, *, k_scale=None, v_scale=None, cache_layout="NHD",
           device=None):
    """Stores the keys and values of new tokens in their slots of paged caches, as decode() reads them, and returns (k_cache, v_cache).

    k and v are [tokens, heads, columns], possibly with more leading dimensions, of f16, bf16 or float32. The caches, of the same type or of
    float8_e4m3fn, are [page, row, heads, columns], or with cache_layout="HND" [page, heads, row, columns]. `slot_mapping`, int32 or int64
    [tokens] on the device, holds page number x rows of a page + row for each token. A number without a row, such as -1, skips its token,
    and no two tokens may share a slot. All other rows of the caches remain unchanged. Caches may have gaps between their pages, rows and
    heads, for instance if both share a tensor [page, 2, row, heads, columns].

    With `cos` and `sin`, [positions, columns / 2] of the same type, keys are rotated as by rotary(), with the row that `positions`, int32
    or int64 [tokens], names; a row that does not exist yields NaN. The number of columns is even, up to 2048.

    Keys are divided by `k_scale` and values by `v_scale`, if these are given: float32 [1] or [heads] on k's device, or [pages, 1] or
    [pages, heads] with scales for each page. What a cache of float8_e4m3fn cannot hold becomes its greatest number. decode() multiplies by
    the same scales.

    The caches are written in place, also under torch.compile and in a CUDA graph. In JAX they are new arrays, which use the memory of the
    old ones if a jitted function has them in donate_argnums. There is no gradient.
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
    if found is None:  # in place
        return k_cache, v_cache
    return tuple(x.reshape(cache.shape) for x, cache in zip(found, (k_cache, v_cache)))


def mla_append(kv_c, k_pe, kv_cache, slot_mapping, *, device=None):
    """Puts the latent keys of new tokens into their slots of a paged cache of 8 bits, as mla_decode() reads it, and returns kv_cache.

    kv_c is [tokens, 512], the columns that are also values, and k_pe [tokens, 64], those with the rotary embedding, both of f16, bf16 or
    float32. kv_cache, of uint8, is [page, row, 656], where a dimension of 1 may come before the last: a row has 512 values of
    float8_e4m3fn, for each 128 of them the factor in float32 that makes the greatest of them 448, and k_pe in bfloat16. Pages and rows may
    have gaps, and begin at multiples of 16 bytes. `slot_mapping` is that of append(), and so is how the cache is written. It has no
    gradient.
    """
    for name, x in (("kv_c", kv_c), ("k_pe", k_pe), ("kv_cache", kv_cache)):
        if not hasattr(x, "shape"):
            raise ValueError(f"mla_append: {name} is of type {type(x).__name__}, but must be a tensor")
    shape = tuple(kv_cache.shape)
    if len(shape) not in (3, 4) or len(shape) == 4 and shape[2] != 1:
        raise ValueError(f"mla_append: kv_cache must be [page, row, bytes], but has the shape {shape}")
    found = _call("mla_append", device, (kv_c, k_pe, kv_cache if len(shape) == 3 else kv_cache[:, :, 0], slot_mapping))
    return kv_cache if found is None else found[0].reshape(shape)  # in place, except with JAX


def rotary(x, cos, sin, *, device=None):
    """Returns x with both halves (a, b) of each head rotated to (a cos - b sin, b cos + a sin), in x's type; differentiable in x.

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
    """Returns the rows of `table`, [entries, columns], that `index` selects, int32 or int64 of any shape; NaN if there is no such row.

    The table is f16, bf16 or float32. There is no gradient.
    """
    return _call("embedding", device, (table, index))


def cumsum(x, *, device=None):
    """Returns, for each element of a row, the last dimension of x, the sum of it and all elements before it, in x's type, added in float32.
    There is no gradient."""
    return _call("cumsum", device, (x,))


def transpose(x, *, device=None):
    """Returns the transpose of a matrix of f16, bf16 or float32, in new memory. There is no gradient."""
    return _call("transpose", device, (x,))


def quantize_1x128(x, *, silu_gate=False, power_of_two=False, device=None):
    """Returns (q, scale) for x: q in float8_e4m3fn, and a float32 scale for every 128 elements of a row, the last dimension, so that x is
    about q * scale. A product uses them like this:

        q, scale = quantize_1x128(x)
        y = matmul(q, w8, transpose_b=True, scale_a_1x128=scale, scale_b_128x128=scale_w)

    q has x's shape. scale is [columns/128 rounded up, rows], where rows are all dimensions of x except the last, and `scale.T` has the form
    for torch.nn.functional.scaled_mm. With `silu_gate`, silu(a) * b of each row's two halves (a, b) is computed in float32 and quantized. A
    scale is the greatest magnitude divided by 448, and with `power_of_two` it is rounded up to a power of two, like float8_e8m0fnu. An
    infinite element makes its block NaN or 0, and a NaN affects only itself. x is f16, bf16 or float32. There is no gradient.
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
    """Returns (q, scale) for a matrix's columns: q is the transpose of x, [columns, rows], in float8_e4m3fn, with a float32 scale for every
    128 elements of its rows, [rows/128 rounded up, columns], as quantize_1x128() would return for the transpose. Gradients of weights use
    it."""
    if len(x.shape) != 2:
        raise ValueError(f"quantize_128x1: x must be a matrix, but has {len(x.shape)} dimensions")
    return _call("quantize_128x1", device, (x,), (power_of_two,), (("row_blocks", -(-x.shape[0] // 128)),))


def top_k(x, k, *, device=None):
    """Returns a tuple: the k greatest elements of each row, in descending order, and their columns, int32.

    Among equal elements the first comes first, and NaN is ignored. x is f16, bf16 or float32, with up to 16384 columns. Each of the k
    elements takes a pass over the row, so k should be small. There is no gradient.
    """
    if isinstance(k, bool) or not hasattr(k, "__index__") or k < 1:
        raise ValueError(f"k: {k!r}; it must be an integer above 0")
    return _call("top_k", device, (x,), (), (("k", int(k)),))

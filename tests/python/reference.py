"""Defines float64 references for attention and products, and the test cases for both. The results of all frameworks are compared with these
references."""
import functools
import math

import numpy as np

from ptxbuilder import dropout_mask
from ptxbuilder._product import ROWS


def _weights(q, k, causal=False, scale=None, window=None, softcap=0.0, top_left=False, sinks=None, tree_mask=None):
    """Returns the weight of each key for each query (0 if the query does not see the key), lse, and the sinks' weights. Heads come before
    rows, and Q and K have the same number of heads."""
    scores = q @ np.swapaxes(k, -1, -2) * (scale or 1 / q.shape[-1]**0.5)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    queries, keys = scores.shape[-2:]
    middle = np.arange(queries)[:, None] + (0 if top_left else keys - queries)
    left, right = window or (-1, -1)
    right = 0 if causal else right
    key = np.arange(keys)[None]
    is_seen = np.ones((queries, keys), bool)
    is_seen &= True if left < 0 else key >= middle - left
    is_seen &= True if right < 0 else key <= middle + right
    if tree_mask is not None:
        bit = key - (keys - queries)
        is_seen &= (bit < 0) | (np.asarray(tree_mask).astype(np.int64)[:, None] >> np.maximum(bit, 0) & 1 > 0)
    scores = np.where(is_seen, scores, -np.inf)
    sinks = np.full((1, 1), -np.inf) if sinks is None else sinks[:, None, None]
    top = np.maximum(np.maximum(scores.max(-1, keepdims=True, initial=-np.inf), sinks), np.finfo(float).min)
    weights, of_sinks = np.exp(scores - top), np.exp(sinks - top)
    sums = weights.sum(-1, keepdims=True) + of_sinks
    with np.errstate(divide="ignore"):
        lse = (np.log(sums) + top)[..., 0]
    sums = np.where(sums > 0, sums, 1)
    return weights / sums, lse, (of_sinks / sums)[..., 0]


def _turned(layout, *tensors):
    return (np.swapaxes(x, 1, 2) if layout == "bshd" else x for x in tensors)


def _factors(q, k, dropout=0.0, dropout_seed=None):
    """Returns the factors by which dropout multiplies the weights."""
    if dropout == 0:
        return 1.0
    dropped = round(float(np.float32(dropout)) * 65536)
    mask = dropout_mask(np.asarray(dropout_seed), *q.shape[:2], q.shape[2], k.shape[2], dropout)
    return mask * (65536 / (65536 - dropped))


def _apart(words):
    """Separates the arguments that determine weights from those of dropout."""
    of_dropout = {name: x for name, x in words.items() if name.startswith("dropout")}
    return {name: x for name, x in words.items() if name not in of_dropout}, of_dropout


def attention(q, k, v, layout="bshd", **words):
    """Returns O and lse for float64 arrays, computed from the definition, with the interface of ptxbuilder.attention."""
    q, k, v = _turned(layout, q, k, v)
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    words, of_dropout = _apart(words)
    weights, lse, _ = _weights(q, k, **words)
    return next(_turned(layout, weights * _factors(q, k, **of_dropout) @ v)), lse


def decoded(q, k, v, lengths, table=None, tree_mask=None, **words):
    """Returns O and lse with the interface of ptxbuilder.decode, for queries [batch, queries, heads, columns] and caches [piece, row,
    heads, columns]. With a `tree_mask` [batch, queries], its bits replace the causal rule for the newest keys, one for each query."""
    found = []
    for b, count in enumerate(lengths):
        keys, values = (x[b] if table is None else np.concatenate(x[table[b]]) for x in (k, v))
        found.append(attention(q[b:b + 1], keys[None, :count], values[None, :count], causal=tree_mask is None,
                               tree_mask=None if tree_mask is None else tree_mask[b], **words))
    return tuple(np.concatenate(x) for x in zip(*found))


class Caches:
    """Holds the queries of three sequences of at most 100 keys, and their caches. Rows of the caches that hold no key of a sequence are
    NaN."""

    def __init__(self, random, queries, page=0, columns=64, heads=4, key_heads=2):
        self.lengths, most = np.array([100, 7, 33], np.int32), 100
        pieces, rows, self.table = 3, most, None
        if page:
            of_batch = -(-most // page)
            pieces, rows = 3 * of_batch + 2, page
            self.table = random.permutation(pieces)[:3 * of_batch].reshape(3, of_batch).astype(np.int32)
        self.q = random.standard_normal((3, queries, heads, columns))
        self.k, self.v = (np.full((pieces, rows, key_heads, columns), np.nan) for _ in range(2))
        for b, count in enumerate(self.lengths):
            for key in range(count):
                place = (b, key) if self.table is None else (self.table[b, key // page], key % page)
                for x in (self.k, self.v):
                    x[place] = random.standard_normal((key_heads, columns))


def byte_rows(random, keys):
    """Returns keys of 576 columns as rows of 656 bytes, the form that mla_decode() takes, and the numbers that the bytes represent."""
    import ml_dtypes

    values, rotary = keys[..., :512].astype(ml_dtypes.float8_e4m3fn), keys[..., 512:].astype(ml_dtypes.bfloat16)
    scales = random.uniform(0.2, 2, (*keys.shape[:-1], 4)).astype(np.float32)
    held = (values.astype(np.float32) * np.repeat(scales, 128, -1)).astype(ml_dtypes.bfloat16)
    rows = np.concatenate([x.view(np.uint8) for x in (values, scales, rotary)], -1)
    return rows, np.concatenate([held, rotary], -1).astype(np.float64)


def attention_gradients(q, k, v, grad, lse_grad=0.0, layout="bshd", deterministic=False, **words):
    """Returns the gradients of sum(O grad) + sum(lse lse_grad) with respect to Q, K, V and any sinks."""
    q, k, v, grad = _turned(layout, q, k, v, grad)
    group, shape = q.shape[1] // k.shape[1], k.shape[:2]
    k, v = (np.repeat(x, group, 1) for x in (k, v))
    words, of_dropout = _apart(words)
    weights, _, of_sinks = _weights(q, k, **words)
    factors, scale = _factors(q, k, **of_dropout), words.get("scale") or 1 / q.shape[-1]**0.5
    slopes = factors * (grad @ np.swapaxes(v, -1, -2))
    taken = (weights * slopes).sum(-1) - lse_grad
    slopes = weights * (slopes - taken[..., None]) * scale
    if cap := words.get("softcap"):
        slopes *= 1 - np.tanh(q @ np.swapaxes(k, -1, -2) * scale / cap)**2
    dk, dv = (x.reshape(*shape, group, *x.shape[2:]).sum(2) for x in (np.swapaxes(slopes, -1, -2) @ q, np.swapaxes(weights * factors, -1, -2) @ grad))
    gradients = _turned(layout, slopes @ k, dk, dv)
    return gradients if words.get("sinks") is None else (*gradients, -(of_sinks * taken).sum((0, 2)))


# The cases of attention: heads, key heads, columns, value columns, queries, keys, and other arguments.
CASES = [(2, 2, 64, 64, 40, 40, {}), (4, 2, 64, 32, 33, 50, {"causal": True}), (2, 1, 128, 128, 17, 90, {"window": (20, 0)}),
         (2, 2, 24, 24, 30, 30, {"causal": True, "top_left": True, "scale": 0.3}), (1, 1, 64, 64, 1, 70, {"softcap": 5.0}),
         (2, 2, 64, 64, 50, 20, {"causal": True}), (3, 1, 40, 40, 20, 30, {"window": (3, 4), "layout": "bhsd"}),
         (2, 1, 64, 64, 0, 8, {}), (2, 2, 64, 64, 8, 0, {})]
SINKS, SEED = np.array([-0.5, 1.25], np.float32), np.array([11, -2, 3, 4], np.int32)
CASES += [(2, 1, 64, 64, 33, 50, {"causal": True, "sinks": SINKS}), (2, 2, 40, 40, 30, 20, {"sinks": SINKS, "window": (3, 0)}),
          (2, 1, 64, 64, 40, 70, {"dropout": 0.3, "dropout_seed": SEED}),
          (2, 2, 128, 128, 20, 30, {"dropout": 0.6, "dropout_seed": SEED, "sinks": SINKS, "layout": "bhsd"})]
# The cases that have a gradient.
DIFFERENTIABLE = [*CASES, (2, 1, 64, 64, 40, 150, {"causal": True, "deterministic": True}), (1, 1, 192, 128, 30, 70, {})]


def shapes(case, batch=2):
    """Returns the shapes of Q, K and V."""
    heads, key_heads, columns, value_columns, queries, keys, words = case
    lay = (lambda rows, of, across: (batch, of, rows, across)) if words.get("layout") == "bhsd" else \
        (lambda rows, of, across: (batch, rows, of, across))
    return lay(queries, heads, columns), lay(keys, key_heads, columns), lay(keys, key_heads, value_columns)


# ---- Products with all of their operands ----

# The operands of a product that have a gradient, except A and B.
EVERY = " ".join(row.word for row in ROWS if row.role not in ("groups", "placement", "gather", "scatter", "sparsity", "block_factor", "greatest",
                                                             "result_factor"))
# Each case lists the shapes of A and B, the types of A and D, the other tensors, and the arguments. The scales of "one_a" and "one_b" have
# one element.
PRODUCTS = [((24, 64), (64, 32), "float8_e4m3fn", "float8_e4m3fn", "scale_a scale_b scale_result amax bias", {}),
            ((40, 96), (96, 24), "float8_e5m2", "bfloat16", "one_a scale_b bias", {"activation": "gelu"}),
            ((24, 64), (64, 32), "float8_e4m3fn", "bfloat16", "one_a one_b amax c", {"precise": True, "beta": 0.5}),
            ((3, 24, 64), (64, 32), "bfloat16", "float8_e5m2", "scale_a scale_b scale_result amax bias c", {"activation": "relu"}),
            ((3, 24, 64), (3, 64, 32), "bfloat16", "float32", "scale_a scale_b alpha amax", {}),
            ((2, 1, 9, 64), (3, 64, 40), "bfloat16", "bfloat16", "scale_a scale_b alpha c", {"beta": 2.0}),
            ((3, 24, 64), (64, 32), "bfloat16", "bfloat16", "slope_of", {"activation": "relu"}),
            ((3, 24, 64), (3, 64, 32), "float16", "float16", "slope_of amax bias", {"activation": "silu"}),
            ((17, 20), (20, 33), "bfloat16", "float8_e4m3fn", "slope_of scale_b scale_result", {"activation": "gelu"}),
            ((24, 64), (64, 32), "bfloat16", "bfloat16", "bias amax", {"activation": "silu", "gate": True}),
            ((3, 24, 64), (64, 48), "float16", "float8_e4m3fn", "scale_a scale_b scale_result amax",
             {"activation": "gelu", "gate": True}),
            ((2, 9, 24), (2, 24, 20), "bfloat16", "float32", "alpha bias", {"activation": "relu", "gate": True}),
            ((8, 0), (0, 16), "bfloat16", "bfloat16", "scale_a bias amax", {}),
            ((0, 8), (8, 16), "bfloat16", "bfloat16", "scale_a scale_b", {"activation": "silu", "gate": True}),
            ((24, 64), (64, 32), "int8", "bfloat16", "scale_a scale_b bias", {}),
            ((16, 24), (24, 40), "bfloat16", "bfloat16", "scale_b bias", {"activation": "relu", "alpha": -0.5}),
            ((16, 24), (24, 40), "bfloat16", "bfloat16", "bias", {"activation": "silu", "gate": True, "alpha": -0.5}),
            ((2, 24, 64), (2, 64, 32), "bfloat16", "float32", EVERY, {"activation": "gelu", "beta": -0.5}),
            ((2, 24, 64), (64, 32), "float16", "float8_e4m3fn", EVERY + " amax scale_result", {"activation": "silu"})]


def drawn_product(case, random):
    """Returns the tensors of a case as a dictionary from names to (float32 array, type), and the arguments."""
    a, b, kind, out, beside, words = case
    batch = np.broadcast_shapes(a[:-2], b[:-2])
    whole, addend = (*batch, a[-2], b[-1]), "bfloat16" if out.startswith("float8") else out
    shapes = {"one": (1,), "rows": a[:-1], "columns": (*b[:-2], 1, b[-1]), "columns_of_all": b[-1:], "elements": whole}
    rules = {row.word: (shapes[row.shape], "float32" if row.type == "f32" else addend) for row in ROWS if row.shape in shapes}
    rules |= {"a": (a, kind), "b": (b, kind), "one_a": ((), "float32"), "one_b": ((1, 1), "float32")}
    names = ["a", "b", *(name for name in beside.split() if name != "amax")]
    tensors = {name.replace("one_", "scale_"): (np.asarray(random.standard_normal(rules[name][0]), np.float32), rules[name][1])
               for name in names}
    if kind == "int8":
        tensors |= {name: (np.rint(16 * tensors[name][0]), kind) for name in "ab"}
    return tensors, {**words, "out_dtype": out}


# ---- Products in groups ----

# The groups of rows or of k end here. There are `ALL` rows; some groups are empty, and the last rows are in no group.
ENDS, ALL = np.array([0, 9, 9, 84, 120], np.int32), 130


def gathered(a, rows):
    """Returns the given rows of A; a row that A does not have becomes zeros."""
    are = (rows >= 0) & (rows < len(a))
    return np.where(are[:, None], a[np.where(are, rows, 0)], 0)


def scattered(rows, of_rows, count):
    """Returns the gradient of the gather: for each of `count` rows of A, the sum of the rows that were taken from it."""
    to, are = np.zeros((count, of_rows.shape[1])), (rows >= 0) & (rows < count)
    np.add.at(to, rows[are], of_rows[are])
    return to


# The product uses some of A's 50 rows, some of them several times, and some row numbers that A does not have.
ROWS_OF_A = 50
PLACES = (np.arange(ALL) * 37 % ALL).astype(np.int32)  # the destination of each row of a product
GATHERED = np.concatenate([np.arange(ALL - 4) * 7 % ROWS_OF_A, [-1, ROWS_OF_A, 3, 3]]).astype(np.int32)[np.arange(ALL) * 3 % ALL]


def grouped(a, b, ends):
    """Returns a product for each group of rows, of B's columns or of k, for float64 arrays."""
    begins = [0, *ends[:-1]]
    if a.ndim == b.ndim == 2:
        return np.stack([a[:, begin:end] @ b[begin:end] for begin, end in zip(begins, ends)])
    if a.ndim == 3:
        return np.swapaxes(grouped(np.swapaxes(b, 0, 1), np.swapaxes(a, 1, 2), ends), 0, 1)
    d = np.zeros((a.shape[0], b.shape[2]))
    for begin, end, one in zip(begins, ends, b):
        d[begin:end] = a[begin:end] @ one
    return d


def grouped_gradients(a, b, ends, grad):
    """Returns the gradients of sum(D grad) with respect to A and B."""
    if b.ndim == 2:
        return grouped(b, np.swapaxes(grad, 1, 2), ends).T, grouped(a.T, grad, ends)
    return grouped(grad, np.swapaxes(b, 1, 2), ends), grouped(a.T, grad, ends)


# ---- Products of 8-bit floats with block scales ----


def in_blocks(a, b, scale_a, scale_b):
    """Returns a product of float64 arrays with one scale for every 128 values of k. A has separate scales for each row, and B for each
    column or for every 128 columns."""
    of_a = np.repeat(np.swapaxes(scale_a, -1, -2), 128, -1)[..., :a.shape[-1]]
    if scale_b.shape[-1] != b.shape[-1]:
        scale_b = np.repeat(np.swapaxes(scale_b, -1, -2), 128, -1)[..., :b.shape[-1]]
    return (a * of_a) @ (b * np.repeat(scale_b, 128, -2)[..., :b.shape[-2], :])


# Each activation uses the arithmetic of `lib`, which is numpy, torch or jax.numpy, so that the framework can differentiate it.
ACTIVATIONS = {
    None: lambda lib, x: x,
    "relu": lambda lib, x: lib.where(x > 0, x, lib.zeros_like(x)),
    "gelu": lambda lib, x: x / 2 * (1 + lib.tanh(0.7978845608028654 * (x + 0.044715 * x**3))),
    "silu": lambda lib, x: x / 2 * (1 + lib.tanh(x / 2)),
    "relu_squared": lambda lib, x: lib.where(x > 0, x, lib.zeros_like(x))**2,
}


def activations(lib):
    """Returns a dictionary from the names of the activations to functions of x, which use `lib`."""
    return {name: functools.partial(function, lib) for name, function in ACTIVATIONS.items()}


def _activated(name, x):
    return ACTIVATIONS[name](np, x)


def _lost(name, x, lost):
    """Returns the error of an activation that results from an error of x, with some room for the hardware's approximations."""
    y = _activated(name, x)
    return np.maximum(1.2 * lost, np.maximum(abs(_activated(name, x + lost) - y), abs(_activated(name, x - lost) - y)))


def slope(name, x):
    """Returns the derivative of an activation."""
    step = 1e-6  # relu has an exact slope instead
    return (x > 0).astype(float) if name == "relu" else (_activated(name, x + step) - _activated(name, x - step)) / (2 * step)


def with_operands(tensors, alpha=1.0, beta=1.0):
    """Returns the input of an activation and the factor of the sum, in the arithmetic of the tensors' framework."""
    a, b = tensors["a"], tensors["b"]
    shapes = {"one": (), "rows": (*a.shape[:-1], 1), "columns": (*b.shape[:-2], 1, b.shape[-1]), "columns_of_all": b.shape[-1:]}
    factor, added = alpha, 0.0
    for row in ROWS:
        if row.word not in tensors or row.role not in ("factor", "residual", "addend"):
            continue
        x = tensors[row.word]
        if row.shape != "elements":
            x = x.reshape(() if row.role == "factor" and math.prod(x.shape) == 1 else shapes[row.shape])
        factor = factor * x if row.role == "factor" else factor
        added = added + beta * x if row.role == "residual" else added + x if row.role == "addend" else added
    return factor * (a @ b) + added, factor


def product(tensors, activation=None, gate=False, alpha=1.0, beta=1.0, out_dtype=None, precise=False):
    """Returns D before its scale, and its tolerance before rounding, from a dictionary of float64 arrays."""
    t = tensors
    x, factor = with_operands(t, alpha, beta)
    lost = abs(factor) * (abs(t["a"]) @ abs(t["b"])) * 2**-10 + 1e-5 * (1 + abs(x))  # sums of 8-bit floats have about 14 bits
    if gate:
        opening, of_opening = _activated(activation, x[..., 0::2]), _lost(activation, x[..., 0::2], lost[..., 0::2])
        x, lost = x[..., 1::2], lost[..., 1::2]
        return opening * x, of_opening * (abs(x) + lost) + abs(opening) * lost
    if "slope_of" in t:
        of_operand = slope(activation, t["slope_of"])
        return x * of_operand, np.maximum(1.2, abs(of_operand)) * (lost + 1e-5 * abs(x))
    return _activated(activation, x), _lost(activation, x, lost)


# The values are the number of bits in the fraction, the smallest exponent, and the largest number.
_TYPES = {"float8_e4m3fn": (3, -6, 448), "float8_e5m2": (2, -14, 57344), "float16": (10, -14, 65504), "bfloat16": (7, -126, np.inf),
          "float32": (23, -126, np.inf)}


def wrong_product(d, amax, tensors, words):
    """Returns a message about what is wrong with D and amax, or "". D is a float64 array, and amax was 0 before the call or is None."""
    y, lost = product(tensors, **words)
    scale = tensors.get("scale_result", np.float64(1)).reshape(())
    bits, least, greatest = _TYPES[words["out_dtype"]]
    wanted = np.clip(y * scale, -greatest, greatest)
    exponent = np.maximum(np.floor(np.log2(np.maximum(abs(wanted), 1e-300))), least)
    bound = 2.0**(exponent - bits - 1) * 1.01 + lost * abs(scale)  # half a step of rounding, plus the tolerance
    if d.shape != wanted.shape:
        return f"D has shape {d.shape}, expected {wanted.shape}"
    if d.size and not np.all(abs(d - wanted) <= bound):
        return f"D is wrong by {np.max(abs(d - wanted) / bound):.3} of the bound"
    if amax is not None:
        low, high = np.max(abs(y) - lost, initial=0), np.max(abs(y) + lost, initial=0)
        if not low <= amax <= high:
            return f"amax is {amax}, and the greatest |D| {low} to {high}"
        # The reported amax, scaled and clamped, must match the greatest stored value as exactly as the type allows.
        stored = np.max(abs(d), initial=0)
        if abs(np.clip(amax * abs(scale), 0, greatest) - stored) > stored * 2.0**(-bits - 1) * 1.0001 + 2.0**(least - bits - 1):
            return f"amax is {amax}, and the greatest |D| that is stored {stored}, of a scale of {scale}"
    return ""


def with_zeros(random, x):
    """Sets two of every four consecutive elements along the last dimension to zero."""
    order = random.random((*x.shape[:-1], x.shape[-1] // 4, 4)).argsort(-1)
    return np.where((order < 2).reshape(x.shape), x, 0).astype(x.dtype)

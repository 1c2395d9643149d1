"""The product of JAX's arrays, traced and not."""
import functools

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from .. import _ext, _product
from .._beside import NO_GRADIENT
from .._common import activation_of, fold, name_of, output_of
from .ffi import alike, check_arrays, described
from .ffi import device as traced_device
from .ffi import ffi_call, refuse_device

_TRANSPOSES = _ext.TRANSPOSE_A | _ext.TRANSPOSE_B


def turned(x):
    return jnp.swapaxes(x, -1, -2)


def call(a, b, c, bias, alpha, beta, activation, name, flags, beside=()):
    """A product of matrices or of batches of them, which lie by rows: (D,), or (D, amax) with what stands beside, in the order in
    which the extension takes that."""
    def as_it_lies(a, b, flags):
        rows, columns = a.shape[-1 if flags & _ext.TRANSPOSE_A else -2], b.shape[-2 if flags & _ext.TRANSPOSE_B else -1]
        shape = (*a.shape[:-2], rows, columns // 2 if flags & _ext.GATE else columns)
        given = described(a, b, c, bias, *beside)
        workspace = _product.workspace_of(traced_device(), *given[:2], (shape, name), *given[2:4], alpha, beta, activation, flags,
                                          given[4:])
        return shape, flags, a, b, workspace

    try:
        shape, flags, a, b, workspace = as_it_lies(a, b, flags)
    except ValueError:  # some types are multiplied along k alone
        a = turned(a) if flags & _ext.TRANSPOSE_A else a
        b = b if flags & _ext.TRANSPOSE_B else turned(b)
        shape, flags, a, b, workspace = as_it_lies(a, b, flags & ~_TRANSPOSES | _ext.TRANSPOSE_B)
    operands, results, aliases = [a, b], [(shape, name)], {}
    bits = [_ext.HAS_C, _ext.HAS_BIAS, *(_ext.HAS_BESIDE << i for i in range(len(beside)))]
    for x, bit in zip((c, bias, *beside), bits):
        if x is None:
            continue
        if bit == _ext.HAS_BESIDE << _ext.AMAX:
            aliases[len(operands)] = len(results)
            results.append((x.shape, "float32"))
        operands.append(x)
        flags |= bit
    return ffi_call("ptxbuilder_matmul", results, workspace, operands, [alpha, beta], [activation_of(activation), flags], aliases)


def _in_f32(function):
    return lambda z: function(z.astype(jnp.float32)).astype(z.dtype)


FUNCTIONS = {None: lambda x: x, "relu": jax.nn.relu, "gelu": functools.partial(jax.nn.gelu, approximate=True), "silu": jax.nn.silu}
_SMOOTH = {name: _in_f32(function) for name, function in FUNCTIONS.items() if name not in (None, "relu")}


@functools.lru_cache(maxsize=None)
def _function(alpha, beta, activation, name, flags):
    """The product of (a, b, c, bias) for what is known when it is traced, with its batches and its derivative."""
    transpose_a, transpose_b = bool(flags & _ext.TRANSPOSE_A), bool(flags & _ext.TRANSPOSE_B)
    words = {"precise": bool(flags & _ext.PRECISE), "tf32": bool(flags & _ext.TF32)}

    # jax.vmap: its dimension is one more of batches.
    @custom_vmap
    def batched(a, b, c, bias):
        return call(a, b, c, bias, alpha, beta, activation, name, flags)[0]

    @batched.def_vmap
    def _(size, is_mapped, a, b, c, bias):
        a = turned(a) if transpose_a else a
        b = turned(b) if transpose_b else b
        rank = max(a.ndim - is_mapped[0], b.ndim - is_mapped[1])

        def ahead(x, is_ahead):  # the new dimension first, of one element where there is none of it
            x = x if is_ahead else x[None]
            return x.reshape(x.shape[0], *(1,) * (rank + 1 - x.ndim), *x.shape[1:])

        a, b = ahead(a, is_mapped[0]), ahead(b, is_mapped[1])
        batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2], (size,) + (1,) * (rank - 2))
        shape = (*batch, a.shape[-2], b.shape[-1])
        by = beta
        if c is not None:
            c = jnp.broadcast_to(ahead(c, is_mapped[2]), shape)
        if bias is not None and is_mapped[3]:  # one of each: as part of C, which is
            bias = jnp.broadcast_to(ahead(bias, True), shape)
            bias, c, by = None, bias if c is None else (beta * c + bias).astype(bias.dtype), 1.0
        if batch != jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2]):
            a = jnp.broadcast_to(a, (*batch, *a.shape[-2:]))
        d = general(a, b, bias, c, alpha, by, activation, name, False, False, words["precise"], words["tf32"])
        return d, True

    @jax.custom_vjp
    def function(a, b, c, bias):
        return batched(a, b, c, bias)

    def forward(a, b, c, bias):
        if name.startswith("float8"):
            raise ValueError(NO_GRADIENT.format(f"out_dtype of {name}"))
        if activation in _SMOOTH:  # their derivatives are known from what they are applied to, which is kept
            z = _function(alpha, beta, None, name, flags)(a, b, c, bias)
            return _SMOOTH[activation](z), (a, b, c, bias, z)
        d = batched(a, b, c, bias)
        return d, (a, b, c, bias, d if activation == "relu" else None)

    def backward(saved, dz):
        a, b, c, bias, d = saved
        if a.dtype.itemsize == 1:
            raise ValueError(f"A and B of {a.dtype} have no gradients")
        if activation == "relu":
            dz = jnp.where(d > 0, dz, jnp.zeros_like(dz))
        elif activation in _SMOOTH:
            dz = jax.vjp(_SMOOTH[activation], d)[1](dz)[0]
        factor = dz.astype(b.dtype)

        def product(x, y, turn_x, turn_y):
            return general(x, y, None, None, alpha, 0.0, None, name_of(a.dtype), turn_x, turn_y, **words)

        da = product(b, factor, transpose_b, True) if transpose_a else product(factor, b, False, not transpose_b)
        db = product(factor, a, True, transpose_a) if transpose_b else product(a, factor, not transpose_a, False)
        dc = None if c is None else dz * jnp.asarray(beta, dz.dtype)
        d_bias = None if bias is None else dz.sum(tuple(range(dz.ndim - 1)))
        return da, db, dc, d_bias

    function.defvjp(forward, backward)
    return function


def folded(a, b, c, transpose_a, transpose_b):
    """(A, B, C, the flags of how A and B lie, the folded shape, the shape): as fold() has them, where they lie."""
    if a.ndim == b.ndim <= 3 and a.shape[:-2] == b.shape[:-2]:
        k, k_of_b = a.shape[-2 if transpose_a else -1], b.shape[-1 if transpose_b else -2]
        if a.ndim < 2 or k != k_of_b:
            fold(jnp.broadcast_shapes, jnp.broadcast_to, a, turned(b) if transpose_b else b)  # which says what is wrong
            raise ValueError(f"B: {k_of_b} rows, but A has {k} columns")
        flags = _ext.TRANSPOSE_A * bool(transpose_a) | _ext.TRANSPOSE_B * bool(transpose_b)
        shape = (*a.shape[:-2], a.shape[-1 if transpose_a else -2], b.shape[-2 if transpose_b else -1])
        return a, b, c, flags, shape, shape
    a = turned(a) if transpose_a else a
    a, b, c, whole, shape = fold(jnp.broadcast_shapes, jnp.broadcast_to, a, turned(b) if transpose_b else b, c)
    # B as it lay.
    return (a, turned(b), c, _ext.TRANSPOSE_B, whole, shape) if transpose_b else (a, b, c, 0, whole, shape)


@functools.partial(jax.jit, static_argnums=(4, 5, 6, 7, 8, 9, 10, 11))
def general(a, b, bias, c, alpha, beta, activation, name, transpose_a, transpose_b, precise, tf32):
    a, b, bias, c = alike(a, b, bias, c)
    a, b, c, flags, _, shape = folded(a, b, c, transpose_a, transpose_b)
    flags |= _ext.TF32 * bool(tf32) | _ext.PRECISE * bool(precise)
    d = _function(alpha, beta, activation, name, flags)(a, b, c, bias)
    return d if d.shape == shape else d.reshape(shape)


def check_known(out, device, **numbers):
    """What JAX's arrays have none of, and what has to be known when a product is traced."""
    if out is not None:
        raise ValueError("out: JAX's arrays are not written; leave it out")
    refuse_device(device)
    for name, value in numbers.items():
        if isinstance(value, jax.core.Tracer):
            raise ValueError(f"{name}: it is traced, and has to be known when the product is: multiply the operand or the result")


def matmul(a, b, out, bias, c, alpha, beta, activation, out_dtype, transpose_a, transpose_b, precise, tf32, device):
    check_known(out, device, beta=beta)
    check_arrays({"B": b}, bias=bias, C=c)
    name = name_of(out_dtype) if out_dtype is not None else output_of(name_of(a.dtype))
    activation_of(activation)
    return general(a, b, bias, c, float(alpha), float(beta), activation, name, bool(transpose_a), bool(transpose_b),
                   bool(precise), bool(tf32))

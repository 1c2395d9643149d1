"""Packed weights as JAX arrays. They are packed on the host; products with them may be traced or not."""
import functools
import math
from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jax.custom_derivatives import SymbolicZero

from .. import _ext, _numpy, _packed, _product
from .._common import activation_of, name_of, warn_of_work
from .._packed import PackedWeights
from .._product import NO_GRADIENT, Operands, Options
from .ffi import alike, check_arrays, described
from .ffi import device as traced_device
from .ffi import ffi_call, refuse_device
from .product import GREATEST, SMOOTH, factor_of, general, in_unit, summed_by_row

# Allows PackedWeights as an argument of a jitted function. The shape and the form are static when a product is traced.
jax.tree_util.register_pytree_node(PackedWeights, lambda b: ((b.data, b.scale_b), (b.shape, b.form)),
                                   lambda known, arrays: PackedWeights(*arrays, *known))

_BARE = Options(1.0, 0.0, None, "float32", False, True, False, False, False, None)  # for products with weights stored as [n, k]
_OTHERS = ("scale_b", "bias", "c", "offs", "a_rows")
_Words = namedtuple("_Words", "shape form alpha beta activation out_dtype others")  # `others` marks which of _OTHERS are given


def _call(a, data, *others, words):
    given = dict(zip(words.others, others))
    all_rows = math.prod(a.shape[:-1])
    shape = a.shape[:-1] if "a_rows" not in given else given["a_rows"].shape
    folded = (math.prod(shape), words.shape[-1])
    if "c" in given:
        given["c"] = given["c"].reshape(folded)
    operands = Operands(**given)
    rows = a.reshape(all_rows, a.shape[-1])
    if traced_device() == _ext.EMULATOR:
        warn_of_work(math.prod(folded) * words.shape[-2])
    options = _BARE._replace(alpha=words.alpha, beta=words.beta, activation=words.activation)
    flags = words.form << _ext.PACKED_FORM
    of_a, of_b, *others = described(rows, data, *operands)
    workspace = _product.workspace_of(traced_device(), of_a, of_b, (folded, words.out_dtype), options, flags, others)
    arrays = [rows, data]
    for i, x in enumerate(operands):
        if x is not None:
            arrays.append(x)
            flags |= _ext.HAS_OPERAND << i
    d, = ffi_call("ptxbuilder_matmul", [(folded, words.out_dtype)], workspace, arrays, [words.alpha, words.beta],
                  [activation_of(words.activation), flags])
    return d.reshape(*shape, folded[1])


def _numbers_of_groups(offs, rows):
    """Returns the index of each row's group; for a row without a group, the number of groups."""
    return jnp.searchsorted(jax.lax.cummax(jnp.clip(offs, 0, rows)), jnp.arange(rows, dtype=offs.dtype), side="right")


@functools.lru_cache(maxsize=None)
def _batched(words):
    """Returns a function of arrays that computes the product and supports jax.vmap, which merges batches of rows into the rows. `words` are
    known when it is traced."""
    product = custom_vmap(functools.partial(_call, words=words))

    @product.def_vmap
    def _(size, is_mapped, a, data, *others):
        mapped = dict(zip(("a", "data", *words.others), is_mapped))
        given = dict(zip(words.others, others))
        if mapped["data"] or mapped.get("scale_b"):
            raise ValueError("jax.vmap does not support packed weights of each batch: compute the products one by one")
        for word in given.keys() & {"offs", "a_rows"}:
            raise ValueError(f"{word} of packed weights is not supported under jax.vmap: compute the products one by one")

        def ahead(x, is_ahead):
            return x if is_ahead else jnp.broadcast_to(x, (size, *x.shape))

        a, beta = ahead(a, mapped["a"]), words.beta
        if "c" in given:
            given["c"] = ahead(given["c"], mapped["c"])
        if mapped.get("bias"):  # a bias for each batch is added to C
            bias = given.pop("bias")
            bias = jnp.broadcast_to(bias.reshape(size, *(1,) * (a.ndim - 2), -1), (*a.shape[:-1], words.shape[-1]))
            given["c"], beta = (beta * given["c"] + bias).astype(bias.dtype) if "c" in given else bias, 1.0
        names = tuple(name for name in _OTHERS if name in given)
        return _batched(words._replace(others=names, beta=beta))(a, data, *(given[name] for name in names)), True

    return product


@functools.lru_cache(maxsize=None)
def _function(words, type_of_a):
    """Returns the function that _batched() returns, together with its derivative."""
    is_smooth = words.activation in SMOOTH

    @jax.custom_vjp
    def function(*arrays):
        return _batched(words)(*arrays)

    def keep(*primals):
        for name, x in zip(words.others, primals[2:]):
            if name == "scale_b" and x.perturbed:
                raise ValueError(NO_GRADIENT.format("scale_b of packed weights"))
        if words.out_dtype in GREATEST:
            raise ValueError(NO_GRADIENT.format(f"out_dtype of {words.out_dtype}"))
        arrays = [x.value for x in primals]
        # The derivatives of smooth activations need the activations' inputs, which are kept.
        d = z = _batched(words._replace(activation=None) if is_smooth else words)(*arrays)
        if is_smooth:
            d = SMOOTH[words.activation](z)
        given = dict(zip(words.others, arrays[2:]))
        return d, (arrays[1], given.get("scale_b"), given.get("offs"), z if words.activation else None,
                   *((given["a_rows"], arrays[0]) if "a_rows" in given else (None, None)))

    def backward(kept, grad):
        data, scale_b, offs, z, a_rows, a = kept
        *experts, k, n = words.shape
        if isinstance(grad, SymbolicZero):
            grad = jnp.zeros(grad.shape, grad.dtype)
        dz = grad
        if is_smooth:
            dz, = jax.vjp(SMOOTH[words.activation], z)[1](grad)
        elif words.activation == "relu":
            dz = jnp.where(z > 0, grad, jnp.zeros_like(grad))
        numbers = None if offs is None else _numbers_of_groups(offs, dz.shape[0])
        if n * k == 0:
            da = jnp.zeros((*dz.shape[:-1], k), type_of_a)
        else:
            w, columns = _packed.columns_of(packed_kit, PackedWeights(data, scale_b, words.shape, words.form), type_of_a)
            if offs is not None:  # selects the column scales of each row's expert; the product of a row without an expert is 0
                columns = columns[jnp.minimum(numbers, experts[0] - 1)]
            rows = dz.reshape(-1, n).astype(jnp.float32) * (words.alpha * columns)
            like = jax.ShapeDtypeStruct((rows.shape[0], k), w.dtype)
            if offs is None:
                da, = jax.linear_transpose(lambda x: general(x, w, None, None, _BARE), like)(rows)
            else:
                factor, unit = factor_of(rows, w.dtype)
                da = in_unit(lambda dtype: _product.matmul(factor, w, offs=offs, out_dtype=dtype), unit, w.dtype)
            da = da.reshape(*dz.shape[:-1], k)
        if a_rows is not None:
            da = summed_by_row(a, a_rows, da)
        wide = dz.astype(jnp.float32)
        d_bias = (wide.sum(tuple(range(dz.ndim - 1))) if offs is None else
                  jnp.zeros((*experts, n), jnp.float32).at[numbers].add(wide, mode="drop"))
        of_others = {"scale_b": None, "bias": d_bias.astype(dz.dtype), "c": (words.beta * dz).astype(dz.dtype), "offs": None,
                     "a_rows": None}
        return da, None, *(of_others[name] for name in words.others)

    function.defvjp(keep, backward, symbolic_zeros=True)
    return function


@functools.partial(jax.jit, static_argnums=2)
def _jitted(a, others, words):
    return _function(words, name_of(a.dtype))(*alike(a, *others))


def packed_mm(a, b, bias, c, alpha, beta, activation, out, out_dtype, device, offs, a_rows):
    if out is not None:
        raise ValueError("out: JAX's arrays cannot be written: leave it out")
    refuse_device(device)
    check_arrays({"A": a, "B": b.data}, scale_b=b.scale_b, bias=bias, C=c, offs=offs, a_rows=a_rows)
    shape, name = _packed.result_of(a, b, out_dtype, a_rows)
    if c is not None and c.shape != shape:
        raise ValueError(f"C: its shape is {c.shape}, but that of the product is {shape}")
    given = {word: x for word, x in zip(_OTHERS, (b.scale_b, bias, c, offs, a_rows)) if x is not None}
    words = _Words(tuple(b.shape), b.form, float(alpha), float(beta), activation, name, tuple(given))
    return _jitted(a, (b.data, *given.values()), words)


class packed_kit:
    """The functions that packing uses. Weights are packed on the CPU, so arrays must not be traced, and are copied to the host and back."""
    permuted, stacked, where = jnp.transpose, jnp.stack, jnp.where
    tensor = staticmethod(_numpy.tensor)

    @staticmethod
    def check(required, **optional):
        check_arrays(required, **optional)
        for name, x in {**required, **optional}.items():
            if isinstance(x, jax.core.Tracer):
                raise ValueError(f"{name}: it is traced, but weights are packed and unpacked on the host: do this once, outside of jax.jit")

    @staticmethod
    def cast(x, name):
        return x.astype(name)

    @staticmethod
    def of_bytes(x, name):
        """Returns the elements whose bytes are along the last dimension of x."""
        return jax.lax.bitcast_convert_type(x[..., 0] if x.shape[-1] == 1 else x, jnp.dtype(name))

    @staticmethod
    def greatest(x):
        return jnp.abs(x).max(1)

    @staticmethod
    def empty(shape, name):
        return np.empty(shape, _numpy.dtype_of(name))

    @staticmethod
    def on_host(x):
        return np.ascontiguousarray(x)

    @staticmethod
    def back(x, like):
        place, *others = like.devices()
        return jnp.asarray(x) if others else jax.device_put(x, place)

    @staticmethod
    def floats(x):
        return jnp.asarray(x, jnp.float32)

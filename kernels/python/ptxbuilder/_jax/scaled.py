"""Products of JAX's arrays with scales, an amax, a gate or a slope: one call, and in pieces where a gradient or a batch is asked for."""
import functools
import types

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from .. import _ext
from .._beside import NO_GRADIENT, Beside, factors, halved, laid, one
from .._common import activation_of, name_of, output_of
from .ffi import alike, check_arrays
from .product import FUNCTIONS, call, check_known, folded, general, turned

_KIT = types.SimpleNamespace(broadcast_to=jnp.broadcast_to, compact=lambda x: x)
_GREATEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}


def _beside_of(t, alpha, gate):
    return Beside(t.get("alpha", alpha), *(t.get(name) for name in Beside._fields[1:-1]), gate)


def _lines(a, b):
    """The shapes of the scales: A's and B's without k."""
    return a.shape[:-1], (*b.shape[:-2], b.shape[-1])


@functools.lru_cache(maxsize=None)
def _function(alpha, beta, activation, name, transpose_a, transpose_b, precise, tf32, gate):
    """The product of tensors by name, for what is known when it is traced: (D,) or (D, amax)."""
    def whole(t):
        rows, columns = _lines(turned(t["a"]) if transpose_a else t["a"], turned(t["b"]) if transpose_b else t["b"])
        a, b, c, flags, shape_of_call, shape = folded(t["a"], t["b"], t.get("c"), transpose_a, transpose_b)
        number, besides, slope_of = laid(_KIT, _beside_of(t, alpha, gate), rows, columns, shape_of_call, shape)
        shape = halved(shape) if gate else shape
        flags |= _ext.TF32 * tf32 | _ext.PRECISE * precise | _ext.GATE * gate
        d, *amax = call(a, b, c, t.get("bias"), number, beta, activation, name, flags, (*besides, slope_of))
        return (d.reshape(shape), *amax)

    def pieces(t):
        a, b = turned(t["a"]) if transpose_a else t["a"], turned(t["b"]) if transpose_b else t["b"]
        ones, scale_a, scale_b = factors(_beside_of(t, alpha, gate), *_lines(a, b))
        x = general(t["a"], t["b"], None, None, 1.0, 0.0, None, "float32", transpose_a, transpose_b, precise, tf32)
        x = x if "alpha" in t else alpha * x
        for factor in ones:
            x = x * factor.reshape(())
        x = x if scale_a is None else x * scale_a[..., :, None]
        x = x if scale_b is None else x * scale_b[..., None, :]
        x = x + beta * t["c"].astype(x.dtype) if "c" in t else x
        x = x + t["bias"].astype(x.dtype) if "bias" in t else x
        function = FUNCTIONS[activation]
        if gate:
            halved(x.shape)  # which says what is wrong
            y = function(x[..., 0::2]) * x[..., 1::2]
        elif "slope_of" in t:
            inputs = t["slope_of"].astype(x.dtype)
            y = x * jax.vjp(function, inputs)[1](jnp.ones_like(inputs))[0]
        else:
            y = function(x)
        d = y * t["scale_result"].reshape(()) if "scale_result" in t else y
        d = jnp.clip(d, -_GREATEST[name], _GREATEST[name]) if name in _GREATEST else d
        amax = (jnp.maximum(t["amax"], jnp.abs(y).max(initial=0)),) if "amax" in t else ()
        return (d.astype(name), *amax)

    @custom_vmap
    def batched(t):
        return whole(t)

    @batched.def_vmap
    def _(size, is_mapped, t):
        is_mapped = dict(zip(sorted(t), jax.tree.leaves(is_mapped)))
        one_of_all = {n: jax.ShapeDtypeStruct(x.shape[1:] if is_mapped[n] else x.shape, x.dtype) for n, x in t.items()}
        jax.eval_shape(whole, one_of_all)  # which says what is wrong
        results = jax.vmap(pieces, ({n: 0 if is_mapped[n] else None for n in t},), axis_size=size)(t)
        return results, (True,) * len(results)

    @jax.custom_vjp
    def function(t):
        return batched(t)

    def forward(t):
        for n in ("amax", "scale_result"):
            if n in t:
                raise ValueError(NO_GRADIENT.format(n))
        if name in _GREATEST:
            raise ValueError(NO_GRADIENT.format(f"out_dtype of {name}"))
        jax.eval_shape(whole, t)  # which says what is wrong
        return jax.vjp(pieces, t)

    function.defvjp(forward, lambda back, d: back(d))
    return function


@functools.partial(jax.jit, static_argnums=(1, 2, 3, 4, 5, 6, 7, 8, 9))
def _jitted(t, *words):
    return _function(*words)(dict(zip(t, alike(*t.values()))))


def matmul_beside(a, b, out, bias, c, beta, activation, out_dtype, transpose_a, transpose_b, precise, tf32, device, beside):
    check_known(out, device, beta=beta)
    check_arrays({"B": b}, bias=bias, C=c, **dict(zip(Beside._fields[1:4], beside[1:4])), slope_of=beside.slope_of)
    number = 1.0 if isinstance(beside.alpha, jax.Array) else float(beside.alpha)
    amax = {True: jnp.zeros((), jnp.float32), False: None}[beside.amax] if isinstance(beside.amax, bool) else one("amax", beside.amax)
    tensors = dict(a=a, b=b, bias=bias, c=c, **beside._asdict())
    alpha = beside.alpha if isinstance(beside.alpha, jax.Array) else None
    if alpha is not None and alpha.weak_type:  # a number of Python's that is traced
        alpha = alpha.astype(jnp.float32)
    tensors |= {"alpha": alpha, "amax": amax}
    del tensors["gate"]
    name = name_of(out_dtype) if out_dtype is not None else output_of(name_of(a.dtype))
    activation_of(activation)
    results = _jitted({n: x for n, x in tensors.items() if x is not None}, number, float(beta), activation, name, bool(transpose_a),
                      bool(transpose_b), bool(precise), bool(tf32), bool(beside.gate))
    return results if len(results) > 1 else results[0]

"""Convolutions of JAX arrays and their gradients. The gradients of these gradients are again convolutions."""
import functools
import math

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from .. import _convolution, _ext
from .._common import activation_of, name_of, warn_of_work
from .ffi import alike, check_arrays, described
from .ffi import device as traced_device
from .ffi import ffi_call, refuse_device
from .product import SMOOTH, factor_of, in_unit

_FUNCTIONS = {None: lambda z: z, "relu": jax.nn.relu, **SMOOTH}


def _computed(result, given, bias, shape, name, words):
    """Computes x, w or y, depending on `result`, with the given shape and type. `given` holds the other two, in this order."""
    if 0 in shape or any(0 in x.shape for x in given):
        return jnp.zeros(shape, name)
    n, channels, lines, pixels = shape
    made, given = ((n, lines, pixels, channels), name), [jnp.transpose(x, (0, 2, 3, 1)) for x in given]
    others = iter(described(*given))
    x, w, y = (made if which == result else next(others) for which in "xwy")
    if traced_device() == _ext.EMULATOR:
        warn_of_work(math.prod(y[0]) * math.prod(w[0][1:]))
    workspace = _convolution.workspace_of(traced_device(), x, w, y, *described(bias), result, words)
    numbers = [_convolution.RESULTS[result], activation_of(words.activation), words.flags(), *words.windows, words.groups]
    d, = ffi_call("ptxbuilder_convolution", [made], workspace, given if bias is None else [*given, bias], [], numbers,
                  vmap_method="sequential")
    return jnp.transpose(d, (0, 3, 1, 2))


# A function is created for each form of a call, because everything except arrays is known when the call is traced. Forward rules use the
# same functions to compute the values that they keep, so that these can be differentiated again.


@functools.lru_cache(maxsize=None)
def _gradient(result, shape, name, windows, groups):
    """Returns a function that computes the gradient of x or of w. It is linear in the other operand and in the incoming gradient."""
    words = _convolution.Words(windows, groups)

    def backward(saved, seed):
        other, grad = saved
        factor, unit = factor_of(seed, other.dtype)

        def of_other(dtype):
            return _gradient("w" if result == "x" else "x", other.shape, name_of(dtype), windows, groups)(factor, grad)

        def of_grad(dtype):
            x, w = (factor, other) if result == "x" else (other, factor)
            return _convolved(x.shape, w.shape, name_of(dtype), None, windows, groups)(x, w, None)

        return in_unit(of_other, unit, other.dtype), in_unit(of_grad, unit, grad.dtype)

    function = jax.custom_vjp(lambda other, grad: _computed(result, (other, grad), None, shape, name, words))
    function.defvjp(lambda other, grad: (function(other, grad), (other, grad)), backward)
    return function


@functools.lru_cache(maxsize=None)
def _convolved(of_x, of_w, name, activation, windows, groups, precise=False, tf32=False):
    """Returns a function that computes y from x and w, with these shapes, and from bias, which may be None. The backward pass of an
    activation needs the activation's input."""
    words = _convolution.Words(windows, groups, activation, name, precise, tf32)

    def keep(x, w, bias):
        is_for_x, x, w, bias = x.perturbed, x.value, w.value, None if bias is None else bias.value
        if x.dtype not in (jnp.float16, jnp.bfloat16):
            raise ValueError(f"conv2d: x of {x.dtype} has no gradient; it must be f16 or bf16: pass jax.lax.stop_gradient(x)")
        if is_for_x:
            words.check_gradient(of_x, of_w)
        z = _convolved(of_x, of_w, name, None, windows, groups, precise, tf32)(x, w, bias)
        return _FUNCTIONS[activation](z), (x, w if is_for_x else None, bias, z if activation else None)

    def backward(saved, grad):
        x, w, bias, z = saved
        if isinstance(grad, SymbolicZero):
            return None, None, None
        if activation:
            grad, = jax.vjp(_FUNCTIONS[activation], z)[1](grad)
        factor, unit = factor_of(grad, x.dtype)

        def gradient(result, other, shape):
            return in_unit(lambda dtype: _gradient(result, shape, name_of(dtype), windows, groups)(other, factor), unit, x.dtype)

        return (None if w is None else gradient("x", w, of_x), gradient("w", x, of_w),
                None if bias is None else grad.astype(jnp.float32).sum((0, 2, 3)).astype(bias.dtype))

    function = jax.custom_vjp(lambda x, w, bias: _computed("y", (x, w), bias, words.shape_of(of_x, of_w), name, words))
    function.defvjp(keep, backward, symbolic_zeros=True)
    return function


@functools.partial(jax.jit, static_argnums=range(6))
def _jitted(name, activation, windows, groups, precise, tf32, x, w, bias):
    x, w, bias = alike(x, w, bias)
    return _convolved(x.shape, w.shape, name, activation, windows, groups, precise, tf32)(x, w, bias)


def conv2d(x, w, bias, words):
    refuse_device(words.device)
    check_arrays({"x": x, "w": w}, bias=bias)
    x, w, bias = (None if one is None else jnp.asarray(one) for one in (x, w, bias))
    return _jitted(words.type_of(x), words.activation, words.windows, words.groups, bool(words.precise), bool(words.tf32), x, w, bias)

"""Attention on JAX's arrays, traced and not."""
import functools

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.custom_derivatives import SymbolicZero

from .. import _attention, _ext
from .._common import name_of, warn_of_work
from .ffi import alike, check_arrays, described
from .ffi import device as traced_device
from .ffi import ffi_call, refuse_device


def _call(q, k, v, offsets, numbers, return_lse):
    """A tuple of O and, where it is asked for, lse."""
    *numbers, flags = numbers
    offsets = offsets or (None, None)
    given = described(q, k, v, *offsets)
    if traced_device() == _ext.EMULATOR:
        warn_of_work(_attention.multiply_adds(q.shape, k.shape, v.shape, (*numbers, flags)))
    workspace = _attention.workspace_of(traced_device(), *given[:3], given[3:], (*numbers, flags), return_lse)
    shape, lse_shape = _attention.shapes_of(q.shape, v.shape, flags)
    results = [(shape, name_of(q.dtype))] + [(lse_shape, "float32")] * return_lse
    flags |= _ext.HAS_LSE * return_lse
    operands = [x for x in (q, k, v, *offsets) if x is not None]
    floats = [x for x in numbers if isinstance(x, float)]
    return tuple(ffi_call("ptxbuilder_attention", results, workspace, operands, floats, [*numbers[len(floats):], flags]))


def _gradients(q, k, v, o, lse, grad, *rest, numbers, has_lse_grad):
    """Those of Q, K and V; `rest` has the offsets of packed sequences, and the gradient of lse."""
    *numbers, flags = numbers
    given = described(q, k, v)
    offsets = described(*(rest[:2] if flags & _ext.PACKED else (None, None)))
    if traced_device() == _ext.EMULATOR:
        warn_of_work(5 * _attention.multiply_adds(q.shape, k.shape, v.shape, (*numbers, flags)) // 2)
    workspace = _attention.gradient_workspace_of(traced_device(), *given, offsets, (*numbers, flags), has_lse_grad)
    flags |= _ext.HAS_LSE * has_lse_grad
    floats = [x for x in numbers if isinstance(x, float)]
    return tuple(ffi_call("ptxbuilder_attention_gradient", given, workspace, (q, k, v, o, lse, grad, *rest), floats,
                          [*numbers[len(floats):], flags]))


def _batched(function, refuses):
    """The function of arrays whose first dimension is that of batches, under jax.vmap; `refuses` says that there is no such dimension."""
    mapped = custom_vmap(function)

    @mapped.def_vmap
    def _(size, is_mapped, *arrays):
        if refuses:
            raise ValueError("packed sequences under jax.vmap: pack them together instead")

        def folded(x, is_ahead):  # the new dimension and that of batches as one
            x = x if is_ahead else jnp.broadcast_to(x, (size, *x.shape))
            return x.reshape(-1, *x.shape[2:])

        results = mapped(*map(folded, arrays, is_mapped))
        return tuple(x.reshape(size, -1, *x.shape[1:]) for x in results), (True,) * len(results)

    return mapped


@functools.lru_cache(maxsize=None)
def _function(numbers, return_lse):
    """Attention of (q, k, v, *offsets) for what is known when it is traced, with its batches and its derivative."""
    is_packed = bool(numbers[-1] & _ext.PACKED)

    def forward(q, k, v, *offsets, keeps=return_lse):
        return _call(q, k, v, offsets, numbers, keeps)

    batched = _batched(forward, is_packed)
    with_lse = _batched(functools.partial(forward, keeps=True), is_packed)
    gradients = [_batched(functools.partial(_gradients, numbers=numbers, has_lse_grad=has), is_packed) for has in (False, True)]

    @jax.custom_vjp
    def function(q, k, v, *offsets):
        return batched(q, k, v, *offsets)

    def keep(*primals):
        q, k, v, *offsets = (x.value for x in primals)
        o, lse = with_lse(q, k, v, *offsets)
        return (o, lse)[:1 + return_lse], (q, k, v, o, lse, *offsets)

    def backward(kept, given):
        q, k, v, o, lse, *offsets = kept
        grad, *of_lse = given
        of_lse = [x for x in of_lse if not isinstance(x, SymbolicZero)]
        if isinstance(grad, SymbolicZero):
            if not of_lse:
                return *map(jnp.zeros_like, (q, k, v)), *[None] * len(offsets)
            grad = jnp.zeros_like(o)
        return *gradients[len(of_lse)](q, k, v, o, lse, grad, *offsets, *of_lse), *[None] * len(offsets)

    function.defvjp(keep, backward, symbolic_zeros=True)
    return function


@functools.partial(jax.jit, static_argnums=(4, 5))
def _jitted(q, k, v, offsets, numbers, return_lse):
    q, k, v, *offsets = alike(q, k, v, *offsets)
    return _function(numbers, return_lse)(q, k, v, *(x for x in offsets if x is not None))


def attention(q, k, v, query_offsets, key_offsets, numbers, return_lse, out, device):
    if out is not None:
        raise ValueError("out: JAX's arrays are not written; leave it out")
    refuse_device(device)
    check_arrays({"K": k, "V": v}, query_offsets=query_offsets, key_offsets=key_offsets)
    if query_offsets is not None and traced_device() == _ext.EMULATOR and not isinstance(query_offsets, jax.core.Tracer) and (
            not isinstance(key_offsets, jax.core.Tracer)):
        _attention.check_packed(q, k, query_offsets, key_offsets, numbers)
    results = _jitted(q, k, v, (query_offsets, key_offsets), numbers, bool(return_lse))
    return results if return_lse else results[0]

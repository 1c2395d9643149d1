"""Attention on JAX's arrays, traced and not."""
import functools

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from .. import _attention, _ext
from .._common import name_of, warn_of_work
from .ffi import alike, check_arrays, described
from .ffi import device as traced_device
from .ffi import ffi_call, refuse_device


def _call(q, k, v, offsets, numbers, return_lse):
    """A tuple of O and, where it is asked for, lse."""
    *numbers, flags = numbers
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


@functools.lru_cache(maxsize=None)
def _function(numbers, return_lse):
    """Attention of (q, k, v, offsets) for what is known when it is traced, with its batches, and without a derivative."""
    @custom_vmap
    def batched(q, k, v, offsets):
        return _call(q, k, v, offsets, numbers, return_lse)

    @batched.def_vmap
    def _(size, is_mapped, q, k, v, offsets):
        if numbers[-1] & _ext.PACKED:
            raise ValueError("packed sequences under jax.vmap: pack them together instead")

        def folded(x, is_ahead):  # the new dimension and that of batches as one
            x = x if is_ahead else jnp.broadcast_to(x, (size, *x.shape))
            return x.reshape(-1, *x.shape[2:])

        results = function(*map(folded, (q, k, v), is_mapped), offsets)
        return tuple(x.reshape(size, -1, *x.shape[1:]) for x in results), (True,) * len(results)

    @jax.custom_jvp
    def function(q, k, v, offsets):
        return batched(q, k, v, offsets)

    @function.defjvp
    def _(*_):
        raise ValueError(_attention.NO_GRADIENT)

    return function


@functools.partial(jax.jit, static_argnums=(4, 5))
def _jitted(q, k, v, offsets, numbers, return_lse):
    q, k, v, *offsets = alike(q, k, v, *offsets)
    return _function(numbers, return_lse)(q, k, v, tuple(offsets))


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

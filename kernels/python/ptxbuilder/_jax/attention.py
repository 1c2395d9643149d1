"""Attention on JAX arrays, traced or not."""
import functools

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.custom_derivatives import SymbolicZero

from .. import _attention, _ext
from .._common import warn_of_work
from .ffi import alike, check_arrays, described
from .ffi import device as traced_device
from .ffi import ffi_call, refuse_device


def _flags_of(extras):
    return sum(getattr(_ext, "HAS_" + name.upper()) for name in _attention.Extras._fields[2:]  # the extras after the offsets
               if getattr(extras, name) is not None)


def _call(q, k, v, extras, numbers, return_lse):
    """Returns a tuple of O and, if requested, lse."""
    *numbers, flags = numbers
    given = described(q, k, v, *extras)
    if traced_device() == _ext.EMULATOR:
        warn_of_work(_attention.multiply_adds(q.shape, k.shape, v.shape, (*numbers, flags)))
    workspace = _attention.workspace_of(traced_device(), *given[:3], given[3:], (*numbers, flags), return_lse)
    shape, lse_shape = _attention.shapes_of(q.shape, v.shape, flags)
    results = [(shape, _attention.result_type(q.dtype))] + [(lse_shape, "float32")] * return_lse
    flags |= _ext.HAS_LSE * return_lse | _flags_of(extras)
    operands = [x for x in (q, k, v, *extras) if x is not None]
    floats = [x for x in numbers if isinstance(x, float)]
    return tuple(ffi_call("ptxbuilder_attention", results, workspace, operands, floats, [*numbers[len(floats):], flags]))


def _gradients(q, k, v, o, lse, grad, *rest, extras, numbers, has_lse_grad):
    """Returns the gradients of Q, K, V and sinks. `rest` has the given extras, in the order of the names in `extras`, and then the gradient
    of lse if there is one."""
    *numbers, flags = numbers
    given = described(q, k, v)
    extras = _filled(extras, rest)
    further = described(*extras)
    if traced_device() == _ext.EMULATOR:
        warn_of_work(5 * _attention.multiply_adds(q.shape, k.shape, v.shape, (*numbers, flags)) // 2)
    workspace = _attention.gradient_workspace_of(traced_device(), *given, further, (*numbers, flags), has_lse_grad)
    flags |= _ext.HAS_LSE * has_lse_grad | _flags_of(extras)
    floats = [x for x in numbers if isinstance(x, float)]
    results = given if extras.sinks is None else [*given, _attention.Extras(*further).sinks]
    return tuple(ffi_call("ptxbuilder_attention_gradient", results, workspace, (q, k, v, o, lse, grad, *rest), floats,
                          [*numbers[len(floats):], flags]))


def _filled(there, arrays):
    """Returns the Extras from arrays that begin with the given extras. `there` marks which extras were given."""
    arrays = iter(arrays)
    return _attention.Extras(*(next(arrays) if is_given else None for is_given in there))


def _batched(function, refuses):
    """Returns a function of arrays whose first dimension is the batches, with a rule for jax.vmap. `refuses` is true if other arrays are
    among the arguments; the rule then rejects the call."""
    mapped = custom_vmap(function)

    @mapped.def_vmap
    def _(size, is_mapped, *arrays):
        if refuses:
            raise ValueError("packed sequences, sinks, dropout and caches are not supported under jax.vmap: pass all batches in one call "
                             "instead")

        def folded(x, is_ahead):  # merges the new dimension into the batches
            x = x if is_ahead else jnp.broadcast_to(x, (size, *x.shape))
            return x.reshape(-1, *x.shape[2:])

        results = mapped(*map(folded, arrays, is_mapped))
        return tuple(x.reshape(size, -1, *x.shape[1:]) for x in results), (True,) * len(results)

    return mapped


@functools.lru_cache(maxsize=None)
def _function(there, numbers, return_lse):
    """Returns attention as a function of (q, k, v, *extras) with the extras that `there` marks. The function supports jax.vmap and has a
    derivative. `numbers` are known when it is traced."""
    def forward(q, k, v, *given, keeps=return_lse):
        return _call(q, k, v, _filled(there, given), numbers, keeps)

    batched = _batched(forward, any(there))
    with_lse = _batched(functools.partial(forward, keeps=True), any(there))
    gradients = [_batched(functools.partial(_gradients, extras=there, numbers=numbers, has_lse_grad=has), any(there))
                 for has in (False, True)]

    @jax.custom_vjp
    def function(q, k, v, *given):
        return batched(q, k, v, *given)

    def keep(*primals):
        q, k, v, *given = (x.value for x in primals)
        if (kind := _attention.without_gradient(q, k, v, _filled(there, given))) and any(x.perturbed for x in primals):
            raise ValueError(f"{kind} has no gradient, but one is requested: pass jax.lax.stop_gradient(x)")
        o, lse = with_lse(q, k, v, *given)
        return (o, lse)[:1 + return_lse], (q, k, v, o, lse, *given)

    def of_given(dsinks):
        """Returns the gradients of the given extras; None for integers."""
        names = [name for name, is_given in zip(_attention.Extras._fields, there) if is_given]
        return [dsinks if name == "sinks" else None for name in names]

    def backward(kept, given):
        q, k, v, o, lse, *extras = kept
        grad, *of_lse = given
        of_lse = [x for x in of_lse if not isinstance(x, SymbolicZero)]
        if isinstance(grad, SymbolicZero):
            if not of_lse:
                sinks = _filled(there, extras).sinks
                return *map(jnp.zeros_like, (q, k, v)), *of_given(None if sinks is None else jnp.zeros_like(sinks))
            grad = jnp.zeros_like(o)
        dq, dk, dv, *dsinks = gradients[len(of_lse)](q, k, v, o, lse, grad, *extras, *of_lse)
        return dq, dk, dv, *of_given(*(dsinks or [None]))

    function.defvjp(keep, backward, symbolic_zeros=True)
    return function


@functools.partial(jax.jit, static_argnums=(4, 5))
def _jitted(q, k, v, extras, numbers, return_lse):
    q, k, v, *extras = alike(q, k, v, *extras)
    there = tuple(x is not None for x in extras)
    return _function(there, numbers, return_lse)(q, k, v, *(x for x in extras if x is not None))


def attention(q, k, v, extras, numbers, return_lse, out, device):
    if out is not None:
        raise ValueError("out: JAX's arrays cannot be written: leave it out")
    if v is None:
        raise ValueError("mla_decode: the tensors must be PyTorch's, numpy's or CuPy's, but these are JAX's")
    refuse_device(device)
    extras = _attention.seeded(extras, _attention.dropout_of(numbers), lambda words: jnp.array(words, jnp.int32))
    query_offsets, key_offsets, *_ = extras
    check_arrays({"K": k, "V": v}, **extras._asdict())
    if query_offsets is not None and traced_device() == _ext.EMULATOR and not isinstance(query_offsets, jax.core.Tracer) and (
            not isinstance(key_offsets, jax.core.Tracer)):
        _attention.check_packed(q, k, query_offsets, key_offsets, numbers)
    results = _jitted(q, k, v, tuple(extras), numbers, bool(return_lse))
    return results if return_lse else results[0]

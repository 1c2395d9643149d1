"""Attention on PyTorch tensors, called directly in eager mode and as torch.ops.ptxbuilder.attention while PyTorch is tracing."""
import functools

import torch
from torch import library as operators
from torch.utils.flop_counter import register_flop_formula

from .. import _attention, _ext
from . import tensors
from .tensors import (NO_OUT, PLACES, PLAIN, applied, autocast_of, check_meta, check_operands, has_transforms, is_compiling, is_dual, is_plain,
                      is_watched, library, narrowed, place_of, refuse_negative, requires_grad, there)


@tensors.named("ptxbuilder::attention")
def attention(q, k, v, extras, numbers, return_lse, out, device):
    dtype = autocast_of(q) if out is None and isinstance(q, torch.Tensor) and q.dtype == torch.float32 else None
    if dtype is not None:
        q, k, v = (x if x is None else narrowed(x, dtype) for x in (q, k, v))
    if torch.are_deterministic_algorithms_enabled():
        numbers = (*numbers[:-1], numbers[-1] | _ext.DETERMINISTIC)
    if _attention.dropout_of(numbers) != 0 or extras.dropout_seed is not None:
        extras = _attention.seeded(extras, _attention.dropout_of(numbers), *_seeds(q))
    asks = requires_grad(q, k, v, out) or extras is not _attention.NO_EXTRAS and requires_grad(*extras)
    if asks and (kind := _attention.without_gradient(q, k, v, extras)):
        raise ValueError(f"{kind} has no gradient, but an argument requires one: call it under torch.no_grad()")
    if (is_compiling() or type(q) not in PLAIN or type(k) not in PLAIN or not is_plain(v) or is_watched()
            or not is_plain(out) or (extras is not _attention.NO_EXTRAS and not all(is_plain(x) for x in extras))):
        check_operands(_attention.operands_of(q, k, v), **extras._asdict(), out=out)
        if out is not None:
            raise ValueError("out cannot be given while PyTorch traces, since attention allocates its result: leave it out")
        needs_lse = bool(return_lse) or asks  # the gradient needs lse
        o, lse = torch.ops.ptxbuilder.attention(q, k, v, *extras, *numbers, needs_lse, place_of(device, q, "Q"))
        return (o, lse) if return_lse else o
    if asks or has_transforms() is not None or is_dual():
        if out is not None:
            raise ValueError(NO_OUT)
        o, lse = applied(_Attention, q, k, v, *extras, numbers, device)
        return (o, lse) if return_lse else o
    refuse_negative(out=out)
    try:
        return _attention.run(tensors, q, k, v, extras, numbers, return_lse, out, device)
    except Exception:
        check_operands(_attention.operands_of(q, k, v), **extras._asdict(), out=out)
        raise


def _seeds(q):
    """Returns two functions: one creates a seed's tensor from words, and the other draws a random seed with PyTorch's default generator."""
    return (lambda words: torch.tensor(words, dtype=torch.int32, device=q.device),
            lambda: torch.randint(-1 << 31, 1 << 31, (4,), dtype=torch.int32, device=q.device))


def _keep(ctx, inputs, output):
    q, k, v, *rest = inputs
    extras, numbers = rest[:len(_attention.Extras._fields)], rest[len(_attention.Extras._fields):]
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(q, k, v, *output, *extras)
    return numbers


def _gradients(ctx, call, grad, grad_of_lse, numbers, device):
    """Returns the gradients of Q, K, V and the extras."""
    of_extras = dict.fromkeys(_attention.Extras._fields)
    if grad is None and grad_of_lse is None:
        return None, None, None, *of_extras.values()
    q, k, v, o, lse, *extras = ctx.saved_tensors
    grad = torch.zeros_like(o) if grad is None else grad
    dq, dk, dv, *dsinks = call(q, k, v, o, lse, grad, *extras, grad_of_lse, numbers, device)
    of_extras["sinks"] = dsinks[0] if _attention.Extras(*extras).sinks is not None else None
    return dq, dk, dv, *of_extras.values()


def _folded(info, dims, *tensors):
    """Merges the dimension that torch.func.vmap maps over into the batches."""
    def folded(x, dim):
        if x is None:
            return None
        x = x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
        return x.flatten(0, 1)

    return map(folded, tensors, dims)


def _unfolded(info, results):
    return tuple(x.unflatten(0, (info.batch_size, -1)) for x in results), (0,) * len(results)


def _check_vmap(extras):
    if any(x is not None for x in extras):
        raise ValueError("packed sequences, sinks, dropout and caches are not supported under torch.func.vmap: pass all batches in one "
                         "call instead")


class _Attention(torch.autograd.Function):
    """Computes O and lse."""

    @staticmethod
    def forward(q, k, v, *rest):
        *extras, numbers, device = rest
        return _attention.run(tensors, q, k, v, _attention.Extras(*extras), numbers, True, None, device)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.numbers, ctx.device = _keep(ctx, inputs, output)

    @staticmethod
    def backward(ctx, grad, grad_of_lse):
        return *_gradients(ctx, functools.partial(applied, _Gradient), grad, grad_of_lse, ctx.numbers, ctx.device), None, None

    @staticmethod
    def vmap(info, in_dims, q, k, v, *rest):
        *extras, numbers, device = rest
        _check_vmap(extras)
        return _unfolded(info, _Attention.apply(*_folded(info, in_dims, q, k, v), *extras, numbers, device))


class _Gradient(torch.autograd.Function):
    """Computes the gradients of Q, K, V and sinks. The gradients themselves are not differentiable."""

    @staticmethod
    def forward(q, k, v, o, lse, grad, *rest):
        *extras, lse_grad, numbers, device = rest
        return _attention.run_gradient(tensors, q, k, v, o, lse, grad, _attention.Extras(*extras), lse_grad, numbers, device)

    setup_context = staticmethod(lambda ctx, inputs, output: None)

    @staticmethod
    def backward(ctx, *_):
        raise ValueError("pb.attention has no second derivative")

    @staticmethod
    def vmap(info, in_dims, *operands_numbers_device):
        *operands, numbers, device = operands_numbers_device
        _check_vmap(operands[6:-1])
        return _unfolded(info, _Gradient.apply(*_folded(info, in_dims, *operands), numbers, device))


# ---- The operations for PyTorch's tracers ----

_words = ", ".join(f"{'Scalar' if isinstance(unsaid, float) else 'SymInt'} {name}"
                   for name, unsaid in _ext.ATTENTION_NUMBERS.items())
_extras = ", ".join(f"Tensor? {name}" for name in _attention.Extras._fields)
library.define(f"attention(Tensor q, Tensor k, Tensor? v, {_extras}, {_words}, int flags, "
               "bool return_lse, str? device) -> (Tensor, Tensor)")


def _split(rest):
    """Returns the extras, and the arguments that follow them."""
    count = len(_attention.Extras._fields)
    return _attention.Extras(*rest[:count]), rest[count:]


def _op(q, k, v, *rest):
    extras, (*numbers, return_lse, device) = _split(rest)
    result = _attention.run(tensors, q, k, v, extras, numbers, return_lse, None, there(device, q))
    return result if return_lse else (result, q.new_empty(0, dtype=torch.float32))


for _place in PLACES:
    library.impl("attention", _op, _place)


@operators.register_fake("ptxbuilder::attention", lib=library)
def _(q, k, v, *rest):
    extras, (*_, flags, return_lse, _) = _split(rest)
    check_meta(q, k, v, *extras)
    shape, lse_shape = _attention.shapes_of(q.shape, _attention.shape_of_values(k.shape, v), flags)
    dtype = torch.bfloat16 if q.dtype == torch.float8_e4m3fn else q.dtype
    return q.new_empty(shape, dtype=dtype), q.new_empty(lse_shape if return_lse else 0, dtype=torch.float32)


@register_flop_formula(torch.ops.ptxbuilder.attention)
def _(q, k, v, *rest, out_shape=None):
    v = _attention.shape_of_values(k, None) if v is None else v
    return 2 * _attention.multiply_adds(q, k, v, _split(rest)[1][:-2])


# The last result is empty if there are no sinks.
library.define(f"attention_gradient(Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor grad, {_extras}, Tensor? lse_grad, "
               f"{_words}, int flags, str? device) -> (Tensor, Tensor, Tensor, Tensor)")


def _gradient_op(q, k, v, o, lse, grad, *rest):
    extras, (lse_grad, *numbers, device) = _split(rest)
    found = _attention.run_gradient(tensors, q, k, v, o, lse, grad, extras, lse_grad, numbers, there(device, q))
    return found if extras.sinks is not None else (*found, lse.new_empty(0))


for _place in PLACES:
    library.impl("attention_gradient", _gradient_op, _place)


@operators.register_fake("ptxbuilder::attention_gradient", lib=library)
def _(q, k, v, o, lse, grad, *rest):
    extras, (lse_grad, *_) = _split(rest)
    check_meta(q, k, v, o, lse, grad, *extras, lse_grad)
    return (*(x.new_empty(x.shape) for x in (q, k, v)), lse.new_empty(0 if extras.sinks is None else extras.sinks.shape))


@register_flop_formula(torch.ops.ptxbuilder.attention_gradient)
def _(q, k, v, o, lse, grad, *rest, out_shape=None):
    return 5 * _attention.multiply_adds(q, k, v, _split(rest)[1][1:-1])


def _keep_for_op(ctx, inputs, output):
    *ctx.numbers, return_lse, ctx.device = _keep(ctx, inputs, output)
    ctx.has_lse = return_lse


def _backward_of_op(ctx, grad, grad_of_lse):
    if not ctx.has_lse:
        raise ValueError("torch.ops.ptxbuilder.attention has no gradient without return_lse, since the gradient needs lse: set return_lse, "
                         "or call ptxbuilder.attention()")
    operation = torch.ops.ptxbuilder.attention_gradient

    def call(*tensors_numbers_device):
        *given, numbers, device = tensors_numbers_device
        return operation(*given, *numbers, device)

    found = _gradients(ctx, call, grad, grad_of_lse, ctx.numbers, ctx.device)
    return *found, *[None] * (2 + len(ctx.numbers))


operators.register_autograd("ptxbuilder::attention", _backward_of_op, setup_context=_keep_for_op, lib=library)
operators.register_autograd("ptxbuilder::attention_gradient", _Gradient.backward, lib=library)

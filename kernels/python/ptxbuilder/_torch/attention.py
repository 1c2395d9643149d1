"""Attention on PyTorch's tensors: called straight in eager mode, as torch.ops.ptxbuilder.attention where PyTorch traces."""
import torch
from torch import library as operators
from torch.autograd import forward_ad
from torch.utils.flop_counter import register_flop_formula

from .. import _attention, _ext
from . import tensors
from .tensors import (NO_OUT, PLACES, PLAIN, autocast_of, check_meta, check_operands, has_transforms, is_compiling, is_plain, is_watched,
                      library, narrowed, place_of, refuse_negative, requires_grad, there)


@tensors.named("ptxbuilder::attention")
def attention(q, k, v, query_offsets, key_offsets, numbers, return_lse, out, device):
    dtype = autocast_of(q) if out is None and isinstance(q, torch.Tensor) and q.dtype == torch.float32 else None
    if dtype is not None:
        q, k, v = (narrowed(x, dtype) for x in (q, k, v))
    if (is_compiling() or type(q) not in PLAIN or type(k) not in PLAIN or type(v) not in PLAIN or is_watched()
            or not (is_plain(query_offsets) and is_plain(key_offsets) and is_plain(out))):
        check_operands({"Q": q, "K": k, "V": v}, query_offsets=query_offsets, key_offsets=key_offsets, out=out)
        if out is not None:
            raise ValueError("out: where PyTorch traces, attention allocates its result; leave it out")
        o, lse = torch.ops.ptxbuilder.attention(q, k, v, query_offsets, key_offsets, *numbers, bool(return_lse),
                                                place_of(device, q, "Q"))
        return (o, lse) if return_lse else o
    if requires_grad(q, k, v, out) or has_transforms() is not None or forward_ad._current_level >= 0:
        if out is not None:
            raise ValueError(NO_OUT)
        return _Attention.apply(q, k, v, query_offsets, key_offsets, numbers, return_lse, device)
    refuse_negative(out=out)
    try:
        return _attention.run(tensors, q, k, v, query_offsets, key_offsets, numbers, return_lse, out, device)
    except Exception:
        check_operands({"Q": q, "K": k, "V": v}, query_offsets=query_offsets, key_offsets=key_offsets, out=out)
        raise


def _refuse(ctx, *gradients):
    raise ValueError(_attention.NO_GRADIENT)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(q, k, v, query_offsets, key_offsets, numbers, return_lse, device):
        return _attention.run(tensors, q, k, v, query_offsets, key_offsets, numbers, return_lse, None, device)

    setup_context = staticmethod(lambda ctx, inputs, output: None)
    backward = staticmethod(_refuse)

    @staticmethod
    def vmap(info, in_dims, q, k, v, query_offsets, key_offsets, numbers, return_lse, device):
        if numbers[-1] & _ext.PACKED:
            raise ValueError("packed sequences under torch.func.vmap: pack them together instead")

        def folded(x, dim):  # the new dimension and that of batches as one
            x = x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            return x.flatten(0, 1)

        result = _Attention.apply(*map(folded, (q, k, v), in_dims), None, None, numbers, return_lse, device)
        size = (info.batch_size, -1)
        return (tuple(x.unflatten(0, size) for x in result), (0, 0)) if return_lse else (result.unflatten(0, size), 0)


# ---- Where PyTorch traces ----

_words = ", ".join(f"{'Scalar' if isinstance(unsaid, float) else 'SymInt'} {name}"
                   for name, unsaid in _ext.ATTENTION_NUMBERS.items())
library.define(f"attention(Tensor q, Tensor k, Tensor v, Tensor? query_offsets, Tensor? key_offsets, {_words}, int flags, "
               "bool return_lse, str? device) -> (Tensor, Tensor)")


def _op(q, k, v, query_offsets, key_offsets, *rest):
    *numbers, return_lse, device = rest
    result = _attention.run(tensors, q, k, v, query_offsets, key_offsets, numbers, return_lse, None, there(device, q))
    return result if return_lse else (result, q.new_empty(0, dtype=torch.float32))


for _place in PLACES:
    library.impl("attention", _op, _place)


@operators.register_fake("ptxbuilder::attention", lib=library)
def _(q, k, v, query_offsets, key_offsets, *rest):
    *_, flags, return_lse, _ = rest
    check_meta(q, k, v, query_offsets, key_offsets)
    shape, lse_shape = _attention.shapes_of(q.shape, v.shape, flags)
    return q.new_empty(shape), q.new_empty(lse_shape if return_lse else 0, dtype=torch.float32)


@register_flop_formula(torch.ops.ptxbuilder.attention)
def _(q, k, v, query_offsets, key_offsets, *rest, out_shape=None):
    return 2 * _attention.multiply_adds(q, k, v, rest[:-2])


operators.register_autograd("ptxbuilder::attention", _refuse, lib=library)

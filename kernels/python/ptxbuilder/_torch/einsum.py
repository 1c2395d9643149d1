"""Contractions of PyTorch tensors, called directly in eager mode and as torch.ops.ptxbuilder.einsum while PyTorch is tracing."""
import torch
from torch import library as operators

from .. import _einsum
from .._common import name_of
from . import tensors
from .tensors import (DTYPES, NO_OUT, PLACES, applied, autocast_of, check_meta, check_operands, factor_of, has_transforms, in_unit,
                      is_compiling, is_dual, is_plain, is_vmapped, is_watched, library, narrowed, place_of, refuse_negative, requires_grad,
                      there)

library.define("einsum(str subscripts, Tensor a, Tensor b, float alpha=1, ScalarType? out_dtype=None, bool precise=False, bool tf32=False, "
               "str? device=None) -> Tensor")


def _op(subscripts, a, b, alpha=1.0, out_dtype=None, precise=False, tf32=False, device=None):
    words = _einsum.Words(alpha, out_dtype, precise, tf32, there(device, a))
    return _einsum.run(tensors, _einsum.parsed(subscripts), a, b, None, words)


for _place in PLACES:
    library.impl("einsum", _op, _place)


@operators.register_fake("ptxbuilder::einsum", lib=library)
def _(subscripts, a, b, alpha=1.0, out_dtype=None, precise=False, tf32=False, device=None):
    check_meta(a, b)
    words = _einsum.Words(alpha, out_dtype, precise, tf32, device)
    letters, dtype = _einsum.parsed(subscripts), DTYPES[words.type_of(a, None)]
    order = _einsum.order_of(letters, a.stride(), b.stride())
    return _einsum.made(order, _einsum.shape_of(letters, a.shape, b.shape), lambda lying: a.new_empty(lying, dtype=dtype), tensors.permuted)


def _keep(ctx, inputs, output):
    ctx.subscripts, a, b, ctx.alpha, _, ctx.precise, ctx.tf32, ctx.device = inputs
    if a.dtype.itemsize == 1 or output.dtype.itemsize == 1:
        raise ValueError(f"einsum: A of {a.dtype} and a result of {output.dtype} have no gradient: call it under torch.no_grad()")
    ctx.save_for_backward(a, b)


def _gradients(ctx, grad):
    a, b = ctx.saved_tensors

    def product(letters, x, y, like):
        def product_as(dtype):
            values = (_einsum.text_of(letters), x, y, ctx.alpha, dtype, ctx.precise, ctx.tf32, ctx.device)
            return applied(_Einsum, *values) if has_transforms() is not None else torch.ops.ptxbuilder.einsum(*values)

        return in_unit(product_as, unit, like.dtype)

    factor, unit = factor_of(grad, a.dtype)
    da, db = _einsum.gradients(product, _einsum.parsed(ctx.subscripts), a, b, factor, ctx.needs_input_grad[1:3])
    return None, da, db, None, None, None, None, None


class _Einsum(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(*operands):
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.ptxbuilder.einsum.default(*operands)

    setup_context = staticmethod(_keep)
    backward = staticmethod(_gradients)


def _differentiated(subscripts, a, b, alpha=1.0, out_dtype=None, precise=False, tf32=False, device=None):
    values = (subscripts, a, b, alpha, out_dtype, precise, tf32, device)
    if requires_grad(a, b):
        return applied(_Einsum, *values)
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.ptxbuilder.einsum.default(*values)


library.impl("einsum", _differentiated, "Autograd")


@tensors.named("ptxbuilder::einsum")
def einsum(letters, a, b, out, words):
    dtype = autocast_of(a) if isinstance(a, torch.Tensor) else None
    if dtype is not None:
        a, b = narrowed(a, dtype), narrowed(b, dtype)
    is_traced = is_compiling() or is_watched() or not all(is_plain(x) for x in (a, b, out))
    if is_traced or not isinstance(b, torch.Tensor):
        check_operands({"A": a, "B": b}, out=out)
    wants = requires_grad(a, b) or not is_compiling() and (has_transforms() is not None or is_dual())
    if out is not None and (wants or is_traced):
        raise ValueError(NO_OUT)
    if wants or is_traced:
        out_dtype = None if words.out_dtype is None else DTYPES[name_of(words.out_dtype)]
        values = (_einsum.text_of(letters), a, b, words.alpha, out_dtype, bool(words.precise), bool(words.tf32),
                  place_of(words.device, a, "A"))
        return torch.ops.ptxbuilder.einsum(*values) if is_traced or is_vmapped() else applied(_Einsum, *values)
    refuse_negative(out=out)
    try:
        return _einsum.run(tensors, letters, a, b, out, words)
    except Exception:
        check_operands({"A": a, "B": b}, out=out)  # reports more clearly what is wrong
        raise

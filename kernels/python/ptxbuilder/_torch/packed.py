"""Packed weights of PyTorch's tensors: called straight in eager mode, as torch.ops.ptxbuilder.packed_mm where PyTorch traces."""
import torch
from torch import library as operators

from .. import _packed
from .._packed import PackedWeights
from . import tensors
from .tensors import (DTYPES, NO_OUT, PLACES, autocast_of, check_meta, check_operands, dtype_of, is_compiling, is_dual, is_plain, is_watched,
                      library, narrowed, place_of, refuse_negative, requires_grad, there)

library.define("packed_mm(Tensor a, Tensor data, Tensor? scale_b, SymInt n, int form, Tensor? bias=None, Tensor? c=None, float alpha=1, "
               "float beta=0, str? activation=None, ScalarType? out_dtype=None, str? device=None) -> Tensor")


def _op(a, data, scale_b, n, form, bias=None, c=None, alpha=1.0, beta=0.0, activation=None, out_dtype=None, device=None):
    b = PackedWeights(data, scale_b, (a.shape[-1], n), form)
    return _packed.run(tensors, a, b, bias, c, alpha, beta, activation, None, out_dtype, there(device, a))


for _place in PLACES:
    library.impl("packed_mm", _op, _place)


@operators.register_fake("ptxbuilder::packed_mm", lib=library)
def _(a, data, scale_b, n, form, bias=None, c=None, alpha=1.0, beta=0.0, activation=None, out_dtype=None, device=None):
    check_meta(a, data, scale_b, bias, c)
    shape, name = _packed.result_of(a, PackedWeights(data, scale_b, (a.shape[-1], n), form), out_dtype)
    return a.new_empty(shape, dtype=DTYPES[name])


def _refuse_gradient(*operands):
    if requires_grad(*operands) or not is_compiling() and is_dual():
        raise ValueError("packed_mm has no gradient: call it under torch.no_grad(), or multiply what unpack_weights() gives")


def _differentiated(a, data, scale_b, n, form, bias=None, c=None, *values):
    _refuse_gradient(a, scale_b, bias, c)
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.ptxbuilder.packed_mm.default(a, data, scale_b, n, form, bias, c, *values)


library.impl("packed_mm", _differentiated, "Autograd")


@tensors.named("ptxbuilder::packed_mm")
def packed_mm(a, b, bias, c, alpha, beta, activation, out, out_dtype, device):
    is_traced = is_compiling() or is_watched() or not (is_plain(a) and is_plain(b.data) and is_plain(bias) and is_plain(c)
                                                       and is_plain(out))
    if is_traced:
        check_operands({"A": a, "B": b.data}, bias=bias, C=c, out=out)
    if torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu"):
        dtype = autocast_of(a)
        a, bias, c = (x if dtype is None else narrowed(x, dtype) for x in (a, bias, c))
    _refuse_gradient(a, b.scale_b, bias, c, out)
    if is_traced:
        if out is not None:
            raise ValueError(NO_OUT)
        if a.shape[-1] != b.shape[0]:
            _packed.result_of(a, b, out_dtype)  # which says so
        return torch.ops.ptxbuilder.packed_mm(a, b.data, b.scale_b, b.shape[1], b.form, bias, c, alpha, beta, activation,
                                              dtype_of(out_dtype), place_of(device, a, "A"))
    try:
        refuse_negative(out=out)
        return _packed.run(tensors, a, b, bias, c, alpha, beta, activation, out, out_dtype, device)
    except Exception:
        check_operands({"A": a, "B": b.data}, bias=bias, C=c, out=out)  # which knows more of what is wrong
        raise


class packed_kit:
    """The CPU packs: tensors go there and back."""
    @staticmethod
    def empty(shape, name):
        return torch.empty(shape, dtype=DTYPES[name])

    @staticmethod
    def on_host(x):
        return tensors.tensor(x.detach().cpu().contiguous())

    @staticmethod
    def back(x, like):
        return x.to(like.device)

    @staticmethod
    def floats(x):
        return x.float().contiguous()

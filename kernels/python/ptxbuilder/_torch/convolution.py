"""Convolutions of PyTorch tensors, called directly in eager mode and as torch.ops.ptxbuilder.conv2d while PyTorch is tracing."""
import torch
from torch import library as operators

from .. import _convolution
from .._common import name_of
from . import tensors
from .product import _FUNCTIONS
from .tensors import (DTYPES, NO_BATCH, PLACES, applied, autocast_of, check_meta, check_operands, factor_of, has_transforms, in_unit,
                      is_compiling, is_dual, is_plain, is_vmapped, is_watched, library, narrowed, place_of, requires_grad,
                      there)

library.define("conv2d(Tensor x, Tensor w, Tensor? bias=None, int[] windows=[], int groups=1, str? activation=None, "
               "ScalarType? out_dtype=None, bool precise=False, bool tf32=False, str? device=None) -> Tensor")
library.define("conv2d_gradient(str result, Tensor other, Tensor grad, SymInt[] shape, ScalarType dtype, int[] windows, int groups, "
               "str? device=None) -> Tensor")


def _op(x, w, bias=None, windows=(), groups=1, activation=None, out_dtype=None, precise=False, tf32=False, device=None):
    words = _convolution.Words(tuple(windows), groups, activation, out_dtype, precise, tf32, there(device, x))
    return _convolution.run(tensors, x, w, bias, words)


def _gradient_op(result, other, grad, shape, dtype, windows, groups, device=None):
    words = _convolution.Words(tuple(windows), groups, device=there(device, grad))
    x, w = (None, other) if result == "x" else (other, None)
    return _convolution.run_gradient(tensors, result, x, w, grad, tuple(shape), name_of(dtype), words)


for _place in PLACES:
    library.impl("conv2d", _op, _place)
    library.impl("conv2d_gradient", _gradient_op, _place)


@operators.register_fake("ptxbuilder::conv2d", lib=library)
def _(x, w, bias=None, windows=(), groups=1, activation=None, out_dtype=None, precise=False, tf32=False, device=None):
    check_meta(x, w, bias)
    words = _convolution.Words(tuple(windows), groups, activation, out_dtype, precise, tf32, device)
    return _made(x, words.shape_of(x.shape, w.shape), DTYPES[words.type_of(x)])


@operators.register_fake("ptxbuilder::conv2d_gradient", lib=library)
def _(result, other, grad, shape, dtype, windows, groups, device=None):
    check_meta(other, grad)
    return _made(grad, shape, dtype)


def _made(like, shape, dtype):
    n, c, h, w = shape
    return like.new_empty((n, h, w, c), dtype=dtype).permute(0, 3, 1, 2)


def _keep(ctx, inputs, output):
    x, w, bias, ctx.windows, ctx.groups, activation, _, _, _, ctx.device = inputs
    if x.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError(f"conv2d: x of {x.dtype} has no gradient; it must be f16 or bf16: call conv2d under torch.no_grad()")
    if ctx.needs_input_grad[0]:
        _convolution.Words(tuple(ctx.windows), ctx.groups).check_gradient(x.shape, w.shape)
    ctx.bias_dtype = None if bias is None else bias.dtype
    ctx.save_for_backward(x, w)


def _gradients(ctx, grad):
    x, w = ctx.saved_tensors
    needs = ctx.needs_input_grad

    factor, unit = factor_of(grad, x.dtype)

    def gradient(result, other, like):
        return in_unit(lambda dtype: _called(_Gradient, result, other, factor, like.shape, dtype, ctx.windows, ctx.groups, ctx.device),
                       unit, like.dtype)

    dx = gradient("x", w, x) if needs[0] else None
    dw = gradient("w", x, w) if needs[1] else None
    db = grad.sum((0, 2, 3)).to(ctx.bias_dtype) if needs[2] else None
    return dx, dw, db, *[None] * 7


class _Conv2d(torch.autograd.Function):
    operation = torch.ops.ptxbuilder.conv2d

    @staticmethod
    def forward(*operands):
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.ptxbuilder.conv2d.default(*operands)

    setup_context = staticmethod(_keep)
    backward = staticmethod(_gradients)


class _Gradient(torch.autograd.Function):
    """Computes the gradient with respect to x or w, which is linear in the other operand and in the incoming gradient. Its own gradients
    are therefore a gradient with respect to the other operand, and a convolution."""
    operation = torch.ops.ptxbuilder.conv2d_gradient

    @staticmethod
    def forward(*values):
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.ptxbuilder.conv2d_gradient.default(*values)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.result, other, grad, _, _, ctx.windows, ctx.groups, ctx.device = inputs
        ctx.save_for_backward(other, grad)

    @staticmethod
    def backward(ctx, seed):
        other, grad = ctx.saved_tensors
        factor, unit = factor_of(seed, other.dtype)
        of_other, x, w = ("w", factor, other) if ctx.result == "x" else ("x", other, factor)
        d_other = d_grad = None
        if ctx.needs_input_grad[1]:
            d_other = in_unit(lambda dtype: _called(_Gradient, of_other, factor, grad, other.shape, dtype, ctx.windows, ctx.groups,
                                                    ctx.device), unit, other.dtype)
        if ctx.needs_input_grad[2]:
            d_grad = in_unit(lambda dtype: _called(_Conv2d, x, w, None, ctx.windows, ctx.groups, None, dtype, False, False, ctx.device),
                             unit, grad.dtype)
        return None, d_other, d_grad, *[None] * 5


def _called(function, *values):
    """Calls a function's PyTorch operation, or the function itself under torch.func, which cannot differentiate operations."""
    is_transformed = not is_compiling() and not is_watched() and has_transforms() is not None
    return function.apply(*values) if is_transformed else function.operation(*values)


def _gradient_differentiated(*values):
    if requires_grad(values[1], values[2]):
        return applied(_Gradient, *values)
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.ptxbuilder.conv2d_gradient.default(*values)


def _differentiable(x, w, bias, windows, groups, activation, out_dtype, precise, tf32, device):
    """Returns the convolution with its derivative. The activation is applied separately, because its backward pass needs its input."""
    y = applied(_Conv2d, x, w, bias, windows, groups, None, out_dtype, precise, tf32, device)
    return _FUNCTIONS[activation][0](y) if activation else y


def _differentiated(x, w, bias=None, windows=(), groups=1, activation=None, out_dtype=None, precise=False, tf32=False, device=None):
    if requires_grad(x, w, bias):
        return _differentiable(x, w, bias, windows, groups, activation, out_dtype, precise, tf32, device)
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.ptxbuilder.conv2d.default(x, w, bias, windows, groups, activation, out_dtype, precise, tf32, device)


library.impl("conv2d", _differentiated, "Autograd")
library.impl("conv2d_gradient", _gradient_differentiated, "Autograd")


@tensors.named("ptxbuilder::conv2d")
def conv2d(x, w, bias, words):
    if is_vmapped():
        raise ValueError(NO_BATCH.format("conv2d"))
    given = {"x": x, "w": w}
    dtype = autocast_of(x) if isinstance(x, torch.Tensor) else None
    if dtype is not None:
        x, w, bias = (narrowed(one, dtype) for one in (x, w, bias))
    is_traced = is_compiling() or is_watched() or not all(is_plain(one) for one in (x, w, bias))
    if is_traced or not isinstance(w, torch.Tensor):
        check_operands(given, bias=bias)
    wants = requires_grad(x, w, bias) or not is_compiling() and (has_transforms() is not None or is_dual())
    if wants or is_traced:
        out_dtype = None if words.out_dtype is None else DTYPES[name_of(words.out_dtype)]
        values = (x, w, bias, list(words.windows), words.groups, words.activation, out_dtype, bool(words.precise), bool(words.tf32),
                  place_of(words.device, x, "x"))
        return torch.ops.ptxbuilder.conv2d(*values) if is_traced else _differentiable(*values)
    try:
        return _convolution.run(tensors, x, w, bias, words)
    except Exception:
        check_operands(given, bias=bias)  # reports more clearly what is wrong
        raise

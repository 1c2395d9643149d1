"""Products of PyTorch's tensors with scales, an amax, a gate or a slope: straight in eager mode, as
torch.ops.ptxbuilder.scaled_matmul where PyTorch traces, and where a gradient is asked for, by its own functions behind a product."""
import torch
from torch import library as operators
from torch.autograd import forward_ad

from .. import _ext, _product
from .._beside import NO_GRADIENT, Beside, factors, halved
from .._common import no_activation
from . import tensors
from .product import OUTPUTS, SMOOTH, take_over, turned
from .tensors import (NO_BATCH, NO_OUT, PLACES, check_meta, check_operands, dtype_of, has_modes, has_transforms, is_compiling, is_plain,
                      is_vmapped, is_wrapped, library, place_of, refuse_negative, requires_grad, there)


def matmul_beside(a, b, out, bias, c, beta, activation, out_dtype, transpose_a, transpose_b, precise, tf32, device, beside):
    """What the extension's eager_product() leaves."""
    alpha, *others, gate = beside
    given = (a, b, bias, c, *others, alpha if isinstance(alpha, torch.Tensor) else None)
    is_traced = is_compiling() or has_modes() or not all(is_plain(x) for x in (*given, out))
    if is_traced:
        _check(given, out)
    if not is_compiling():
        take_over()
    try:
        if not isinstance(alpha, torch.Tensor) or not alpha.is_cuda and a.is_cuda:
            beside = Beside(float(alpha), *others, gate)
        wants = requires_grad(*given, out) or is_wrapped(*given, out) or not is_compiling() and out is None and (
            has_transforms() is not None or forward_ad._current_level >= 0)
        way = _by_pieces if wants else _traced if is_traced else _run
        return way(turned(a, transpose_a), turned(b, transpose_b), out, bias, c, float(beta), activation, out_dtype, precise, tf32,
                   device, beside)
    except Exception:
        if not is_traced:
            _check(given, out)
        raise


def _check(given, out):
    a, b, *others = given
    check_operands({"A": a, "B": b}, **dict(zip(("bias", "C", *Beside._fields[1:-1], "alpha"), others)), out=out)


def _run(a, b, out, bias, c, beta, activation, out_dtype, precise, tf32, device, beside):
    refuse_negative(amax=beside.amax)
    return _product.run(tensors, a, b, out, bias, c, 1.0, beta, activation, out_dtype, precise, tf32, device, None, beside)


# ---- Where a gradient is asked for ----

_FUNCTIONS = {"relu": torch.relu, **SMOOTH}


def _silu_backward(x, inputs):  # PyTorch's own has no derivative
    inputs = inputs.float()
    s = torch.sigmoid(inputs)
    return x * (s * (1 + inputs * (1 - s)))


# x times the activation's slope; PyTorch knows the derivatives of these, too.
_SLOPES = {"relu": lambda x, inputs: torch.ops.aten.threshold_backward(x, inputs, 0),
           "gelu": lambda x, inputs: torch.ops.aten.gelu_backward(x, inputs, approximate="tanh"), "silu": _silu_backward}


def _check_addend(name, x, shape, dtype):
    if x is not None and (x.shape != shape or x.dtype != dtype):
        raise ValueError(f"{name}: {tuple(x.shape)} of {x.dtype}; it is {tuple(shape)} of {dtype}")


def _by_pieces(a, b, out, bias, c, beta, activation, out_dtype, precise, tf32, device, beside):
    """The product, whose derivative is ours, and behind it PyTorch's functions, which have theirs."""
    if out is not None:
        raise ValueError(NO_OUT)
    dtype = dtype_of(out_dtype) or OUTPUTS[a.dtype]
    for name, is_there in (("amax", beside.amax is not None), ("scale_result", beside.scale_result is not None),
                           (f"out_dtype of {dtype}", dtype.itemsize == 1)):
        if is_there:
            raise ValueError((NO_BATCH if is_vmapped() else NO_GRADIENT).format(name))
    if activation is not None and activation not in _FUNCTIONS:
        raise no_activation(activation)
    words = {"precise": precise, "tf32": tf32, "device": device}
    number = beside.alpha if isinstance(beside.alpha, float) else 1.0
    ones, scale_a, scale_b = factors(beside, a.shape[:-1], (*b.shape[:-2], b.shape[-1]))
    if ones or scale_a is not None or scale_b is not None:
        x = number * _product.matmul(a, b, out_dtype=torch.float32, **words)
        for one in ones:
            x = x * one.reshape(())
        x = x if scale_a is None else x * scale_a[..., :, None]
        x = x if scale_b is None else x * scale_b[..., None, :]
        _check_addend("C", c, x.shape, dtype)
        _check_addend("bias", bias, x.shape[-1:], dtype)
        x = x if c is None else x + beta * c
        x = x if bias is None else x + bias
    else:
        x = _product.matmul(a, b, bias=bias, c=c, alpha=number, beta=beta, out_dtype=dtype, **words)
    if beside.gate:
        halved(x.shape)  # which says what is wrong
        x = _FUNCTIONS[activation](x[..., 0::2]) * x[..., 1::2]
    elif beside.slope_of is not None:
        _check_addend("slope_of", beside.slope_of, x.shape, dtype)
        x = _SLOPES[activation](x, beside.slope_of.to(x.dtype))
    elif activation is not None:
        x = _FUNCTIONS[activation](x)
    return x.to(dtype)


# ---- Where PyTorch traces ----

_OPERANDS = ("Tensor a, Tensor b, Tensor? bias, Tensor? c, Scalar beta, str? activation, ScalarType? out_dtype, bool precise, bool tf32, "
             "str? device, Scalar alpha, Tensor? alpha_tensor, Tensor? scale_a, Tensor? scale_b, Tensor? scale_result, Tensor? slope_of, "
             "bool gate")
# Three, since Inductor does not take one that may write and writes nothing.
library.define(f"scaled_matmul({_OPERANDS}) -> Tensor")
library.define(f"scaled_matmul_amax({_OPERANDS}, *, Tensor(a!) amax) -> Tensor")
library.define(f"scaled_matmul_out({_OPERANDS}, *, Tensor(a!)? amax=None, Tensor(b!) d) -> ()")


def _traced(a, b, out, bias, c, beta, activation, out_dtype, precise, tf32, device, beside):
    alpha, scale_a, scale_b, scale_result, amax, slope_of, gate = beside
    alphas = (alpha, None) if isinstance(alpha, float) else (1.0, alpha)
    values = (a, b, bias, c, beta, activation, dtype_of(out_dtype), bool(precise), bool(tf32), place_of(device, a, "A"), *alphas, scale_a,
              scale_b, scale_result, slope_of, bool(gate))
    if out is not None:
        torch.ops.ptxbuilder.scaled_matmul_out(*values, amax=amax, d=out)
        return out
    if amax is not None:
        return torch.ops.ptxbuilder.scaled_matmul_amax(*values, amax=amax)
    return torch.ops.ptxbuilder.scaled_matmul(*values)


def _op(a, b, bias, c, beta, activation, out_dtype, precise, tf32, device, alpha, alpha_tensor, scale_a, scale_b, scale_result,
        slope_of, gate, *, amax=None, out=None):
    device, alpha = there(device, a), alpha if alpha_tensor is None else alpha_tensor
    d = _ext.eager_product(a, b, out, bias, c, alpha, beta, activation, out_dtype, False, False, precise, tf32, device, True, scale_a,
                           scale_b, scale_result, amax, slope_of, gate)
    if d is NotImplemented:
        d = _run(a, b, out, bias, c, beta, activation, out_dtype, precise, tf32, device,
                 Beside(alpha, scale_a, scale_b, scale_result, amax, slope_of, gate))
    return d


def _op_out(*values, amax=None, d):
    _op(*values, amax=amax, out=d)


for _place in PLACES:
    library.impl("scaled_matmul", _op, _place)
    library.impl("scaled_matmul_amax", _op, _place)
    library.impl("scaled_matmul_out", _op_out, _place)


@operators.register_fake("ptxbuilder::scaled_matmul", lib=library)
@operators.register_fake("ptxbuilder::scaled_matmul_amax", lib=library)
def _(a, b, bias, c, beta, activation, out_dtype, precise, tf32, device, alpha, alpha_tensor, scale_a, scale_b, scale_result, slope_of,
      gate, *, amax=None):
    check_meta(a, b, bias, c, alpha_tensor, scale_a, scale_b, scale_result, slope_of, amax)
    torch._check(a.ndim >= 2 and b.ndim >= 2, lambda: "A and B: a matrix has 2 dimensions, behind those of batches")
    torch._check(a.shape[-1] == b.shape[-2], lambda: f"B: {b.shape[-2]} rows, but A has {a.shape[-1]} columns")
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    columns = b.shape[-1] // 2 if gate else b.shape[-1]
    return a.new_empty((*batch, a.shape[-2], columns), dtype=out_dtype or OUTPUTS[a.dtype])


@operators.register_fake("ptxbuilder::scaled_matmul_out", lib=library)
def _(*values, amax=None, d):
    check_meta(*(x for x in (*values, amax, d) if isinstance(x, torch.Tensor)))


def _refusing(operation):
    """The operations have no gradient: pb.matmul() takes another way where one is asked for."""
    def refuse(*values, **words):
        if requires_grad(*(x for x in (*values, *words.values()) if isinstance(x, torch.Tensor))):
            raise ValueError("torch.ops.ptxbuilder.scaled_matmul has no gradient; ptxbuilder.matmul() with the same scales has, of "
                             "torch.func.grad outside of torch.compile")
        with torch._C._AutoDispatchBelowAutograd():
            return operation(*values, **words)

    return refuse


for _name in ("scaled_matmul", "scaled_matmul_amax", "scaled_matmul_out"):
    library.impl(_name, _refusing(getattr(torch.ops.ptxbuilder, _name).default), "Autograd")

"""The product of PyTorch's tensors: called straight in eager mode, as torch.ops.ptxbuilder.matmul where PyTorch traces."""
import torch
from torch import library as operators
from torch.autograd import forward_ad

from .. import _ext, _product
from .._beside import NO_GRADIENT
from .._common import ACTIVATIONS, CODES, NAMES, output_of
from . import tensors
from .tensors import (DTYPES, NO_OUT, PLACES, check_meta, check_operands, dtype_of, has_modes, has_transforms, is_compiling, is_plain,
                      is_wrapped, library, place_of, requires_grad, there)

OUTPUTS = {dtype: DTYPES[output_of(name)] for name, dtype in DTYPES.items()}
_CODES = {dtype: CODES[name][0] << 8 | CODES[name][1] for name, dtype in DTYPES.items()}
_CODES |= {name: _CODES[DTYPES[full]] for short, full in NAMES.items() for name in (short, full) if full in DTYPES}
_ext.use_eager(torch.Tensor, torch.nn.Parameter, torch._C._len_torch_dispatch_stack, torch.is_grad_enabled, forward_ad, ACTIVATIONS,
               _CODES, torch._C._increment_version)  # torch.autograd.graph's, in half the time


def take_over():
    """From now on matmul() asks eager_product() first. Not while a call is traced, which changes nothing of Python's."""
    _product.is_traced = is_compiling


def matmul(a, b, out, bias, c, alpha, beta, activation, out_dtype, transpose_a, transpose_b, precise, tf32, device):
    """What the extension's eager_product() leaves."""
    if not is_compiling():
        take_over()
    if is_compiling() or not (is_plain(a) and is_plain(b) and is_plain(bias) and is_plain(c) and is_plain(out)) or has_modes():
        check_operands({"A": a, "B": b}, out=out, bias=bias, C=c)
        return _traced(a, b, out, bias, c, alpha, beta, activation, out_dtype, transpose_a, transpose_b, precise, tf32, device)
    try:
        # torch.func and dual tensors know what a function's derivatives are, or that it has none.
        if (requires_grad(a, b, bias, c, out) or is_wrapped(a, b, bias, c, out)
                or out is None and (has_transforms() is not None or forward_ad._current_level >= 0)):
            if out is not None:
                raise ValueError(NO_OUT)
            return _smoothed(_Product.apply, turned(a, transpose_a), turned(b, transpose_b), bias, c, alpha, beta, activation,
                             dtype_of(out_dtype), precise, tf32, device)
        return _product.run(tensors, turned(a, transpose_a), turned(b, transpose_b), out, bias, c, alpha, beta, activation,
                            out_dtype, precise, tf32, device)
    except Exception:
        check_operands({"A": a, "B": b}, out=out, bias=bias, C=c)
        raise


def turned(x, is_transposed):
    return x.transpose(-1, -2) if is_transposed else x


def _direct(a, b, out, bias, c, alpha, beta, activation, out_dtype, precise, tf32, device):
    """Below autograd."""
    d = _ext.eager_product(a, b, out, bias, c, alpha, beta, activation, out_dtype, False, False, precise, tf32, device, True)
    if d is not NotImplemented:
        return d
    return _product.run(tensors, a, b, out, bias, c, alpha, beta, activation, out_dtype, precise, tf32, device)


# ---- Gradients, by the same kernels ----

# Their derivatives are known from what they are applied to: where a gradient is asked for, PyTorch applies them, and keeps that.
SMOOTH = {"gelu": lambda z: torch.nn.functional.gelu(z, approximate="tanh"), "silu": torch.nn.functional.silu}


def _smoothed(product, a, b, bias, c, alpha, beta, activation, *values):
    if activation in SMOOTH and (values[0] is None or values[0].itemsize > 1):  # else it is refused
        return SMOOTH[activation](product(a, b, bias, c, alpha, beta, None, *values))
    return product(a, b, bias, c, alpha, beta, activation, *values)


def _keep(ctx, inputs, output):
    a, b, bias, c, *values = inputs
    values = list(values)  # Dynamo has a tuple
    if output.dtype.itemsize == 1:
        raise ValueError(NO_GRADIENT.format(f"out_dtype of {output.dtype}"))
    values[-1] = there(values[-1], a)
    ctx.values = values
    # The derivative of relu is known from its result.
    ctx.save_for_backward(a, b, output if values[2] == "relu" else None)


def _gradients(ctx, d_output):
    a, b, output = ctx.saved_tensors
    alpha, beta, _, _, precise, tf32, device = ctx.values
    if a.dtype.itemsize == 1:
        raise ValueError(f"A and B of {a.dtype} have no gradients")

    def product(x, y, like, transpose_x=False, transpose_y=False):
        """As `like` lies, a layer's weight with its columns side by side say: else the gradient would be copied once more."""
        if like.stride(-2) == 1 != like.stride(-1):
            return turned(product(y, x, turned(like, True), not transpose_y, not transpose_x), True)
        d = _product.matmul(x, y, transpose_a=transpose_x, transpose_b=transpose_y, alpha=alpha, precise=precise, tf32=tf32,
                            device=device)
        return d.sum_to_size(like.shape)  # what was broadcast

    dz = d_output if output is None else d_output * (output > 0)
    da = db = d_bias = dc = None
    factor = dz.to(b.dtype)
    if isinstance(alpha, torch.SymFloat):  # known when the graph runs, not here where the way back is traced
        factor, alpha = factor * alpha, 1.0
    needs = ctx.needs_input_grad  # of what was given: an operation's defaults are not
    if needs[0]:
        da = product(factor, b, a, transpose_y=True)
    if needs[1]:
        if b.ndim == 2 and a.ndim > 2:  # the rows of all batches are one sum
            rows, columns = a.reshape(-1, a.shape[-1]), factor.reshape(-1, factor.shape[-1])
            db = product(rows, columns, b, transpose_x=True)
        else:
            db = product(a, factor, b, transpose_x=True)
    if len(needs) > 2 and needs[2]:
        d_bias = dz.sum(tuple(range(dz.ndim - 1)))
    if len(needs) > 3 and needs[3]:
        dc = dz * beta
    return ((da, db, d_bias, dc) + (None,) * 7)[:len(needs)]


class _Product(torch.autograd.Function):
    forward = staticmethod(lambda a, b, *words: _direct(a, b, None, *words))
    setup_context = staticmethod(_keep)
    backward = staticmethod(_gradients)

    @staticmethod
    def vmap(info, in_dims, a, b, bias, c, alpha, beta, *values):
        def ahead(x, dim, rank):  # the new dimension first, of one element where there is none of it
            x = x.unsqueeze(0) if dim is None else x.movedim(dim, 0)
            return x.reshape(x.shape[0], *(1,) * (rank + 1 - x.ndim), *x.shape[1:])

        rank = max(x.ndim - (dim is not None) for x, dim in zip((a, b), in_dims))
        a, b = ahead(a, in_dims[0], rank), ahead(b, in_dims[1], rank)
        batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2], (info.batch_size,) + (1,) * (rank - 2))
        if c is not None:
            c = ahead(c, in_dims[3], rank).expand(*batch, -1, -1)
        if in_dims[2] is not None:  # a bias of each: as part of C, which is
            bias = ahead(bias, in_dims[2], rank).expand(*batch, a.shape[-2], -1)
            bias, c, beta = None, bias if c is None else beta * c + bias, 1.0
        if tuple(batch) != tuple(torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])):
            a = a.expand(*batch, -1, -1)
        return _Product.apply(a, b, bias, c, alpha, beta, *values), 0


# ---- Under torch.compile, and wherever tensors are not plain ones ----


def _traced(a, b, out, bias, c, alpha, beta, activation, out_dtype, transpose_a, transpose_b, precise, tf32, device):
    a, b, device = turned(a, transpose_a), turned(b, transpose_b), place_of(device, a, "A")
    values = (bias, c, float(alpha), float(beta), activation, precise, tf32, device)
    if out is None:
        return torch.ops.ptxbuilder.matmul(a, b, *values[:5], dtype_of(out_dtype), *values[5:])
    if out_dtype is not None and out.dtype != dtype_of(out_dtype):
        raise ValueError(f"D: its type is {out.dtype}, but out_dtype is {out_dtype}")
    torch.ops.ptxbuilder.matmul_out(a, b, *values, d=out)
    return out


# A Scalar, unlike a float, may be a number that is known when the graph runs, as of x.item(). A result that is given is named `d`, since
# of an `out` Dynamo takes none with gaps.
_OPERANDS = "Tensor a, Tensor b, Tensor? bias=None, Tensor? c=None, Scalar alpha=1, Scalar beta=0, str? activation=None, "
library.define(f"matmul({_OPERANDS}ScalarType? out_dtype=None, bool precise=False, bool tf32=False, str? device=None) -> Tensor")
library.define(f"matmul_out({_OPERANDS}bool precise=False, bool tf32=False, str? device=None, *, Tensor(a!) d) -> ()")


def _op(a, b, bias=None, c=None, alpha=1.0, beta=0.0, activation=None, out_dtype=None, precise=False, tf32=False, device=None):
    return _direct(a, b, None, bias, c, alpha, beta, activation, out_dtype, precise, tf32, there(device, a))


def _op_out(a, b, bias=None, c=None, alpha=1.0, beta=0.0, activation=None, precise=False, tf32=False, device=None, *, d):
    _direct(a, b, d, bias, c, alpha, beta, activation, None, precise, tf32, there(device, a))


for _place in PLACES:
    library.impl("matmul", _op, _place)
    library.impl("matmul_out", _op_out, _place)


@operators.register_fake("ptxbuilder::matmul", lib=library)
def _(a, b, bias=None, c=None, alpha=1.0, beta=0.0, activation=None, out_dtype=None, precise=False, tf32=False, device=None):
    check_meta(a, b, bias, c)
    torch._check(a.ndim >= 2 and b.ndim >= 2, lambda: "A and B: a matrix has 2 dimensions, behind those of batches")
    torch._check(a.shape[-1] == b.shape[-2], lambda: f"B: {b.shape[-2]} rows, but A has {a.shape[-1]} columns")
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.new_empty((*batch, a.shape[-2], b.shape[-1]), dtype=out_dtype or OUTPUTS[a.dtype])


@operators.register_fake("ptxbuilder::matmul_out", lib=library)
def _(a, b, bias=None, c=None, alpha=1.0, beta=0.0, activation=None, precise=False, tf32=False, device=None, *, d):
    check_meta(a, b, bias, c, d)


class _Operation(torch.autograd.Function):
    @staticmethod
    def forward(*operands):
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.ptxbuilder.matmul.default(*operands)

    setup_context = staticmethod(_keep)
    backward = staticmethod(_gradients)


def _differentiated(a, b, bias=None, c=None, alpha=1.0, beta=0.0, activation=None, out_dtype=None, precise=False, tf32=False,
                    device=None):
    values = (a, b, bias, c, alpha, beta, activation, out_dtype, precise, tf32, device)
    if requires_grad(a, b, bias, c):
        return _smoothed(_Operation.apply, *values)
    if a.is_cuda and is_plain(a) and is_plain(b) and not has_modes():
        return _op(*values)  # at once, without PyTorch's dispatcher once more
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.ptxbuilder.matmul.default(*values)


library.impl("matmul", _differentiated, "Autograd")

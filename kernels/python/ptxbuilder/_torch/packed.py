"""Packed weights of PyTorch tensors, called directly in eager mode and as torch.ops.ptxbuilder.packed_mm while PyTorch is tracing."""
import torch
from torch import library as operators

from .. import _packed, _product
from .._common import name_of
from .._packed import PackedWeights
from .._product import NO_GRADIENT
from . import tensors
from .product import smoothed, summed_by_row
from .tensors import (DTYPES, NO_BATCH, NO_OUT, PLACES, applied, autocast_of, check_meta, check_operands, dtype_of, factor_of,
                      has_transforms, in_unit, is_compiling, is_dual, is_plain, is_watched, library, narrowed, place_of, refuse_gradient,
                      refuse_negative, requires_grad, there)

library.define("packed_mm(Tensor a, Tensor data, Tensor? scale_b, SymInt n, int form, Tensor? bias=None, Tensor? c=None, float alpha=1, "
               "float beta=0, str? activation=None, ScalarType? out_dtype=None, str? device=None, Tensor? offs=None, "
               "Tensor? a_rows=None) -> Tensor")


def _weights(a, data, scale_b, n, form):
    """Returns the PackedWeights that the arguments of an operation describe."""
    return PackedWeights(data, scale_b, (*data.shape[:-2], a.shape[-1], n), form)


def _op(a, data, scale_b, n, form, bias=None, c=None, alpha=1.0, beta=0.0, activation=None, out_dtype=None, device=None, offs=None,
        a_rows=None):
    b = _weights(a, data, scale_b, n, form)
    return _packed.run(tensors, a, b, bias, c, alpha, beta, activation, None, out_dtype, there(device, a), offs, a_rows)


for _place in PLACES:
    library.impl("packed_mm", _op, _place)


@operators.register_fake("ptxbuilder::packed_mm", lib=library)
def _(a, data, scale_b, n, form, bias=None, c=None, alpha=1.0, beta=0.0, activation=None, out_dtype=None, device=None, offs=None,
      a_rows=None):
    check_meta(a, data, scale_b, bias, c, offs, a_rows)
    shape, name = _packed.result_of(a, _weights(a, data, scale_b, n, form), out_dtype, a_rows)
    return a.new_empty(shape, dtype=DTYPES[name])


def _keep(ctx, inputs, output):
    a, data, scale_b, n, form, _, _, alpha, beta, activation, _, device, offs, a_rows = inputs
    if output.dtype.itemsize == 1:
        raise ValueError(NO_GRADIENT.format(f"out_dtype of {output.dtype}"))
    ctx.values = (a.dtype, a.shape[-1], n, form, alpha, beta, there(device, a))
    ctx.save_for_backward(data, scale_b, output if activation == "relu" else None, offs, a_rows, None if a_rows is None else a)


def _numbers_of_groups(offs, rows):
    """Returns the index of each row's group; for a row without a group, the number of groups."""
    ends = offs.clamp(0, rows).cummax(0)[0]
    return torch.searchsorted(ends, torch.arange(rows, dtype=ends.dtype, device=ends.device), right=True)


def _gradients(ctx, d_output):
    data, scale_b, output, offs, a_rows, a = ctx.saved_tensors
    dtype, k, n, form, alpha, beta, device = ctx.values
    needs = ctx.needs_input_grad
    dz = d_output if output is None else d_output * (output > 0)
    da = d_bias = dc = None
    if needs[0] and n * k == 0:
        da = dz.new_zeros((*dz.shape[:-1], k), dtype=dtype)
    elif needs[0]:
        w, columns = _packed.columns_of(packed_kit, PackedWeights(data, scale_b, (*data.shape[:-2], k, n), form), name_of(dtype))
        if offs is not None:  # selects the column scales of each row's expert; the product of a row without an expert is 0
            columns = columns[_numbers_of_groups(offs, dz.shape[0]).clamp(max=data.shape[0] - 1)]
        rows, unit = factor_of(dz.reshape(-1, n).float() * (columns * alpha), dtype)
        da = in_unit(lambda wide: _product.matmul(rows, w, out_dtype=wide, device=device, offs=offs), unit, dtype)
        da = da.reshape(*dz.shape[:-1], k)
    if a_rows is not None and da is not None:
        da = summed_by_row(a, a_rows, da)
    if needs[5] and offs is not None:
        sums = dz.new_zeros((data.shape[0] + 1, n), dtype=torch.float32)
        d_bias = sums.index_add(0, _numbers_of_groups(offs, dz.shape[0]), dz.float())[:-1].to(dz.dtype)
    elif needs[5]:
        d_bias = dz.sum(tuple(range(dz.ndim - 1))) if dz.ndim > 1 else dz
    if needs[6]:
        dc = dz * beta
    return (da, None, None, None, None, d_bias, dc) + (None,) * 7


class _PackedProduct(torch.autograd.Function):
    @staticmethod
    def forward(*values):
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.ptxbuilder.packed_mm.default(*values)

    setup_context = staticmethod(_keep)
    backward = staticmethod(_gradients)

    @staticmethod
    def vmap(info, in_dims, a, data, scale_b, n, form, bias, c, alpha, beta, *values):
        if data.ndim == 3:
            raise ValueError(NO_BATCH.format("offs of packed weights"))
        if values[-1] is not None:
            raise ValueError(NO_BATCH.format("a_rows of packed weights"))

        def ahead(x, dim, rank):  # moves the new dimension to the front, after adding missing dimensions
            x = x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            return x.reshape(info.batch_size, *(1,) * (rank - x.ndim), *x.shape[1:])

        if in_dims[1] is not None or in_dims[2] is not None:
            raise ValueError(NO_BATCH.format("a batch of packed weights"))
        a = ahead(a, in_dims[0], 0)
        if c is not None:
            c = ahead(c, in_dims[6], 0)
        if in_dims[5] is not None:  # a bias for each batch is added to C
            bias = ahead(bias, in_dims[5], a.ndim).expand(*a.shape[:-1], n)
            bias, c, beta = None, bias if c is None else beta * c + bias, 1.0
        return _PackedProduct.apply(a, data, scale_b, n, form, bias, c, alpha, beta, *values), 0


def _differentiable(a, data, scale_b, n, form, bias, c, *values):
    """Returns a product with its derivative, for operands that require a gradient."""
    if not is_compiling() and is_dual():
        raise ValueError("packed_mm has no forward derivative: multiply by the result of unpack_weights()")
    refuse_gradient("packed_mm", scale_b=scale_b)

    def product(a, b, bias, c, *values):
        return applied(_PackedProduct, a, *b, bias, c, *values)

    return smoothed(product, a, (data, scale_b, n, form), bias, c, *values)


def _differentiated(a, data, scale_b, n, form, bias=None, c=None, alpha=1.0, beta=0.0, activation=None, out_dtype=None, device=None,
                    offs=None, a_rows=None):
    values = (a, data, scale_b, n, form, bias, c, alpha, beta, activation, out_dtype, device, offs, a_rows)
    if requires_grad(a, scale_b, bias, c) or not is_compiling() and is_dual():
        return _differentiable(*values)
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.ptxbuilder.packed_mm.default(*values)


library.impl("packed_mm", _differentiated, "Autograd")


@tensors.named("ptxbuilder::packed_mm")
def packed_mm(a, b, bias, c, alpha, beta, activation, out, out_dtype, device, offs, a_rows):
    is_traced = is_compiling() or is_watched() or not (is_plain(a) and is_plain(b.data) and is_plain(bias) and is_plain(c)
                                                       and is_plain(out) and is_plain(offs) and is_plain(a_rows))
    if is_traced:
        check_operands({"A": a, "B": b.data}, bias=bias, C=c, out=out, offs=offs, a_rows=a_rows)
    if torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu"):
        dtype = autocast_of(a)
        a, bias, c = (x if dtype is None else narrowed(x, dtype) for x in (a, bias, c))
    is_transformed = not is_compiling() and (has_transforms() is not None or is_dual())
    wants = is_transformed or requires_grad(a, b.scale_b, bias, c, out)
    if is_traced or wants:
        check_operands({"A": a, "B": b.data}, bias=bias, C=c, out=out, offs=offs, a_rows=a_rows)
        if out is not None:
            raise ValueError(NO_OUT)
        _packed.result_of(a, b, out_dtype, a_rows)  # reports what is wrong
        # torch.func cannot differentiate PyTorch operations.
        call = _differentiable if wants and not is_traced else torch.ops.ptxbuilder.packed_mm
        return call(a, b.data, b.scale_b, b.shape[-1], b.form, bias, c, alpha, beta, activation, dtype_of(out_dtype),
                    place_of(device, a, "A"), offs, a_rows)
    try:
        refuse_negative(out=out)
        return _packed.run(tensors, a, b, bias, c, alpha, beta, activation, out, out_dtype, device, offs, a_rows)
    except Exception:
        check_operands({"A": a, "B": b.data}, bias=bias, C=c, out=out, offs=offs, a_rows=a_rows)  # reports more clearly what is wrong
        raise


class packed_kit:
    """The functions that packing uses. Weights are packed on the CPU, so tensors are copied to the host and back."""
    permuted, stacked, where = torch.permute, torch.stack, torch.where

    @staticmethod
    def check(required, **optional):
        check_operands(required, **optional)
        refuse_gradient("a packed matrix", **required, **optional)

    @staticmethod
    def cast(x, name):
        return x.to(DTYPES[name])

    @staticmethod
    def of_bytes(x, name):
        """Returns the elements whose bytes are along the last dimension of x."""
        return x.contiguous().view(DTYPES[name])[..., 0]

    @staticmethod
    def greatest(x):
        return x.abs().amax(1)

    @staticmethod
    def empty(shape, name):
        return torch.empty(shape, dtype=DTYPES[name])

    @staticmethod
    def on_host(x):
        return x.detach().cpu().contiguous()

    @staticmethod
    def tensor(x):
        return tensors.tensor(x)

    @staticmethod
    def back(x, like):
        return x.to(like.device)

    @staticmethod
    def floats(x):
        return x.float().contiguous()

"""Matrix products of PyTorch tensors, called directly in eager mode and as torch.ops.ptxbuilder.matmul while PyTorch is tracing."""
import functools
import math
from collections import namedtuple

import torch
from torch import library as operators
from torch.autograd import forward_ad, profiler
from torch.utils.flop_counter import register_flop_formula

from .. import _ext, _product
from .._common import ACTIVATIONS, CODES, NAMES, no_activation, output_of
from .._product import ALPHA, NO_GRADIENT, ROWS, Operands, Options
from .._sparse import shares
from . import tensors
from .tensors import (DTYPES, NO_BATCH, NO_OUT, PLACES, applied, autocast_of, check_meta, check_operands, dtype_of, factor_of,
                      has_transforms, in_unit, is_compiling, is_dual, is_plain, is_vmapped, is_watched, is_wrapped, library, narrowed,
                      place_of, refuse_negative, requires_grad, there)

OUTPUTS = {dtype: DTYPES[output_of(name)] for name, dtype in DTYPES.items()}
_CODES = {dtype: CODES[name][0] << 8 | CODES[name][1] for name, dtype in DTYPES.items()}
_CODES |= {name: _CODES[DTYPES[full]] for short, full in NAMES.items() for name in (short, full) if full in DTYPES}
_ext.use_eager(torch.Tensor, torch.nn.Parameter, tensors.mode_count, tensors.is_tracing, tensors.tracing_state(),
               torch.is_grad_enabled, torch.is_autocast_enabled, torch.are_deterministic_algorithms_enabled, forward_ad, profiler,
               ACTIVATIONS, _CODES, torch._C._increment_version)  # faster than increment_version() of torch.autograd.graph


def take_over():
    """Makes matmul() call eager_product() first. It must not be called while a call is traced, because tracing must not change the state of
    Python."""
    _product.is_traced = is_compiling


@tensors.named("ptxbuilder::matmul")
def matmul(a, b, out, operands, options):
    """Handles the cases that the extension's eager_product() does not handle."""
    if not is_compiling():
        take_over()
    operands, options = _product.alpha_as_given(operands, options,
                                                lambda x: isinstance(x, torch.Tensor) and (x.is_cuda or not a.is_cuda))
    is_traced = is_compiling() or is_watched() or not all(is_plain(x) for x in (a, b, out, *operands))
    if is_traced:
        _check(a, b, out, operands)
    if out is None:  # like torch.mm(), which does not convert operands if `out` is given
        a, b, operands = _as_autocast(a, b, operands, options)
    try:
        # If torch.func or dual tensors are used, an autograd function computes the derivatives, or reports that there are none.
        wants = requires_grad(a, b, out, *operands) or is_wrapped(a, b, out, *operands) or not is_compiling() and out is None and (
            has_transforms() is not None or is_dual())
        has_more = _product.has_more(operands, options)
        if wants and out is not None and (has_more or not is_traced):
            raise ValueError(NO_OUT)
        if operands.add_to_rows is not None and torch.are_deterministic_algorithms_enabled():
            raise ValueError("add_to_rows adds in no fixed order, but torch.use_deterministic_algorithms() is on: use d_rows, and sum a "
                             "token's rows afterwards")
        if operands.add_to_rows is not None and out is None:
            c, operands, options = _product.what_rows_are_added_to(operands, options)
            if wants:
                return _added(a, b, c, operands, options)
            out = tensors.copy(c)
        if wants and operands.counts is not None:
            _product.only_offs(operands, options)
        if wants and operands.offs is not None and operands.d_rows is not None and operands.scale_a is not None:
            words = {word: getattr(operands, word) for word in ("offs", "a_rows", "d_rows", "b_addresses")}
            d = _product.matmul(a, b, out_dtype=options.out_dtype, transpose_a=options.transpose_a, transpose_b=options.transpose_b,
                                device=options.device, **words)
            return d * operands.scale_a.new_zeros(d.shape[0]).scatter(0, operands.d_rows.long(), operands.scale_a)[:, None].to(d.dtype)
        if wants and operands.offs is not None:
            _product.only_offs(operands, options)
            return torch.ops.ptxbuilder.grouped_mm(turned(a, options.transpose_a), turned(b, options.transpose_b), operands.offs,
                                                   dtype_of(options.out_dtype), place_of(options.device, a, "A"), operands.a_rows,
                                                   operands.d_rows, operands.b_addresses)
        if wants and (operands.a_rows is not None or operands.d_rows is not None):  # computed as one group of all rows
            _product.only_offs(operands, options)
            a, b = turned(a, options.transpose_a), turned(b, options.transpose_b)
            m, _ = _product.gathered_shape(a, b, operands.a_rows)  # reports what is wrong
            ends = torch.full((1,), m, dtype=torch.int32, device=a.device)
            return torch.ops.ptxbuilder.grouped_mm(a, b[None], ends, dtype_of(options.out_dtype), place_of(options.device, a, "A"),
                                                   operands.a_rows, operands.d_rows)
        if wants and has_more:
            return _by_pieces(turned(a, options.transpose_a), turned(b, options.transpose_b), operands, options)
        if is_traced:
            return _traced(a, b, out, operands, options)
        if wants:
            return smoothed(functools.partial(applied, _Product), turned(a, options.transpose_a), turned(b, options.transpose_b),
                             operands.bias, operands.c, options.alpha, options.beta, options.activation, dtype_of(options.out_dtype),
                             options.precise, options.tf32, options.device)
        return _run(a, b, out, operands, options)
    except Exception:
        if not is_traced:
            _check(a, b, out, operands)
        raise


def _as_autocast(a, b, operands, options):
    """Returns A and B as torch.autocast would convert them. Operands that must have D's type are also converted if D has A's type."""
    dtype = autocast_of(a)
    if dtype is None:
        return a, b, operands
    if operands.b_addresses is not None and b.dtype != dtype:
        raise ValueError(f"b_addresses: torch.autocast converts only one matrix of B from {b.dtype} to {dtype}: convert all matrices "
                         "before")
    if options.out_dtype is None:
        operands = Operands(*(narrowed(x, dtype) if row.type == "addend" else x for row, x in zip(ROWS, operands)))
    return narrowed(a, dtype), narrowed(b, dtype), operands


def _check(a, b, out, operands):
    check_operands({"A": a, "B": b}, out=out, **_product.by_label(operands))


def turned(x, is_transposed):
    return x.transpose(-1, -2) if is_transposed else x


@torch.compiler.disable  # for frames that are compiled separately: Dynamo must not trace the functions that this one calls
def _run(a, b, out, operands, options):
    refuse_negative(**{row.label: x for row, x in _product.with_role(operands, "greatest")})
    return _product.run(tensors, a, b, out, operands, options)


def _direct(a, b, out, operands, options):
    """Computes the product below autograd, for operands that have already been transposed."""
    _, beta, activation, out_dtype, _, _, precise, tf32, gate, device = options
    alpha = options.alpha if operands[ALPHA] is None else operands[ALPHA]
    d = _ext.eager_product(a, b, out, alpha, beta, activation, out_dtype, False, False, precise, tf32, gate, device, True,
                           *operands[:ALPHA], *operands[ALPHA + 1:])
    return _run(a, b, out, operands, options) if d is NotImplemented else d


# ---- Gradients, with the same kernels ----

def _silu_backward(x, inputs):  # PyTorch's own silu_backward has no derivative
    inputs = inputs.float()
    s = torch.sigmoid(inputs)
    return x * (s * (1 + inputs * (1 - s)))


# If a gradient is requested, the activation is a PyTorch function, and x times its slope at the inputs is another function that PyTorch can
# differentiate.
_FUNCTIONS = {
    "relu": (torch.relu, lambda x, inputs: torch.ops.aten.threshold_backward(x, inputs, 0)),
    "gelu": (lambda z: torch.nn.functional.gelu(z, approximate="tanh"),
             lambda x, inputs: torch.ops.aten.gelu_backward(x, inputs, approximate="tanh")),
    "silu": (torch.nn.functional.silu, _silu_backward),
    "relu_squared": (lambda z: torch.relu(z).square(), lambda x, inputs: x * (2 * torch.relu(inputs))),
    None: (lambda z: z, None),
}


def _by_pieces(a, b, operands, options):
    """Computes the product with our derivative, and then applies PyTorch functions, which have their own derivatives."""
    dtype = dtype_of(options.out_dtype) or OUTPUTS[a.dtype]
    refused = [row.word for row, _ in _product.with_role(operands, "sparsity", "block_factor", "greatest", "result_factor")]
    for name in (*refused, *([f"out_dtype of {dtype}"] if dtype.itemsize == 1 else [])):
        raise ValueError((NO_BATCH if is_vmapped() else NO_GRADIENT).format(name))
    if options.activation not in _FUNCTIONS:
        raise no_activation(options.activation)
    lines = _product.in_lines(operands, a.shape[:-1], (*b.shape[:-2], b.shape[-1]))
    _product.check_elements(operands, torch.Size((*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])), dtype)
    words = {"precise": options.precise, "tf32": options.tf32, "device": options.device}
    if all(row.word in ("c", "bias") or row.role == "inputs" for row, x in zip(ROWS, operands) if x is not None):
        x = _product.matmul(a, b, bias=operands.bias, c=operands.c, alpha=options.alpha, beta=options.beta, out_dtype=dtype, **words)
    else:
        x = options.alpha * _product.matmul(a, b, out_dtype=torch.float32, **words)
        x = _product.added(_product.multiplied(x, lines), operands, lines, options.beta, lambda y: y)
    function, slope = _FUNCTIONS[options.activation]
    return _product.activated(x, operands, options.gate, function, lambda x, y: slope(x, y.to(x.dtype))).to(dtype)


def smoothed(product, a, b, bias, c, alpha, beta, activation, *values):
    # The derivative of relu can be computed from its result. The derivatives of other activations need the activation's input, which is
    # kept. A result of 8 bits is excluded here, because it will be rejected.
    if activation in _FUNCTIONS.keys() - {None, "relu"} and (values[0] is None or values[0].itemsize > 1):
        return _FUNCTIONS[activation][0](product(a, b, bias, c, alpha, beta, None, *values))
    return product(a, b, bias, c, alpha, beta, activation, *values)


def _keep(ctx, inputs, output):
    a, b, bias, c, *values = inputs
    values = list(values)  # Dynamo passes a tuple
    if output.dtype.itemsize == 1:
        raise ValueError(NO_GRADIENT.format(f"out_dtype of {output.dtype}"))
    values[-1] = there(values[-1], a)
    ctx.values = values
    ctx.save_for_backward(a, b, output if values[2] == "relu" else None)


def _gradients(ctx, d_output):
    a, b, output = ctx.saved_tensors
    alpha, beta, _, _, precise, tf32, device = ctx.values
    if a.dtype.itemsize == 1:
        raise ValueError(f"A and B of {a.dtype} have no gradients")

    def product(x, y, like, transpose_x=False, transpose_y=False):
        """Returns the product of x and y in the layout of `like`, for instance of a layer's weight with contiguous columns, so that the
        gradient need not be copied."""
        if like.stride(-2) == 1 != like.stride(-1):
            return turned(product(y, x, turned(like, True), not transpose_y, not transpose_x), True)
        return in_unit(lambda dtype: _product.matmul(x, y, transpose_a=transpose_x, transpose_b=transpose_y, alpha=alpha, out_dtype=dtype,
                                                     precise=precise, tf32=tf32, device=device).sum_to_size(like.shape),
                       unit, like.dtype)  # sums over broadcast dimensions

    dz = d_output if output is None else d_output * (output > 0)
    da = db = d_bias = dc = None
    factor, unit = factor_of(dz, b.dtype)
    if isinstance(alpha, torch.SymFloat):  # its value is known when the graph runs, but not now, when the backward pass is traced
        factor, alpha = factor * alpha, 1.0
    needs = ctx.needs_input_grad  # only for arguments that were given: defaults of an operation have no gradients
    if needs[0]:
        da = product(factor, b, a, transpose_y=True)
    if needs[1]:
        if b.ndim == 2 and a.ndim > 2:  # treats the rows of all batches as one matrix
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
    @staticmethod
    def forward(a, b, *values):
        return _direct(a, b, None, *_split(values, {}))

    setup_context = staticmethod(_keep)
    backward = staticmethod(_gradients)

    @staticmethod
    def vmap(info, in_dims, a, b, bias, c, alpha, beta, *values):
        def ahead(x, dim, rank):  # moves the new dimension to the front, or adds it with one element if the operand lacks it
            x = x.unsqueeze(0) if dim is None else x.movedim(dim, 0)
            return x.reshape(x.shape[0], *(1,) * (rank + 1 - x.ndim), *x.shape[1:])

        rank = max(x.ndim - (dim is not None) for x, dim in zip((a, b), in_dims))
        a, b = ahead(a, in_dims[0], rank), ahead(b, in_dims[1], rank)
        batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2], (info.batch_size,) + (1,) * (rank - 2))
        if c is not None:
            c = ahead(c, in_dims[3], rank).expand(*batch, -1, -1)
        if in_dims[2] is not None:  # a bias for each batch is added to C, which has batches
            bias = ahead(bias, in_dims[2], rank).expand(*batch, a.shape[-2], -1)
            bias, c, beta = None, bias if c is None else beta * c + bias, 1.0
        if tuple(batch) != tuple(torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])):
            a = a.expand(*batch, -1, -1)
        return _Product.apply(a, b, bias, c, alpha, beta, *values), 0


# ---- Products under torch.compile, and of tensors that are not plain ----


def _traced(a, b, out, operands, options):
    a, b, device = turned(a, options.transpose_a), turned(b, options.transpose_b), place_of(options.device, a, "A")
    out_dtype = dtype_of(options.out_dtype)
    values = (operands.bias, operands.c, options.alpha, options.beta, options.activation, out_dtype, bool(options.precise),
              bool(options.tf32), device)
    if out is None and not _product.has_more(operands, options):
        return torch.ops.ptxbuilder.matmul(a, b, *values)
    values += (bool(options.gate), *(operands[i] for i in _READ))
    written = {row.word: x for row, x in _product.with_role(operands, "greatest")}
    if out is not None:
        if out_dtype is not None and out.dtype != out_dtype:
            raise ValueError(f"D: its type is {out.dtype}, but out_dtype is {options.out_dtype}")
        torch.ops.ptxbuilder.matmul_out(a, b, *values, d=out, **written)
        return out
    operation = torch.ops.ptxbuilder.matmul_amax if written else torch.ops.ptxbuilder.matmul_with
    return operation(a, b, *values, **written)


# In the schemas, alpha is a Scalar instead of a float because a Scalar may be a number that is known only when the graph runs, such as
# x.item(). A product with no operands other than C and a bias has its own operation, because each value in a schema adds 0.1 us to every
# call. The other operations also have the other operands that are read; operands that are written, and a given result, are keyword
# arguments. The result is named `d`, because Dynamo rejects an `out` with gaps.
_READ = [i for i, row in enumerate(ROWS) if row.role != "greatest" and row.word not in ("bias", "c")]
_WRITTEN = [row.word for row in ROWS if row.role == "greatest"]
_PLAIN = ("Tensor a, Tensor b, Tensor? bias=None, Tensor? c=None, Scalar alpha=1, Scalar beta=0, str? activation=None, "
          "ScalarType? out_dtype=None, bool precise=False, bool tf32=False, str? device=None")
_OPERANDS = ", ".join((_PLAIN, "bool gate=False", *(f"Tensor? {'alpha_tensor' if i == ALPHA else ROWS[i].word}=None" for i in _READ)))
library.define(f"matmul({_PLAIN}) -> Tensor")
# There are three operations, because Inductor rejects an operation that may write an argument but does not.
library.define(f"matmul_with({_OPERANDS}) -> Tensor")
library.define(f"matmul_amax({_OPERANDS}, *, {', '.join(f'Tensor({word}!) {word}' for word in _WRITTEN)}) -> Tensor")
library.define(f"matmul_out({_OPERANDS}, *, Tensor(d!) d, {', '.join(f'Tensor({word}!)? {word}=None' for word in _WRITTEN)}) -> ()")

_NOTHING = (None,) * (len(ROWS) - 3)  # the operands after C, bias and alpha, as arguments of eager_product()
assert [row.word for row in ROWS[:3]] == ["c", "bias", "alpha"]

# The values that follow A and B, in the order of the schema. They have defaults because the dispatcher omits arguments that have their
# default values.
_Values = namedtuple("_Values", ("bias", "c", "alpha", "beta", "activation", "out_dtype", "precise", "tf32", "device", "gate",
                                 *(f"read_{ROWS[i].word}" for i in _READ)),
                     defaults=(None, None, 1.0, 0.0, None, None, False, False, None, False) + (None,) * len(_READ))


def _split(values, written):
    """Returns the operands and options that correspond to the values of an operation."""
    bias, c, alpha, beta, activation, out_dtype, precise, tf32, device, gate, *read = _Values(*values)
    operands = [None] * len(ROWS)
    operands[Operands._fields.index("bias")], operands[Operands._fields.index("c")] = bias, c
    for i, x in zip(_READ, read):
        operands[i] = x
    operands = Operands(*operands)
    return (operands._replace(**written) if written else operands), Options(alpha, beta, activation, out_dtype, False, False, precise,
                                                                            tf32, gate, device)


def _plain(a, b, bias=None, c=None, alpha=1.0, beta=0.0, activation=None, out_dtype=None, precise=False, tf32=False, device=None):
    device = there(device, a)
    d = _ext.eager_product(a, b, None, alpha, beta, activation, out_dtype, False, False, precise, tf32, False, device, True, c, bias,
                           *_NOTHING)
    if d is NotImplemented:
        options = Options(alpha, beta, activation, out_dtype, False, False, precise, tf32, False, device)
        d = _run(a, b, None, Operands(c=c, bias=bias), options)
    return d


def _op(a, b, *values, d=None, **written):
    operands, options = _split(values, written)
    return _direct(a, b, d, operands, options._replace(device=there(options.device, a)))


def _op_out(a, b, *values, d, **written):
    _op(a, b, *values, d=d, **written)


for _place in PLACES:
    library.impl("matmul", _plain, _place)
    library.impl("matmul_with", _op, _place)
    library.impl("matmul_amax", _op, _place)
    library.impl("matmul_out", _op_out, _place)


@operators.register_fake("ptxbuilder::matmul", lib=library)
@operators.register_fake("ptxbuilder::matmul_with", lib=library)
@operators.register_fake("ptxbuilder::matmul_amax", lib=library)
def _(a, b, *values, **written):
    operands, options = _split(values, written)
    check_meta(a, b, *operands)
    dtype = options.out_dtype or OUTPUTS[a.dtype]
    of_a, of_b = shares(operands)
    if _product.sizes_of(operands) is not None or operands.a_rows is not None:
        shape = (_product.gathered_shape(a, b, operands.a_rows, of_b) if _product.sizes_of(operands) is None else
                 _product.grouped_shape(a, b, operands, of_b))
        return a.new_empty(_product.halved(shape) if options.gate else shape, dtype=dtype)
    torch._check(a.ndim >= 2 and b.ndim >= 2, lambda: "A and B: each must have 2 dimensions, after those of batches")
    torch._check(of_a * a.shape[-1] == of_b * b.shape[-2],
                 lambda: f"B: {of_b * b.shape[-2]} rows, but A has {of_a * a.shape[-1]} columns")
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    columns = b.shape[-1] // 2 if options.gate else b.shape[-1]
    return a.new_empty((*batch, a.shape[-2], columns), dtype=dtype)


@operators.register_fake("ptxbuilder::matmul_out", lib=library)
def _(a, b, *values, d, **written):
    check_meta(a, b, d, *_split(values, written)[0])


@register_flop_formula([torch.ops.ptxbuilder.matmul, torch.ops.ptxbuilder.matmul_with, torch.ops.ptxbuilder.matmul_amax,
                        torch.ops.ptxbuilder.matmul_out])
def _(a, b, *values, out_shape=None, **words):
    """Returns the flops of the product without the operations after the sum, as torch.utils.flop_counter does for PyTorch's own
    products."""
    return 2 * math.prod(torch.broadcast_shapes(a[:-2], b[:-2])) * a[-2] * a[-1] * b[-1]


# ---- Groups ----

library.define("grouped_mm(Tensor a, Tensor b, Tensor offs, ScalarType? out_dtype=None, str? device=None, Tensor? a_rows=None, "
               "Tensor? d_rows=None, Tensor? b_addresses=None) -> Tensor")


_OFFS, _A_ROWS, _D_ROWS = (Operands._fields.index(word) for word in ("offs", "a_rows", "d_rows"))
_OTHERS = [None] * (len(ROWS) - 1)  # operands for eager_product(): those of ROWS without alpha
_PLACE = _OFFS - (_OFFS > ALPHA)
_AHEAD, _BEHIND = _OTHERS[:_PLACE], _OTHERS[_PLACE + 1:]


def _grouped(a, b, offs, out_dtype=None, device=None, a_rows=None, d_rows=None, b_addresses=None):
    device = there(device, a)
    if a_rows is None and d_rows is None and b_addresses is None:
        d = _ext.eager_product(a, b, None, 1.0, 0.0, None, out_dtype, False, False, False, False, False, device, True, *_AHEAD, offs, *_BEHIND)
        if d is not NotImplemented:
            return d
    options = Options(1.0, 0.0, None, out_dtype, False, False, False, False, False, device)
    return _run(a, b, None, Operands(offs=offs, a_rows=a_rows, d_rows=d_rows, b_addresses=b_addresses), options)


def _rows_there(a, rows):
    """Returns a mask of the row numbers that exist in A, and the row numbers clamped to A's rows."""
    return ((rows >= 0) & (rows < a.shape[0]))[:, None], rows.clamp(0, max(a.shape[0] - 1, 0))


def _added(a, b, c, operands, options):
    """Adds rows of the product to C with PyTorch functions, so that PyTorch can differentiate the result. Grouped and gathered products
    have no gradient if another operation follows the sum, so their weights are applied here, after the product."""
    rows, weights = operands.add_to_rows, None
    if operands.offs is not None or operands.a_rows is not None:
        weights, operands = operands.scale_a, operands._replace(scale_a=None)
    words = operands._replace(add_to_rows=None)._asdict()
    words |= {word: x for word, x in options._asdict().items() if word != "alpha"}
    words["alpha"] = options.alpha if operands.alpha is None else operands.alpha
    d = _product.matmul(a, b, **{**words, "out_dtype": c.dtype}).float()
    d = d if weights is None else d * weights.reshape(-1, 1)
    if c.shape[0] == 0:
        return c
    are, rows = _rows_there(c, rows)
    return c.float().index_add(0, rows, torch.where(are, d, 0)).to(c.dtype)


def _gathered(a, rows):
    """Returns a copy of the rows of A; rows that do not exist in A are zeros."""
    if a.shape[0] == 0:
        return a.new_zeros((rows.shape[0], a.shape[1]))
    are, rows = _rows_there(a, rows)
    return torch.where(are, a.index_select(0, rows), 0)


def summed_by_row(a, rows, of_rows):
    """Returns the gradient of A, given the gradients of its gathered rows. The gradients of a row that was used several times are added."""
    if a.shape[0] == 0:
        return torch.zeros_like(a)
    are, rows = _rows_there(a, rows)
    sums = of_rows.new_zeros(a.shape, dtype=torch.promote_types(a.dtype, torch.float32))
    return sums.index_add(0, rows, torch.where(are, of_rows, 0).to(sums.dtype)).to(a.dtype)


def _keep_groups(ctx, inputs, output):
    a, b, offs, _, device, a_rows, d_rows, b_addresses = inputs
    if a.dtype.itemsize == 1 or output.dtype.itemsize == 1:
        raise ValueError(NO_GRADIENT.format(f"A of {a.dtype} and D of {output.dtype}, in groups,"))
    if b_addresses is not None and ctx.needs_input_grad[1]:
        raise ValueError(NO_GRADIENT.format("B of b_addresses"))
    ctx.device = device
    ctx.save_for_backward(a, b, offs, a_rows, d_rows, b_addresses)


def _gradients_of_groups(ctx, grad):
    a, b, offs, a_rows, d_rows, b_addresses = ctx.saved_tensors

    def product(x, y, like):
        return in_unit(lambda dtype: torch.ops.ptxbuilder.grouped_mm(x, y, offs, dtype, ctx.device, b_addresses=b_addresses), unit,
                       like.dtype)

    needs = ctx.needs_input_grad
    factor, unit = factor_of(grad if d_rows is None else _gathered(grad, d_rows), a.dtype)
    rows = a if a_rows is None or not needs[1] else _gathered(a, a_rows)
    da, db = _product.gradients_of_groups(product, lambda x: x.transpose(-1, -2), rows, b, factor, needs,
                                          b.ndim == 2 and b_addresses is None)
    if a_rows is not None and da is not None:
        da = summed_by_row(a, a_rows, da)
    return da, db, None, None, None, None, None, None


class _Groups(torch.autograd.Function):
    @staticmethod
    def forward(*operands):
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.ptxbuilder.grouped_mm.default(*operands)

    setup_context = staticmethod(_keep_groups)
    backward = staticmethod(_gradients_of_groups)


def _grouped_differentiated(a, b, offs, out_dtype=None, device=None, *others):
    if requires_grad(a, b):
        return applied(_Groups, a, b, offs, out_dtype, device, *others, *(None,) * (3 - len(others)))
    if a.is_cuda and all(map(is_plain, (a, b, *others))) and not is_watched():
        return _grouped(a, b, offs, out_dtype, device, *others)  # called directly, to avoid PyTorch's dispatcher
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.ptxbuilder.grouped_mm.default(a, b, offs, out_dtype, device, *others)


for _place in PLACES:
    library.impl("grouped_mm", _grouped, _place)
library.impl("grouped_mm", _grouped_differentiated, "Autograd")


@operators.register_fake("ptxbuilder::grouped_mm", lib=library)
def _(a, b, offs, out_dtype=None, device=None, a_rows=None, d_rows=None, b_addresses=None):
    check_meta(a, b, offs, a_rows, d_rows, b_addresses)
    operands = Operands(offs=offs, a_rows=a_rows, b_addresses=b_addresses)
    return a.new_empty(_product.grouped_shape(a, b, operands), dtype=out_dtype or OUTPUTS[a.dtype])


@register_flop_formula([torch.ops.ptxbuilder.grouped_mm])
def _(a, b, offs, *values, out_shape=None, **words):
    """Returns the number of flops, assuming that the groups contain all rows, or all of k."""
    return 2 * math.prod(out_shape) * a[-1] if len(out_shape) == 2 else 2 * a[-2] * a[-1] * b[-1]


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
        return smoothed(functools.partial(applied, _Operation), *values)
    if a.is_cuda and is_plain(a) and is_plain(b) and not is_watched():
        return _plain(*values)  # called directly, to avoid PyTorch's dispatcher
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.ptxbuilder.matmul.default(*values)


def _refusing(operation):
    """Makes an operation without a gradient reject operands that require one; pb.matmul() uses another path for these."""
    def refuse(*values, **words):
        if requires_grad(*(x for x in (*values, *words.values()) if isinstance(x, torch.Tensor))):
            raise ValueError(f"{operation.name()} has no gradient: call ptxbuilder.matmul() with the same operands instead, with "
                             "torch.func.grad outside of torch.compile")
        with torch._C._AutoDispatchBelowAutograd():
            return operation(*values, **words)

    return refuse


library.impl("matmul", _differentiated, "Autograd")
for _name in ("matmul_with", "matmul_amax", "matmul_out"):
    library.impl(_name, _refusing(getattr(torch.ops.ptxbuilder, _name).default), "Autograd")

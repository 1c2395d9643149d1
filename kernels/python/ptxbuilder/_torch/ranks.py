"""Operations in which the ranks of a process group exchange rows: products that overlap communication, all-reduce with normalization, and
dispatch to experts."""
import functools

import torch
import torch.distributed as dist
from torch.distributed import _symmetric_memory as symmetric

from .. import _ext
from .._common import check_number, name_of, untouched
from .._product import matmul
from .._rows import OPERATIONS
from .rows import _run as run_rows
from .tensors import check_operands, dtype_of, has_transforms, is_compiling, is_plain, is_watched, requires_grad

WORDS_BYTES = 256 * 1024  # size of the part at the beginning of exchange memory that must be zero before the first call
# A call is first passed to the extension, which queues it in the usual cases if its exchange memory is known. Calls come from ABOVE
# PyTorch's dispatcher, which may have to record them, or from BELOW it. The extension returns NotImplemented for all other calls, which are
# then prepared and passed to it again as READY.
ABOVE, BELOW, READY = range(3)
PRODUCTS, NORMS, TOKENS = range(3)  # uses of exchange memory; calls of norms and of tokens alternate between its two places for data


class Exchange:
    """The exchange memory of this rank, and the addresses of all ranks' memory, for a group and a stream. The memory grows when all ranks
    make a larger call."""

    def __init__(self):
        self.address_of, self.bytes, self.kept = (), 0, []

    def reserve(self, bytes, group, device):
        if bytes <= self.bytes:
            return
        if torch.cuda.is_current_stream_capturing():
            raise ValueError("this call needs more exchange memory than there is, but a capture cannot allocate it: call it once before "
                             "the capture, with the same sizes")
        memory = symmetric.empty(bytes, dtype=torch.uint8, device=device)
        handle = symmetric.rendezvous(memory, group)
        address_of = tuple(handle.get_buffer(rank, (bytes,), torch.uint8).data_ptr() for rank in range(handle.world_size))
        memory[:WORDS_BYTES].zero_()
        torch.cuda.synchronize(device)
        dist.barrier(group=group, device_ids=[device.index])  # ensures that no rank sends before all memory is zero
        self.address_of, self.bytes = address_of, bytes
        self.kept.append((memory, handle))  # kept, because a recorded graph may still use it


exchanges, last_streams = {}, {}  # last_streams is indexed by device


def prepare_exchange(group, device, use, bytes):
    """Passes the exchange memory for the next call to the extension. Also makes calls on two streams run in the order in which the host
    makes them: a launch may occupy the entire GPU while it waits for the launches of other ranks, so ranks that begin with different calls
    would wait forever."""
    stream = torch.cuda.current_stream(device)
    last = last_streams.setdefault(device.index, stream)
    if last != stream and not torch.cuda.is_current_stream_capturing():
        stream.wait_stream(last)
        last_streams[device.index] = stream
    _ext.follow_stream(device.index, last_streams[device.index].cuda_stream)
    exchange = exchanges.setdefault((group, device.index, stream.cuda_stream, use), Exchange())
    exchange.reserve(bytes, group, device)
    _ext.keep_exchange(group, device.index, stream.cuda_stream, use, exchange.address_of, exchange.bytes, group.rank())


def resolved(group_name, ranks=None):
    group = dist.distributed_c10d._resolve_process_group(group_name)
    if ranks not in (None, group.size()):
        raise ValueError(f"ranks: the call was compiled for {ranks}, but the group '{group_name}' has {group.size()}")
    return group


def quickly(call, *arguments, group):
    """Returns the result of the extension's `call`, which may be NotImplemented. If `group` is None, the call uses the world, as in
    group_of().
    """
    if is_compiling():
        return NotImplemented
    return call(*arguments, dist.group.WORLD if group is None else group, ABOVE)


def group_of(group):
    if not dist.is_initialized():
        raise ValueError("there is no process group: call torch.distributed.init_process_group() first")
    if group is None:
        group = dist.group.WORLD
    if dist.get_world_size(group) < 2:
        raise ValueError("the process group has only one rank: use pb.matmul() on one GPU")
    return group


def is_direct(*tensors):
    """Returns whether a call can skip PyTorch's dispatcher, which takes longer than a small kernel."""
    is_seen = requires_grad(*tensors) or is_compiling() or is_watched() or has_transforms() is not None
    return not is_seen and all(is_plain(tensor) for tensor in tensors)


# ---- Products ----

# The number of ranks is an argument of the operations. A compiled graph, which may be stored on disk, is identified by its text, and its
# shapes depend on this number.

GATHERS, SCATTERS, REDUCES = range(3)  # values of the field `scatters` of ptxb_ranked


def check(a, b, scale):
    check_operands({"A": a, "B": b}, scale=scale)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"A is {tuple(a.shape)} and B is {tuple(b.shape)}, but they must be matrices, and B must have as many rows as A "
                         "has columns")
    if not a.is_cuda or a.device != b.device or (scale is not None and scale.device != a.device):
        raise ValueError(f"A is on {a.device} and B on {b.device}, but both must be on this rank's GPU")
    if requires_grad(scale):
        raise ValueError("scale has no gradient: detach it, or multiply the result")
    if requires_grad(a, b) and a.dtype.itemsize == 1:
        raise ValueError(f"A and B of {a.dtype} have no gradients")


def result_of(a, n, ranks, form, out_dtype):
    """Returns the shape and type of D."""
    rows = a.shape[0]
    if form == SCATTERS and rows % ranks:
        raise ValueError(f"A has {rows} rows; their number must be a multiple of the {ranks} ranks")
    rows = {GATHERS: rows * ranks, SCATTERS: rows // ranks, REDUCES: rows}[form]
    return (rows, n), dtype_of(out_dtype) or (torch.bfloat16 if a.dtype.itemsize == 1 else a.dtype)


@functools.lru_cache(maxsize=256)
def product_memory(a, b, d, dtype, d_dtype, ranks, form, device):
    tensors = untouched((a, name_of(dtype)), (b, name_of(dtype)), (d, name_of(d_dtype)), None, None)
    return _ext.ranked_memory(tuple(tensors), ranks, form, device)


def aligned(x):
    """Returns x at an address that TMA and wide accesses accept, a multiple of 16 bytes."""
    return x.clone() if x.data_ptr() % 16 else x


def multiply(a, b, scale, out_dtype, multiprocessors, group, form, gathered=None):
    d = _ext.ranked(a, b, gathered, scale, out_dtype, form, multiprocessors, group, BELOW)
    if d is not NotImplemented:
        return d
    ranks = group.size()
    shape, dtype = result_of(a, b.shape[1], ranks, form, out_dtype)
    turned = b.t()
    if a.dtype.itemsize == 1 or not b.is_contiguous():  # 16-bit types may have either layout
        turned = turned.contiguous()
    a, turned = aligned(a.contiguous()), aligned(turned)
    bytes = product_memory(tuple(a.shape), tuple(turned.shape), shape, a.dtype, dtype, ranks, form, a.device.index)
    prepare_exchange(group, a.device, PRODUCTS, bytes)
    return _ext.ranked(a, turned.t(), gathered, scale, dtype, form, multiprocessors, group, READY)


@torch.library.custom_op("ptxbuilder::all_gather_matmul", mutates_args=(), device_types="cuda")
def gather_operation(a: torch.Tensor, b: torch.Tensor, scale: torch.Tensor | None, out_dtype: torch.dtype | None, keeps: bool,
                     multiprocessors: int, ranks: int, group_name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the product and, if `keeps` is set, the A of all ranks, else an empty tensor."""
    gathered = a.new_empty((a.shape[0] * ranks if keeps else 0, a.shape[1]))
    return multiply(a, b, scale, out_dtype, multiprocessors, resolved(group_name, ranks), GATHERS, gathered if keeps else None), gathered


@torch.library.custom_op("ptxbuilder::matmul_reduce_scatter", mutates_args=(), device_types="cuda")
def scatter_operation(a: torch.Tensor, b: torch.Tensor, scale: torch.Tensor | None, out_dtype: torch.dtype | None,
                      multiprocessors: int, ranks: int, group_name: str) -> torch.Tensor:
    return multiply(a, b, scale, out_dtype, multiprocessors, resolved(group_name, ranks), SCATTERS)


@torch.library.custom_op("ptxbuilder::matmul_all_reduce", mutates_args=(), device_types="cuda")
def product_reduce_operation(a: torch.Tensor, b: torch.Tensor, scale: torch.Tensor | None, out_dtype: torch.dtype | None,
                             multiprocessors: int, ranks: int, group_name: str) -> torch.Tensor:
    return multiply(a, b, scale, out_dtype, multiprocessors, resolved(group_name, ranks), REDUCES)


@gather_operation.register_fake
def _(a, b, scale, out_dtype, keeps, multiprocessors, ranks, group_name):
    shape, dtype = result_of(a, b.shape[1], ranks, GATHERS, out_dtype)
    return a.new_empty(shape, dtype=dtype), a.new_empty((a.shape[0] * ranks if keeps else 0, a.shape[1]))


@scatter_operation.register_fake
def _(a, b, scale, out_dtype, multiprocessors, ranks, group_name):
    shape, dtype = result_of(a, b.shape[1], ranks, SCATTERS, out_dtype)
    return a.new_empty(shape, dtype=dtype)


@product_reduce_operation.register_fake
def _(a, b, scale, out_dtype, multiprocessors, ranks, group_name):
    shape, dtype = result_of(a, b.shape[1], ranks, REDUCES, out_dtype)
    return a.new_empty(shape, dtype=dtype)


def own_product(a, d, scale, like):
    """Returns A^T D in the layout of `like`, so that the gradient of a layer's weight need not be copied."""
    alpha = 1.0 if scale is None else scale
    if like.stride(0) == 1 != like.stride(1):
        return matmul(d, a, transpose_a=True, alpha=alpha).t()
    return matmul(a, d, transpose_a=True, alpha=alpha)


def keep_of_gather(ctx, inputs, output):
    _, b, scale, _, keeps, *ctx.where = inputs
    ctx.save_for_backward(b, scale, output[1] if keeps else None)


def gradients_of_gather(ctx, dd, _):
    b, scale, gathered = ctx.saved_tensors
    da = db = None
    if ctx.needs_input_grad[0]:
        da = scatter_operation(dd, b.t(), scale, None, *ctx.where)
    if ctx.needs_input_grad[1]:
        db = own_product(gathered, dd, scale, b)
    return da, db, *[None] * 6


def keep_of_scatter(ctx, inputs, output):
    a, b, scale, _, *ctx.where = inputs
    ctx.save_for_backward(a, b, scale)


def gradients_of_scatter(ctx, dd):
    a, b, scale = ctx.saved_tensors
    wants_b = ctx.needs_input_grad[1]
    da, gathered = gather_operation(dd, b.t(), scale, None, wants_b, *ctx.where)
    return da if ctx.needs_input_grad[0] else None, own_product(a, gathered, scale, b) if wants_b else None, *[None] * 5


def gradients_of_product_reduce(ctx, dd):
    a, b, scale = ctx.saved_tensors
    alpha = 1.0 if scale is None else scale
    da = matmul(dd, b.t(), alpha=alpha) if ctx.needs_input_grad[0] else None
    return da, own_product(a, dd, scale, b) if ctx.needs_input_grad[1] else None, *[None] * 5


gather_operation.register_autograd(gradients_of_gather, setup_context=keep_of_gather)
scatter_operation.register_autograd(gradients_of_scatter, setup_context=keep_of_scatter)
product_reduce_operation.register_autograd(gradients_of_product_reduce, setup_context=keep_of_scatter)


def all_gather_matmul(a, b, group=None, *, scale=None, out_dtype=None, multiprocessors=0):
    """Multiplies the rows of all ranks' A, concatenated in the order of ranks, by this rank's B: returns [ranks * rows, n] for A [rows, k]
    and B [k, n].

    All ranks of the group, by default the world, must make the same calls in the same order, on GPUs of one host that can access each
    other's memory. Types are bf16, f16, or e4m3fn with an `out_dtype` of bf16 (the default) or f16; the length of the rows of B and D must
    be a multiple of 16 bytes. The result is multiplied by `scale`, one float32 on the GPU. B is copied unless B or B.T has no gaps; for
    e4m3fn, it is copied unless B.T has no gaps. The first call on a stream, and each call that is larger than all earlier calls, allocates
    exchange memory and synchronizes all ranks. The result is differentiable in A and B. The gradient of A uses matmul_reduce_scatter(), and
    the gradient of B uses a product with all ranks' A, which the forward pass keeps if B requires a gradient.

    The call occupies the entire GPU while it waits for other ranks. Kernels that run at the same time on another stream and also wait for
    peers, such as those of NCCL, need some multiprocessors for themselves: pass a smaller number of `multiprocessors` for this call, the
    same on all ranks.
    """
    d = quickly(_ext.ranked, a, b, None, scale, out_dtype, GATHERS, multiprocessors, group=group)
    if d is not NotImplemented:
        return d
    group = group_of(group)
    check(a, b, scale)
    if is_direct(a, b, scale):
        return multiply(a, b, scale, dtype_of(out_dtype), multiprocessors, group, GATHERS)
    return gather_operation(a, b, scale, dtype_of(out_dtype), requires_grad(b), multiprocessors, group.size(), group.group_name)[0]


def matmul_reduce_scatter(a, b, group=None, *, scale=None, out_dtype=None, multiprocessors=0):
    """Returns this rank's rows of the sum of A B over all ranks: [rows, n] for A [ranks * rows, k] and B [k, n], which hold this rank's
    part of k.

    Sums from other ranks are rounded to the result's type, and added in a fixed order. Each rank's products are multiplied by its `scale`.
    The rules of all_gather_matmul(), which computes its gradient, apply.
    """
    d = quickly(_ext.ranked, a, b, None, scale, out_dtype, SCATTERS, multiprocessors, group=group)
    if d is not NotImplemented:
        return d
    group = group_of(group)
    check(a, b, scale)
    if is_direct(a, b, scale):
        return multiply(a, b, scale, dtype_of(out_dtype), multiprocessors, group, SCATTERS)
    return scatter_operation(a, b, scale, dtype_of(out_dtype), multiprocessors, group.size(), group.group_name)


def matmul_all_reduce(a, b, group=None, *, scale=None, out_dtype=None, multiprocessors=0):
    """Returns all rows of the sum of A B over all ranks, on every rank: [rows, n] for A [rows, k] and B [k, n], which hold this rank's part
    of k.

    Sums are computed as in matmul_reduce_scatter(), and are bitwise equal on all ranks; the number of rows is arbitrary. Sums are sent
    while other sums are still being computed. The result is differentiable in A and B if all ranks compute the same loss; the backward pass
    then exchanges no data. Otherwise the rules of all_gather_matmul() apply.
    """
    d = quickly(_ext.ranked, a, b, None, scale, out_dtype, REDUCES, multiprocessors, group=group)
    if d is not NotImplemented:
        return d
    group = group_of(group)
    check(a, b, scale)
    if is_direct(a, b, scale):
        return multiply(a, b, scale, dtype_of(out_dtype), multiprocessors, group, REDUCES)
    return product_reduce_operation(a, b, scale, dtype_of(out_dtype), multiprocessors, group.size(), group.group_name)


# ---- All-reduce with a residual and a norm ----

@functools.lru_cache(maxsize=256)
def norm_memory(shape, dtype, ranks, device):
    x = (tuple(shape), name_of(dtype))
    return _ext.ranked_norm_memory(tuple(untouched(x, None, None, x, x)), ranks, device)


def reduce(x, residual, weight, epsilon, multiprocessors, group):
    given = _ext.ranked_norm(x, residual, weight, epsilon, multiprocessors, group, BELOW)
    if given is not NotImplemented:
        return given
    x, residual, weight = (None if tensor is None else aligned(tensor.contiguous()) for tensor in (x, residual, weight))
    prepare_exchange(group, x.device, NORMS, norm_memory(x.shape, x.dtype, group.size(), x.device.index))
    return _ext.ranked_norm(x, residual, weight, epsilon, multiprocessors, group, READY)


@torch.library.custom_op("ptxbuilder::all_reduce_rms_norm", mutates_args=(), device_types="cuda")
def reduce_operation(x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor | None, epsilon: float,
                     multiprocessors: int, group_name: str) -> tuple[torch.Tensor, torch.Tensor]:
    return reduce(x, residual, weight, epsilon, multiprocessors, resolved(group_name))


@reduce_operation.register_fake
def _(x, residual, weight, epsilon, multiprocessors, group_name):
    return x.new_empty(x.shape), x.new_empty(x.shape)


def keep_of_reduce(ctx, inputs, output):
    _, residual, weight, ctx.epsilon, *_ = inputs
    ctx.has_residual = residual is not None
    ctx.save_for_backward(weight, output[1])


def gradients_of_reduce(ctx, dy, d_total):
    weight, total = ctx.saved_tensors
    device = None if total.is_cuda else "emulator"
    scale, = run_rows(OPERATIONS["rms_scale"], [total], (ctx.epsilon,), ("scale",), device)
    wanted = ("dx", "dweight") if ctx.needs_input_grad[2] else ("dx",)
    dx, *d_weight = run_rows(OPERATIONS["rms_norm_gradient"], [total, weight, scale, dy.contiguous()], (), wanted, device)
    dx = dx + d_total
    return dx, dx if ctx.has_residual else None, *(d_weight or [None]), None, None, None


reduce_operation.register_autograd(gradients_of_reduce, setup_context=keep_of_reduce)


def all_reduce_rms_norm(x, residual=None, weight=None, *, epsilon=1e-6, group=None, multiprocessors=0):
    """Returns (y, new_residual): new_residual = residual + the sum of x over all ranks, and y = rms_norm(new_residual, weight,
    epsilon=epsilon).

    This function is meant for small tensors, such as a few tokens of a decoder: each rank sends its rows to all ranks in one launch. The
    sum is computed in the order of ranks, and the results are bitwise equal on all ranks if the residual and the weight are. x [..,
    columns] is f16, bf16 or float32, with 1 to 262144 columns; `residual` has its shape and type, and `weight` has one number for each
    column. Graph capture, groups and exchange memory are handled as in all_gather_matmul(). The results are differentiable once in x,
    residual and weight if all ranks compute the same loss: the gradient of x is then that of the residual, and the backward pass exchanges
    no data.
    """
    results = quickly(_ext.ranked_norm, x, residual, weight, epsilon, multiprocessors, group=group)
    if results is not NotImplemented:
        return results
    group = group_of(group)
    check_number("epsilon", epsilon)
    check_operands({"x": x}, residual=residual, weight=weight)
    given = [tensor for tensor in (x, residual, weight) if tensor is not None]
    if not x.is_cuda or any(tensor.device != x.device for tensor in given):
        raise ValueError(f"x, residual and weight are on {', '.join(str(tensor.device) for tensor in given)}, but must be on this rank's "
                         "GPU")
    if is_direct(x, residual, weight):
        return reduce(x, residual, weight, float(epsilon), multiprocessors, group)
    return reduce_operation(x, residual, weight, float(epsilon), multiprocessors, group.group_name)


# ---- Tokens for experts ----

@functools.lru_cache(maxsize=256)
def tokens_memory(rows, columns, most_rows, dtype, experts, ranks, device):
    tensors = untouched(((rows, columns), name_of(dtype)), ((ranks * experts,), "int32"), ((ranks * most_rows, columns), name_of(dtype)),
                        ((ranks, experts), "int32"), ((experts,), "int32"))
    return _ext.ranked_tokens_memory(tuple(tensors), ranks, device)


def dispatch(x, ends, most_rows, multiprocessors, group):
    results = _ext.ranked_dispatch(x, ends, most_rows, multiprocessors, group, BELOW)
    if results is not NotImplemented:
        return results
    ranks = group.size()
    prepare_exchange(group, x.device, TOKENS,
                     tokens_memory(*x.shape, most_rows, x.dtype, ends.shape[0] // ranks, ranks, x.device.index))
    return _ext.ranked_dispatch(aligned(x.contiguous()), ends.contiguous(), most_rows, multiprocessors, group, READY)


def combine(rows, ends, splits, count, multiprocessors, group):
    x = rows.new_zeros((count, rows.shape[1]))  # the gradient of rows after the last end is 0
    done = _ext.ranked_combine(rows, ends, splits, x, multiprocessors, group, BELOW)
    if done is not NotImplemented:
        return x
    ranks = group.size()
    prepare_exchange(group, x.device, TOKENS,
                     tokens_memory(*x.shape, rows.shape[0] // ranks, x.dtype, splits.shape[1], ranks, x.device.index))
    rows, ends, splits = aligned(rows.contiguous()), ends.contiguous(), splits.contiguous()
    return _ext.ranked_combine(rows, ends, splits, x, multiprocessors, group, READY)


def results_of_dispatch(x, ends, most_rows, ranks):
    experts = ends.shape[0] // ranks
    return x.new_empty((ranks * most_rows, x.shape[1])), ends.new_empty((experts,)), ends.new_empty((ranks, experts))


@torch.library.custom_op("ptxbuilder::all_to_all_dispatch", mutates_args=(), device_types="cuda")
def dispatch_operation(x: torch.Tensor, ends: torch.Tensor, most_rows: int, multiprocessors: int, ranks: int,
                       group_name: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return dispatch(x, ends, most_rows, multiprocessors, resolved(group_name, ranks))


@torch.library.custom_op("ptxbuilder::all_to_all_combine", mutates_args=(), device_types="cuda")
def combine_operation(rows: torch.Tensor, ends: torch.Tensor, splits: torch.Tensor, count: int, multiprocessors: int, ranks: int,
                      group_name: str) -> torch.Tensor:
    return combine(rows, ends, splits, count, multiprocessors, resolved(group_name, ranks))


@dispatch_operation.register_fake
def _(x, ends, most_rows, multiprocessors, ranks, group_name):
    return results_of_dispatch(x, ends, most_rows, ranks)


@combine_operation.register_fake
def _(rows, ends, splits, count, multiprocessors, ranks, group_name):
    return rows.new_empty((count, rows.shape[1]))


def keep_of_dispatch(ctx, inputs, output):
    x, ends, _, *ctx.where = inputs
    ctx.count = x.shape[0]
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(ends, output[2])


def gradients_of_dispatch(ctx, d_rows, *_):
    return combine_operation(d_rows, *ctx.saved_tensors, ctx.count, *ctx.where), *[None] * 5


def keep_of_combine(ctx, inputs, output):
    rows, ends, _, _, *ctx.where = inputs
    ctx.most_rows = rows.shape[0] // ctx.where[1]
    ctx.save_for_backward(ends)


def gradients_of_combine(ctx, dx):
    return dispatch_operation(dx, *ctx.saved_tensors, ctx.most_rows, *ctx.where)[0], *[None] * 6


dispatch_operation.register_autograd(gradients_of_dispatch, setup_context=keep_of_dispatch)
combine_operation.register_autograd(gradients_of_combine, setup_context=keep_of_combine)


def check_tokens(name, rows, ranks, **integers):
    if rows.ndim != 2 or rows.shape[1] * rows.dtype.itemsize % 16:
        raise ValueError(f"{name} is {tuple(rows.shape)} of {rows.dtype}, but must be a matrix whose rows are multiples of 16 bytes")
    for word, tensor in integers.items():
        if tensor.dtype != torch.int32:
            raise ValueError(f"{word} is {tensor.dtype}, but must be int32")
    if integers["ends"].ndim != 1 or integers["ends"].shape[0] % ranks or not integers["ends"].shape[0]:
        raise ValueError(f"ends is {tuple(integers['ends'].shape)}, but must have one end for each expert of all {ranks} ranks, with the "
                         "same number for each rank")
    if not rows.is_cuda or any(tensor.device != rows.device for tensor in integers.values()):
        raise ValueError(f"{name} is on {rows.device}, and {', '.join(f'{word} on {t.device}' for word, t in integers.items())}, but all "
                         "must be on this rank's GPU")


def all_to_all_dispatch(x, ends, group=None, *, most_rows, multiprocessors=0):
    """Sends rows to the ranks of their experts. Returns (rows, offs, splits): all ranks' rows for this rank's experts, in the order of
    experts, in the form for grouped_mm(rows, w, offs=offs).

    x [count, columns] holds this rank's rows in the order of the experts of all ranks; a token with several experts has a row for each
    expert. `ends`, int32 [ranks * experts], holds the end of each expert's rows in x. All ranks have the same number of experts, and rank 0
    has the first experts. `rows` has space for `most_rows` rows from each rank. All ranks must pass the same `most_rows`; if a rank sends
    more rows, the GPU traps. Rows after the last of `offs` may hold anything. The call does not synchronize with the host, because no row
    counts are copied to it. `splits` is an argument for all_to_all_combine(). The length of rows must be a multiple of 16 bytes. Graph
    capture, groups and exchange memory are handled as in all_gather_matmul(). `rows` is differentiable in x.
    """
    results = quickly(_ext.ranked_dispatch, x, ends, most_rows, multiprocessors, group=group)
    if results is not NotImplemented:
        return results
    group = group_of(group)
    check_tokens("x", x, group.size(), ends=ends)
    if most_rows < x.shape[0]:
        raise ValueError(f"most_rows is {most_rows}, but x has {x.shape[0]} rows; no rank may have more than most_rows")
    if is_direct(x, ends):
        return dispatch(x, ends, most_rows, multiprocessors, group)
    return dispatch_operation(x, ends, most_rows, multiprocessors, group.size(), group.group_name)


def all_to_all_combine(rows, ends, splits, count, group=None, *, multiprocessors=0):
    """Sends the results of experts back. Returns the results of all ranks' experts for the `count` rows of this rank, in the order of the
    dispatched x: [count, columns].

    `rows` holds a result for each row that all_to_all_dispatch() returned, at the same position; `ends` and `splits` are the argument and
    the result of the dispatch. Rows of the result after the last end are zeros. The caller must multiply the results for a token from
    several experts by the experts' weights and add them. The result is differentiable in `rows`. The rules of all_to_all_dispatch() apply.
    """
    group = group_of(group)
    ranks = group.size()
    check_tokens("rows", rows, ranks, ends=ends, splits=splits)
    if tuple(splits.shape) != (ranks, ends.shape[0] // ranks) or rows.shape[0] % ranks or not 0 <= count <= rows.shape[0] // ranks:
        raise ValueError(f"rows is {tuple(rows.shape)}, splits is {tuple(splits.shape)} and count is {count}, but they must be those of a "
                         f"dispatch over {ranks} ranks and {ends.shape[0]} experts")
    if is_direct(rows, ends, splits):
        return combine(rows, ends, splits, count, multiprocessors, group)
    return combine_operation(rows, ends, splits, count, multiprocessors, ranks, group.group_name)

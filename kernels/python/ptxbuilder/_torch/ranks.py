"""Products of the ranks of a process group, which exchange rows while they multiply, and all-reduces with a norm."""
import functools

import torch
import torch.distributed as dist
from torch.distributed import _symmetric_memory as symmetric

from .. import _ext
from .._common import check_number, name_of, untouched
from .tensors import check_operands, is_compiling, is_plain, is_watched

WORDS_BYTES = 256 * 1024  # at the beginning of exchange memory, which the first call finds zeros in


class Exchange:
    """Memory of this rank and the addresses of all ranks', of a group and a stream. It grows where all ranks make the same larger call."""

    def __init__(self):
        self.address_of, self.bytes, self.kept = (), 0, []

    def reserve(self, bytes, group, device):
        if bytes <= self.bytes:
            return
        if torch.cuda.is_current_stream_capturing():
            raise ValueError("a call of ranks that needs more exchange memory, in a capture: call it once before, with the same sizes")
        memory = symmetric.empty(bytes, dtype=torch.uint8, device=device)
        handle = symmetric.rendezvous(memory, group)
        address_of = tuple(handle.get_buffer(rank, (bytes,), torch.uint8).data_ptr() for rank in range(handle.world_size))
        memory[:WORDS_BYTES].zero_()
        torch.cuda.synchronize(device)
        dist.barrier(group=group, device_ids=[device.index])  # nobody sends before all are zeros
        self.address_of, self.bytes = address_of, bytes
        self.kept.append((memory, handle))  # what a graph has recorded goes on to use it


exchanges = {}  # by group, stream, and whether it is a norm's, whose calls take places in turn


def exchange_of(group_name, device, is_norm):
    return exchanges.setdefault((group_name, torch.cuda.current_stream(device).cuda_stream, is_norm), Exchange())


def resolved(group_name):
    return dist.distributed_c10d._resolve_process_group(group_name)


def group_of(group):
    if not dist.is_initialized():
        raise ValueError("no process group: call torch.distributed.init_process_group() first")
    if group is None:
        group = dist.group.WORLD
    if dist.get_world_size(group) < 2:
        raise ValueError("a process group of one rank: pb.matmul() multiplies what a GPU has by itself")
    return group


def check(a, b, group_name):
    check_operands({"A": a, "B": b})
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"A is {tuple(a.shape)}, and B {tuple(b.shape)}: a matrix of k columns and one of k rows are multiplied")
    if not a.is_cuda or a.device != b.device:
        raise ValueError(f"A is on {a.device}, and B on {b.device}: a product of ranks takes tensors on this rank's GPU")
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        raise ValueError(f"{group_name}: it has no gradient: call it under torch.no_grad(), or give tensors that need none")


def multiply(a, b, group_name, scatters):
    group = resolved(group_name)
    ranks = dist.get_world_size(group)
    a, b = a.contiguous(), b.t().contiguous()
    d = a.new_empty(result_shape(a.shape, b.shape[0], ranks, scatters))
    exchange = exchange_of(group_name, a.device, False)
    exchange.reserve(_ext.ranked_memory(a, b, d, ranks, scatters, a.device.index), group, a.device)
    _ext.ranked(a, b, d, exchange.address_of, exchange.bytes, dist.get_rank(group), scatters, None, None)
    return d


def result_shape(a, n, ranks, scatters):
    if scatters and a[0] % ranks:
        raise ValueError(f"A has {a[0]} rows, which {ranks} ranks do not divide evenly")
    return (a[0] // ranks if scatters else a[0] * ranks, n)


@torch.library.custom_op("ptxbuilder::all_gather_matmul", mutates_args=(), device_types="cuda")
def gather_operation(a: torch.Tensor, b: torch.Tensor, group_name: str) -> torch.Tensor:
    return multiply(a, b, group_name, False)


@torch.library.custom_op("ptxbuilder::matmul_reduce_scatter", mutates_args=(), device_types="cuda")
def scatter_operation(a: torch.Tensor, b: torch.Tensor, group_name: str) -> torch.Tensor:
    return multiply(a, b, group_name, True)


@gather_operation.register_fake
def _(a, b, group_name):
    return a.new_empty(result_shape(a.shape, b.shape[1], resolved(group_name).size(), False))


@scatter_operation.register_fake
def _(a, b, group_name):
    return a.new_empty(result_shape(a.shape, b.shape[1], resolved(group_name).size(), True))


# ---- All-reduce with a residual and a norm ----

@functools.lru_cache(maxsize=256)
def norm_memory(shape, dtype, ranks, device):
    x = (tuple(shape), name_of(dtype))
    return _ext.ranked_norm_memory(tuple(untouched(x, None, None, x, x)), ranks, device)


def aligned(x):
    """As the kernel takes it: without gaps, at a multiple of 16 bytes."""
    x = x.contiguous()
    return x.clone() if x.data_ptr() % 16 else x


def reduce(x, residual, weight, epsilon, group_name):
    group = resolved(group_name)
    x, residual, weight = (None if tensor is None else aligned(tensor) for tensor in (x, residual, weight))
    y, new_residual = torch.empty_like(x), torch.empty_like(x)
    exchange = exchange_of(group_name, x.device, True)
    exchange.reserve(norm_memory(x.shape, x.dtype, group.size(), x.device.index), group, x.device)
    _ext.ranked_norm((x, residual, weight, y, new_residual), exchange.address_of, exchange.bytes, group.rank(), epsilon, None, None)
    return y, new_residual


@torch.library.custom_op("ptxbuilder::all_reduce_rms_norm", mutates_args=(), device_types="cuda")
def reduce_operation(x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor | None, epsilon: float,
                     group_name: str) -> tuple[torch.Tensor, torch.Tensor]:
    return reduce(x, residual, weight, epsilon, group_name)


@reduce_operation.register_fake
def _(x, residual, weight, epsilon, group_name):
    return x.new_empty(x.shape), x.new_empty(x.shape)


def all_reduce_rms_norm(x, residual=None, weight=None, *, epsilon=1e-6, group=None):
    """(y, new_residual), where new_residual = residual + the sum of all ranks' x, and y = rms_norm(new_residual, weight, epsilon=epsilon).

    It is for small tensors, as a decoder's of some tokens: one launch, in which each rank sends its rows to all. The sum is taken in
    the order of ranks, and all ranks get the same bits where they give the same residual and weight. x [.., columns] is f16, bf16
    or float32, with 1 to 262144 columns; `residual` is of its shape and type, `weight` has one number for each column. Calls, groups
    and memory as those of all_gather_matmul(). It has no gradient.
    """
    group = group_of(group)
    check_number("epsilon", epsilon)
    check_operands({"x": x}, residual=residual, weight=weight)
    given = [tensor for tensor in (x, residual, weight) if tensor is not None]
    if not x.is_cuda or any(tensor.device != x.device for tensor in given):
        raise ValueError(f"x, residual and weight are on {', '.join(str(tensor.device) for tensor in given)}: an all-reduce of ranks takes "
                         "tensors on this rank's GPU")
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given):
        raise ValueError("all_reduce_rms_norm: it has no gradient: call it under torch.no_grad(), or give tensors that need none")
    if is_compiling() or is_watched() or not all(is_plain(tensor) for tensor in given):
        return reduce_operation(x, residual, weight, float(epsilon), group.group_name)
    return reduce(x, residual, weight, float(epsilon), group.group_name)  # the dispatcher takes as long as the kernel


def all_gather_matmul(a, b, group=None):
    """The rows of all ranks' A, one rank's behind the other's, times this rank's B: [ranks * rows, n] of [rows, k] and [k, n].

    All ranks of the group, by default of the world, make the same calls in the same order, on GPUs of one host that reach each other's
    memory. bf16 and f16; k and n are multiples of 8. B is copied unless B.T has no gaps, as a layer's weight has none. A first call, and
    one that is larger than all before on its stream, makes exchange memory, for which ranks meet. It has no gradient.
    """
    group = group_of(group)
    check(a, b, "all_gather_matmul")
    return gather_operation(a, b, group.group_name)


def matmul_reduce_scatter(a, b, group=None):
    """This rank's rows of the sum over all ranks of A B: [rows, n] of [ranks * rows, k] and [k, n], where each rank has k of its own.

    What comes from other ranks is rounded to A's type on its way, and added in a fixed order. All else as all_gather_matmul().
    """
    group = group_of(group)
    check(a, b, "matmul_reduce_scatter")
    return scatter_operation(a, b, group.group_name)

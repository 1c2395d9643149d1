"""A PyTorch layer of experts that are divided among processes, forward and backward. The results are compared with one process in float64.

  torchrun --nproc-per-node 2 expert_parallel_torch.py

Each process has some tokens and some experts. If each process has a GPU, pb.all_to_all_dispatch() sends rows to the processes of their
experts, and pb.all_to_all_combine() sends the results back; otherwise gloo sends rows, and products run on the emulator.
"""
import os

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
from torch.nn import functional

import ptxbuilder as pb

rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
on_gpus = torch.cuda.is_available() and torch.cuda.device_count() >= count
place = torch.device("cuda", rank) if on_gpus else torch.device("cpu")
if on_gpus:
    torch.cuda.set_device(place)
dist.init_process_group("nccl" if on_gpus else "gloo", **({"device_id": place} if on_gpus else {}))
TOKENS, WIDTH, HIDDEN, EXPERTS, CHOSEN = (4096, 2048, 1024, 16, 2) if on_gpus else (40, 64, 32, 3, 2)  # per process, except the widths


def exchanged(rows, ends):
    """Returns all processes' rows for this process's experts, the end of each expert's rows, and a function that sends results back. The
    host does not read row counts, because there is space for all rows; rows after the last end may hold anything."""
    came, offs, splits = pb.all_to_all_dispatch(rows, ends, most_rows=len(rows))
    return came, offs, lambda answers: pb.all_to_all_combine(answers, ends, splits, len(rows))


def exchanged_by_gloo(rows, ends):
    counts = ends.diff(prepend=ends.new_zeros(1))
    of_experts = torch.empty_like(counts)
    dist.all_to_all_single(of_experts, counts)
    sent, came = (each.view(count, EXPERTS).sum(1).tolist() for each in (counts, of_experts))
    of_ranks = collectives.all_to_all_single_autograd(rows, came, sent, dist.group.WORLD)
    order = torch.arange(EXPERTS).repeat(count).repeat_interleave(of_experts).argsort(stable=True)  # rows by expert

    def back(answers):
        return collectives.all_to_all_single_autograd(torch.zeros_like(answers).index_copy(0, order, answers), sent, came, dist.group.WORLD)

    return of_ranks[order], of_experts.view(count, EXPERTS).sum(0).cumsum(0).int(), back


def in_one_process(rows, ends):
    return rows, ends, lambda answers: answers


def grouped(a, b, ends):
    return pb.grouped_mm(a, b, ends, device=None if on_gpus else "emulator")


def one_by_one(a, b, ends):
    starts = [0, *ends.tolist()]
    return torch.cat([a[first:end] @ b[e] for e, (first, end) in enumerate(zip(starts, starts[1:]))])


def layer(x, router, up, down, chosen, exchange, product):
    """Returns the sum of the results of each token's experts, weighted with their probabilities. `chosen`, [tokens, k], holds the numbers
    of the experts. x is [tokens, width], and router is [width, experts of all processes]; up [experts, width, 2 hidden] and down [experts,
    hidden, width] belong to this process."""
    weight = functional.softmax((x @ router).to(torch.promote_types(x.dtype, torch.float32)), -1).gather(1, chosen)
    order = chosen.flatten().argsort(stable=True)  # rows by expert; a token has a row for each of its experts
    ends = (chosen.flatten()[:, None] == torch.arange(router.shape[1], device=x.device)).sum(0).cumsum(0).int()
    came, offs, back = exchange(x[order // CHOSEN], ends)
    gate, value = product(came, up, offs).chunk(2, -1)
    answers = back(product(functional.silu(gate) * value, down, offs))
    rows = torch.zeros_like(answers).index_copy(0, order, answers)
    return (rows.view(*chosen.shape, -1) * weight[:, :, None].to(rows.dtype)).sum(1)


def step(operands, chosen, grad, exchange, product):
    given = [x.detach().requires_grad_() for x in operands]
    y = layer(*given, chosen, exchange, product)
    return y.detach(), *torch.autograd.grad(y, given, grad)


torch.manual_seed(0)  # all processes draw the same numbers, and each process uses its part
shapes = (count * TOKENS, WIDTH), (WIDTH, count * EXPERTS), (count * EXPERTS, WIDTH, 2 * HIDDEN), (count * EXPERTS, HIDDEN, WIDTH)
x, router, up, down = ((torch.randn(shape) / shape[-2]**0.5 ** (i > 0)).bfloat16().to(place) for i, shape in enumerate(shapes))
grad, chosen = torch.randn_like(x), (x.double() @ router.double()).topk(CHOSEN)[1]


def part(whole):
    return whole.chunk(count)[rank]


y, dx, d_router, d_up, d_down = step((part(x), router, part(up), part(down)), part(chosen), part(grad),
                                     exchanged if on_gpus else exchanged_by_gloo, grouped)
d_router = d_router.float()
dist.all_reduce(d_router)  # adds the gradients, since all processes have the router, but each has the gradient of only its tokens
right = step([each.double() for each in (x, router, up, down)], chosen, grad.double(), in_one_process, one_by_one)
wanted = [each if i == 2 else part(each) for i, each in enumerate(right)]
for name, a, b in zip(("y", "of x", "of the router", "of up", "of down"), (y, dx, d_router, d_up, d_down), wanted):
    error = ((a.double() - b).norm() / b.norm()).item()
    if rank == 0:
        print(f"{name}: off by {error:.4f}", flush=True)
    assert error < 0.03, f"{name} is wrong: off by {error}"
dist.barrier()
os._exit(0) if on_gpus else dist.destroy_process_group()  # skips destructors, because peers use this process's memory until it ends

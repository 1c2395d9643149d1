"""A tensor-parallel MLP of PyTorch's with our products: y = gelu(x U) D, forward and backward, against one process.

  torchrun --nproc-per-node 2 tensor_parallel_torch.py

U is split by columns and D by rows: each process has a part of the hidden units, and one sum of all makes y. Over NCCL where
each process has a GPU, with the time of a step beside torch.matmul's; else over gloo, with products by the emulator.
"""
import os
import statistics

import torch
import torch.distributed as dist

import ptxbuilder as pb

rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
on_gpus = torch.cuda.is_available() and torch.cuda.device_count() >= count
place = torch.device("cuda", rank) if on_gpus else torch.device("cpu")
words = {} if on_gpus else {"device": "emulator"}
if on_gpus:
    torch.cuda.set_device(place)
dist.init_process_group("nccl" if on_gpus else "gloo")


class Summed(torch.autograd.Function):
    """The sum over all processes; its gradient is each one's own."""

    @staticmethod
    def forward(ctx, x):
        x = x.float()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Shared(torch.autograd.Function):
    """What all processes have alike; its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.float()
        dist.all_reduce(gradient)
        return gradient


def mlp(x, up, down):
    hidden = pb.matmul(Shared.apply(x), up, activation="gelu", **words)
    return Summed.apply(pb.matmul(hidden, down, out_dtype=torch.float32, **words))


def mlp_of_torch(x, up, down):
    hidden = torch.nn.functional.gelu(Shared.apply(x) @ up, approximate="tanh")
    return Summed.apply(hidden @ down)


def step(function):
    """Forward and backward."""
    torch.autograd.grad((function(*mine) * weight).sum(), mine)


def times(functions, rounds=15, steps=10):
    """Milliseconds of a step by each, medians of bursts that are taken in turns; the first three bursts warm up."""
    found = [[] for _ in functions]
    for _ in range(rounds + 3):
        for function, of_it in zip(functions, found):
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            for _ in range(steps):
                step(function)
            last.record()
            last.synchronize()
            of_it.append(first.elapsed_time(last) / steps)
    return [statistics.median(x[3:]) for x in found]


def error(got, exact):
    return ((got.double() - exact).norm() / exact.norm()).item()


rows, width, hidden = (4096, 4096, 16384) if on_gpus else (24, 64, 256)
torch.manual_seed(1)  # the same everywhere: parts are cut from one model
x, up, down, dy = (torch.randn(shape).bfloat16() for shape in ((rows, width), (width, hidden), (hidden, width), (rows, width)))
up, down = up / width**0.5, down / hidden**0.5
part = slice(hidden // count * rank, hidden // count * (rank + 1))
mine = [t.to(place, copy=True).requires_grad_() for t in (x, up[:, part], down[part])]
weight = dy.to(place).float()
y = mlp(*mine)
gradients = torch.autograd.grad((y * weight).sum(), mine)

whole = [t.to(place).double().requires_grad_() for t in (x, up, down)]
exact = torch.nn.functional.gelu(whole[0] @ whole[1], approximate="tanh") @ whole[2]
exact_gradients = torch.autograd.grad((exact * weight).sum(), whole)
parts = (exact, exact_gradients[0], exact_gradients[1][:, part], exact_gradients[2][part])
errors = {name: error(*both) for name, *both in zip(("y", "dx", "dU", "dD"), (y, *gradients), parts)}
print(f"process {rank} of {count} on {place}: errors", ", ".join(f"{name} {value:.1e}" for name, value in errors.items()))
assert all(value < 1e-2 for value in errors.values())
if on_gpus:
    ours, torchs = times((mlp, mlp_of_torch))
    print(f"process {rank}: {rows} x {width} x {hidden}, forward and backward: {ours:.3f} ms, with torch.matmul {torchs:.3f} ms")
dist.destroy_process_group()

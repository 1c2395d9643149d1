"""Runs a tensor-parallel PyTorch transformer block with our kernels, forward and backward, and compares the results with one process in
float64.

  torchrun --nproc-per-node 2 tensor_parallel_torch.py [--times]

Between the products, each process has some of the tokens (sequence parallelism). In the products, it has all tokens, for its own heads and
hidden units. The first products gather the rows of all processes, and the second products scatter their rows. If each process has a GPU,
these products are pb.all_gather_matmul() and pb.matmul_reduce_scatter(), and --times compares a step with the same step with NCCL and
PyTorch's kernels, both under torch.compile. Otherwise gloo transfers rows, and products run on the emulator.
"""
import argparse
import functools
import os
import statistics
from collections import namedtuple

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
from torch.nn import functional

import ptxbuilder as pb

parser = argparse.ArgumentParser()
parser.add_argument("--times", action="store_true", help="a step of each, in ms")
times = parser.parse_args().times
rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
on_gpus = torch.cuda.is_available() and torch.cuda.device_count() >= count
place = torch.device("cuda", rank) if on_gpus else torch.device("cpu")
words = {} if on_gpus else {"device": "emulator"}
if on_gpus:
    torch.cuda.set_device(place)
dist.init_process_group("nccl" if on_gpus else "gloo", **({"device_id": place} if on_gpus else {}))
group = dist.group.WORLD

# The operations of a block. gathered_product multiplies the rows of all processes by a part of a weight; scattered_product sums products
# over all processes, so that each process has some rows of the sum; the other operations need no other process. Weights are stored as in
# torch.nn.Linear, [out, in].
Operations = namedtuple("Operations", "gathered_product, scattered_product, attention, norm")


def gathered(x):
    return collectives.all_gather_tensor_autograd(x, 0, group)


def scattered(x):
    return collectives.reduce_scatter_tensor_autograd(x, "sum", 0, group)


def attention_of_torch(q, k, v):
    return functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True).transpose(1, 2)


def norm_of_torch(x, weight):
    return functional.rms_norm(x, weight.shape, weight, 1e-6)


of_torch = Operations(lambda x, w: gathered(x) @ w.t(), lambda x, w: scattered(x @ w.t()), attention_of_torch, norm_of_torch)
in_one_process = of_torch._replace(gathered_product=lambda x, w: x @ w.t(), scattered_product=lambda x, w: x @ w.t())
ours = Operations(
    (lambda x, w: pb.all_gather_matmul(x, w.t())) if on_gpus else lambda x, w: pb.matmul(gathered(x), w.t(), **words),
    (lambda x, w: pb.matmul_reduce_scatter(x, w.t())) if on_gpus else lambda x, w: scattered(pb.matmul(x, w.t(), **words)),
    lambda q, k, v: pb.attention(q, k, v, causal=True, **words), lambda x, weight: pb.rms_norm(x, weight, epsilon=1e-6, **words))


def block(of, shape, x, first, qkv, out, second, up, down):
    """Computes the block; `shape` is the number of sequences and the number of columns of a head."""
    sequences, depth = shape
    q, k, v = of.gathered_product(of.norm(x, first), qkv).unflatten(0, (sequences, -1)).unflatten(-1, (3, -1, depth)).unbind(2)
    o = of.attention(q, k, v).flatten(2).flatten(0, 1)
    x = x + of.scattered_product(o, out)
    hidden = functional.gelu(of.gathered_product(of.norm(x, second), up), approximate="tanh")
    return x + of.scattered_product(hidden, down)


def model(tokens, width, heads, hidden):
    """Returns the tokens, the weights and the gradient of the result, which are the same in all processes."""
    torch.manual_seed(1)
    shapes = ((tokens, width), (width,), (3, heads, width // heads, width), (width, width), (width,), (hidden, width), (width, hidden),
              (tokens, width))
    scales = (1, 1, width**-0.5, width**-0.5, 1, width**-0.5, hidden**-0.5, 1)
    return [torch.randn(shape, device=place) * scale for shape, scale in zip(shapes, scales)]


def part_of(whole):
    """Returns this process's part, which consists of its tokens, the weights of its heads and hidden units, and its tokens of the
    gradient."""
    x, first, qkv, out, second, up, down, dy = whole
    of = lambda tensor, dimension: tensor.chunk(count, dimension)[rank]  # noqa: E731
    return [of(x, 0), first, of(qkv, 1).flatten(0, 2), of(out, 1), second, of(up, 0), of(down, 1), of(dy, 0)]


def step(function, given, dy):
    """Runs the forward and the backward pass. The gradients of the weights of norms are summed over all processes, because each process
    computes them from only some tokens."""
    y = function(*given)
    gradients = list(torch.autograd.grad(y, given, dy))
    for i in (1, 4):
        dist.all_reduce(gradients[i])
    return y, gradients


def error(got, exact):
    return ((got.double() - exact).norm() / exact.norm()).item()


def check(tokens, width, heads, hidden):
    shape = (2, width // heads)
    *given, dy = [t.bfloat16() for t in model(tokens, width, heads, hidden)]
    mine = [t.clone().contiguous().requires_grad_() for t in part_of([*given, dy])[:-1]]
    y, gradients = step(functools.partial(block, ours, shape), mine, part_of([*given, dy])[-1].contiguous())
    whole = [t.double().requires_grad_() for t in given]
    exact = block(in_one_process, shape, whole[0], whole[1], whole[2].flatten(0, 2), *whole[3:])
    exact_gradients = torch.autograd.grad(exact, whole, dy.double())
    wanted = part_of([*exact_gradients, exact])
    names = ("dx", "dfirst", "dqkv", "dout", "dsecond", "dup", "ddown", "y")
    errors = {name: error(*both) for name, *both in zip(names, (*gradients, y), wanted)}
    print(f"process {rank} of {count} on {place}: errors", ", ".join(f"{name} {value:.1e}" for name, value in errors.items()), flush=True)
    assert all(value < 2e-2 for value in errors.values())


def show_times(tokens, width, heads, hidden, rounds=15, steps=10):
    """Prints the milliseconds of a step with each kind of kernels, as medians of alternating bursts after three warm-up bursts."""
    *mine, dy = [t.bfloat16().contiguous() for t in part_of(model(tokens, width, heads, hidden))]
    mine = [t.requires_grad_() for t in mine]
    functions = [torch.compile(functools.partial(block, of, (2, width // heads)), fullgraph=True) for of in (ours, of_torch)]
    found = [[] for _ in functions]
    for _ in range(rounds + 3):
        for function, of_it in zip(functions, found):
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            for _ in range(steps):
                step(function, mine, dy)
            last.record()
            last.synchronize()
            of_it.append(first.elapsed_time(last) / steps)
    mine, theirs = (statistics.median(of_it[3:]) for of_it in found)
    if rank == 0:
        print(f"{count} processes, {tokens} tokens, width {width}, {heads} heads, hidden {hidden}: a step takes {mine:.3f} ms, "
              f"with NCCL {theirs:.3f}: {theirs / mine:.3f}", flush=True)


heads = 32 if on_gpus else 2 * count
check(*((2048, 4096, heads, 16384) if on_gpus else (12 * count, 16 * heads, heads, 128 * count)))
if times and on_gpus:
    for tokens in (4096, 8192):
        show_times(tokens, 4096, heads, 16384)
dist.barrier()
os._exit(0) if on_gpus else dist.destroy_process_group()  # skips destructors, because peers use this process's memory until it ends

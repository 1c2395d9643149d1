"""Tests gradients of f16 operands when the result is f32 and the incoming gradient exceeds the range of f16. Runs on the CPU, with the
emulator.

  gradient_range_test.py
"""
import kit
from torch_kit import by_compiler, check  # imported first, because it finds a PyTorch
import ptxbuilder as pb
import torch

torch.manual_seed(5)
ENDS = torch.tensor([20, 40], dtype=torch.int32)


def drawn(*shape, by=1.0):
    return (torch.randn(shape) * by).half()


def both(x, w):
    return torch.nn.functional.conv2d(x, w, padding=1)


def in_groups(a, b):
    return torch.cat([a[:20] @ b[0], a[20:] @ b[1]])


def last(x):
    return x.contiguous(memory_format=torch.channels_last)


# Each case has the product, the same product in float64, and the shapes of its operands.
CASES = {
    "matmul": (lambda a, b: pb.matmul(a, b, out_dtype=torch.float32, device="emulator"), torch.matmul, ((40, 24), (24, 32))),
    "broadcast": (lambda a, b: pb.matmul(a, b, out_dtype=torch.float32, alpha=0.5, device="emulator"),
                  lambda a, b: 0.5 * torch.matmul(a, b), ((2, 1, 16, 24), (3, 24, 8))),
    "relu": (lambda a, b: pb.matmul(a, b, out_dtype=torch.float32, activation="relu", device="emulator"),
             lambda a, b: torch.matmul(a, b).relu(), ((40, 24), (24, 32))),
    "groups": (lambda a, b: pb.matmul(a, b, offs=ENDS, out_dtype=torch.float32, device="emulator"), in_groups, ((40, 24), (2, 24, 32))),
    "einsum": (lambda a, b: pb.einsum("mbk,nbk->mnb", a, b, out_dtype=torch.float32, device="emulator"),
               lambda a, b: torch.einsum("mbk,nbk->mnb", a, b), ((24, 2, 16), (20, 2, 16))),
    "conv2d": (lambda x, w: pb.conv2d(last(x), last(w), padding=1, out_dtype=torch.float32, device="emulator"), both,
               ((2, 16, 6, 5), (8, 16, 3, 3))),
}
for name, (ours, exactly, shapes) in CASES.items():
    # Products of large gradients and small operands are in the range of f16, and so are products of small gradients and large operands.
    for size in (1e6, 1.0, 1e-7):
        operands = [drawn(*shape, by=min(max(1 / size, 1e-4), 1e3)).requires_grad_() for shape in shapes]
        doubled = [x.detach().double().requires_grad_() for x in operands]
        expected = exactly(*doubled)
        weight = size * torch.randn(expected.shape)
        gradients = torch.autograd.grad((expected * weight).sum(), doubled)
        for way in (ours, by_compiler(ours)):
            for got, exact, x in zip(torch.autograd.grad((way(*operands) * weight).sum(), operands), gradients, operands):
                kit.check(got.dtype == torch.float16, name, got.dtype)
                check(got, exact, 2**-9, name, size, tuple(x.shape), way)

# Gradients of bf16 results may exceed the range of f16, too.
x = drawn(24, 16, by=1e-3).requires_grad_()
for ours, to in ((lambda x, w: pb.matmul(x, w, out_dtype=torch.bfloat16, device="emulator"), lambda x: x),
                 (lambda x, w: pb.einsum("mk,kn->mn", x, w, out_dtype=torch.bfloat16, device="emulator"), lambda x: x),
                 (lambda x, w: pb.conv2d(x, w, out_dtype=torch.bfloat16, device="emulator"),
                  lambda x: last(x.reshape(*x.shape, 1, 1) if x is not w else x.t().reshape(8, 16, 1, 1)))):
    w = drawn(16, 8, by=1e-3)
    given, factor = to(x), to(w)
    weight = (1e6 * torch.randn(24, 8)).bfloat16()
    y = ours(given, factor)
    found, = torch.autograd.grad(y, x, weight.reshape(y.shape))
    check(found, weight.double() @ w.double().t(), 2**-9, "of a bf16 result")

# Tests the second derivative, and gradients of each batch. Zeros must stay zeros, and an infinite element must not affect other rows.
product, _, shapes = CASES["matmul"]
a, b = (drawn(*shape, by=1e-3).requires_grad_() for shape in shapes)
c, d = (x.detach().double().requires_grad_() for x in (a, b))
weight = 1e6 * torch.randn(40, 32)
first, = torch.autograd.grad((product(a, b) * weight).sum(), a, create_graph=True)
exact, = torch.autograd.grad(((c @ d) * weight).sum(), c, create_graph=True)
check(torch.autograd.grad(1e-7 * (first.float()**2).sum(), b)[0], torch.autograd.grad(1e-7 * (exact**2).sum(), d)[0], 2**-8, "twice")
rows, size = drawn(3, 16, 24, by=1e-3), torch.tensor([1e6, 1.0, 1e-3])
for found, factor in zip(torch.func.vmap(torch.func.grad(lambda x, s: (product(x, b.detach()) * s).sum()))(rows, size), size):
    check(found, factor * d.detach().sum(1).expand(16, 24), 2**-8, "vmap")
zeros, = torch.autograd.grad((product(a, b) * 0.0).sum(), a)
kit.check((zeros == 0).all(), zeros)
weight = torch.ones(40, 32)
weight[3, 4] = float("inf")
found, = torch.autograd.grad(product(a, b), a, weight)
kit.check(not found[3].isfinite().any(), found[3])
check(found[4:], d.detach().sum(1).expand(36, 24), 2**-8, "next to an infinite one")
kit.end()

"""Attention forward and backward beside PyTorch's, whose fastest backend counts, in bf16: TFLOP/s of each way, and the errors of
its results and gradients against float32.

  attention.py [--small]   16,384 tokens, 16 heads of 128 or 32 of 64; --small on the emulator
"""
import statistics
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import ptxbuilder as pb
import timing

is_small = "--small" in sys.argv
place, words = ("cpu", {"device": "emulator"}) if is_small else ("cuda", {})
tokens, width, lengths = (64, 64, (32,)) if is_small else (16384, 2048, (512, 1024, 2048, 4096, 8192, 16384))
BACKENDS = [SDPBackend.MATH] if is_small else [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]


def ours(q, k, v, causal):
    return pb.attention(q, k, v, causal=causal, **words)


def by_backend(backend):
    def theirs(q, k, v, causal):
        with sdpa_kernel(backend):
            q, k, v = (x.transpose(1, 2) for x in (q, k, v))
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2)

    return theirs


def exact(q, k, v, causal):
    with sdpa_kernel(SDPBackend.MATH):
        q, k, v = (x.transpose(1, 2).float() for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2)


def error(got, expected):
    return ((got.float() - expected).norm() / expected.norm()).item()


def errors(way, shape, causal):
    """Of O, dQ, dK and dV, the greatest."""
    torch.manual_seed(20)
    q, k, v, grad = (torch.randn(shape, device=place).bfloat16() for _ in range(4))
    found = []
    for attend in (way, exact):
        given = [x.clone().requires_grad_() for x in (q, k, v)]
        o = attend(*given, causal)
        found.append([o, *torch.autograd.grad(o, given, grad.to(o.dtype))])
    return max(error(x.detach(), y.detach().float()) for x, y in zip(*found))


ways = {"ptxbuilder": ours, **{str(x).rpartition(".")[2].removesuffix("_ATTENTION").lower(): by_backend(x) for x in BACKENDS}}
ratios, rows = [], []
for depth in (32,) if is_small else (64, 128):
    for causal in (False, True):
        print(f"D {depth}{' causal' if causal else ''}, errors at 1024 rows:",
              ", ".join(f"{name} {errors(way, (1, 32 if is_small else 1024, 2, depth), causal):.2e}" for name, way in ways.items()))
        for length in lengths:
            shape = (tokens // length, length, width // depth, depth)
            q, k, v, grad = (torch.randn(shape, device=place).bfloat16() for _ in range(4))
            given = [x.requires_grad_() for x in (q, k, v)]
            flops = 10 * tokens * length * width / (2 if causal else 1)
            outputs = {name: way(*given, causal) for name, way in ways.items()}
            calls = {name: lambda o=o: torch.autograd.grad(o, given, grad, retain_graph=True) for name, o in outputs.items()}
            if is_small:
                for call in calls.values():
                    call()
                continue
            times = timing.device(calls, rounds=7)
            best = min(t for name, t in times.items() if name != "ptxbuilder")
            ratios.append(best / times["ptxbuilder"])
            rows.append((f"{depth}{' causal' if causal else ''}", length, *(f"{flops / t * 1e-6:.0f}" for t in times.values()), f"{ratios[-1]:.3f}"))
if not is_small:
    timing.table(rows, ("columns", "rows", *ways, "over the best of the others"))
    print(f"geometric mean {statistics.geometric_mean(ratios):.3f}, worst {min(ratios):.3f}")

"""Compares pb.matmul with torch.matmul over random shapes: the end-to-end time, and the error relative to float64.

  products.py [COUNT [SEED]]   default: 20 shapes of bf16
"""
import random
import statistics
import sys

import torch

import ptxbuilder as pb
import timing

count, seed = (int(x) for x in (sys.argv[1:] + ["20", "20"][len(sys.argv) - 1:]))
draw = random.Random(seed)


def extent(least, most):
    """Draws a log-uniform number. With a probability of 3/4 it is a multiple of 64, as in models; otherwise it is arbitrary."""
    x = int(round(2**draw.uniform(least, most)))
    return max(64, x // 64 * 64) if draw.random() < 0.75 else x


def error_of(d, exact):
    return ((d.double() - exact).norm() / exact.norm()).item()


rows, ratios = [], []
for _ in range(count):
    m, n, k = extent(0, 13), extent(6, 13), extent(6, 13)
    is_turned = draw.random() < 0.5  # whether B is stored as [n, k], like the weight of a PyTorch layer
    a = torch.randn(m, k, device="cuda").bfloat16()
    b = torch.randn(n, k, device="cuda").bfloat16().T if is_turned else torch.randn(k, n, device="cuda").bfloat16()
    took = timing.device({"ours": lambda: pb.matmul(a, b), "torch": lambda: torch.matmul(a, b)})
    exact = a.double() @ b.double()
    ratios.append(took["torch"] / took["ours"])
    rows.append((f"{m} x {n} x {k}{' (B as n x k)' * is_turned}", f"{took['ours']:.1f}", f"{took['torch']:.1f}", f"{ratios[-1]:.2f}",
                 f"{error_of(pb.matmul(a, b), exact):.1e}", f"{error_of(a @ b, exact):.1e}"))
timing.table(rows, ("m x n x k", "pb.matmul, us", "torch.matmul, us", "speed", "error", "torch's error"))
print(f"geometric mean of the speeds {statistics.geometric_mean(ratios):.3f}, from {min(ratios):.2f} to {max(ratios):.2f}; "
      f"{torch.cuda.get_device_name()}, torch {torch.__version__}, seed {seed}")

"""Compares pb.grouped_mm with torch._grouped_mm for groups of rows with a matrix for each group, and for the gradient of these matrices,
which has groups of k. Everything is bf16, and the calls alternate.

  groups.py [--drawn N] [--seed S] [--shapes EXPERTSxROWSxNxK,...] [--small]

There are six named shapes and N random shapes. The sizes of groups are also random: they differ by a factor of up to six, and some groups
of the random shapes are empty. The last lines compare eight equal groups with the product of the same number of rows and one matrix.
"""
import argparse
import random
import statistics

import torch

import ptxbuilder as pb
import timing

NAMED = [(8, 8192, 4096, 7168), (8, 32768, 4096, 7168), (32, 8192, 7168, 2048), (64, 8192, 2048, 7168), (256, 8192, 4096, 7168),
         (8, 4096, 14336, 4096)]


def drawn(draw):
    while True:
        experts, rows = draw.choice((4, 8, 16, 32, 64, 128)), int(2**draw.uniform(9, 15))
        n, k = (int(2**draw.uniform(10, 13)) // 64 * 64 for _ in range(2))
        if experts * n * k < 1 << 32:
            return experts, rows, n, k


def ends_of(draw, experts, rows, may_be_empty):
    sizes = [0 if may_be_empty and draw.random() < 0.1 else draw.uniform(1, 6) for _ in range(experts)]
    sums, total = 0.0, sum(sizes) or 1.0
    ends = []
    for size in sizes:
        sums += size
        ends.append(round(rows * sums / total))
    return torch.tensor(ends, dtype=torch.int32, device=DEVICE)


def normal(*shape):
    return torch.randn(shape, device=DEVICE, dtype=torch.bfloat16)


def error_of(d, exact):
    d, exact = (x[:4 if x.ndim == 3 else 4096] for x in (d, exact))
    return ((d.double() - exact.double()).norm() / exact.double().norm()).item()


def ratio_of(name, shape, x, y, ends, rows):
    """Returns a line of the table, and the ratio of torch's time to ours."""
    experts, m, n, k = shape
    calls = {"ours": lambda: pb.grouped_mm(x, y, ends), "torch": lambda: torch._grouped_mm(x, y, offs=ends)}
    took = timing.device(calls, rounds=given.rounds)
    speed = {word: 2e-6 * m * n * k / us for word, us in took.items()}
    rows.append((name, "x".join(map(str, shape)), f"{took['ours']:.1f}", f"{speed['ours']:.0f}", f"{speed['torch']:.0f}",
                 f"{took['torch'] / took['ours']:.3f}", f"{error_of(calls['ours'](), calls['torch']()):.0e}"))
    print(*rows[-1], flush=True)
    return took["torch"] / took["ours"]


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--drawn", type=int, default=10)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--rounds", type=int, default=9)
parser.add_argument("--shapes", default="")
parser.add_argument("--small", action="store_true", help="one small product, on the emulator")
given = parser.parse_args()
DEVICE = "cpu" if given.small else "cuda"
draw = random.Random(given.seed)
if given.small:
    x, y, ends = normal(70, 64), normal(3, 64, 48), ends_of(draw, 3, 70, True)
    d = pb.grouped_mm(x, y, ends, device="emulator")
    print(error_of(d[:ends[0]], x[:ends[0]] @ y[0]) < 1e-2)
    raise SystemExit(0)
print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
shapes = [(shape, False) for shape in NAMED] if not given.shapes else [(tuple(map(int, text.split("x"))), True) for text in given.shapes.split(",")]
shapes += [(drawn(draw), True) for _ in range(given.drawn)]
rows, ratios = [], {"rows": [], "k": []}
for shape, may_be_empty in shapes:
    experts, m, n, k = shape
    ends = ends_of(draw, experts, m, may_be_empty)
    x, weights, grad = normal(m, k), normal(experts, n, k), normal(m, n)
    ratios["rows"].append(ratio_of("rows", shape, x, weights.mT, ends, rows))
    del weights
    ratios["k"].append(ratio_of("k", shape, grad.mT, x, ends, rows))
    del x, grad
timing.table(rows, ("groups of", "experts x rows x n x k", "us", "TFLOP/s", "torch._grouped_mm", "speed", "apart"))
for name, all_of in ratios.items():
    print(f"groups of {name}: geometric mean of the speeds {statistics.geometric_mean(all_of):.3f}, from {min(all_of):.3f}")
x, weights = normal(8192, 7168), normal(8, 4096, 7168)
ends = torch.arange(1024, 8193, 1024, dtype=torch.int32, device=DEVICE)
took = timing.device({"groups": lambda: pb.grouped_mm(x, weights.mT, ends), "dense": lambda: pb.matmul(x, weights[0], transpose_b=True)},
                     rounds=given.rounds)
print(f"8 groups of 1024 rows, 4096 x 7168: {took['groups']:.1f} us, {took['dense'] / took['groups']:.3f} of the product with the same "
      f"number of rows")

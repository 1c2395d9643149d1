"""Compares pb.scaled_mm with torch.nn.functional.scaled_mm for e4m3 with block scales: 1x128 for A, and 128x128 or 1x128 for B. The calls
alternate and are captured as graphs, so that only the GPU's time is measured. Then groups of rows are measured, in place and gathered.

  blocks.py [--drawn N] [--seed S] [--rounds N] [--random N] [--small]

There are seven named shapes and N random shapes. --random is the number of small products, dense and in groups, that are first compared
with float64 and with a second run.
"""
import statistics

import torch

import ptxbuilder as pb
import timing

NAMED = [(4096, 4096, 7168), (4096, 7168, 2048), (4096, 24576, 1536), (4096, 7168, 16384), (8192, 8192, 8192), (128, 4096, 7168),
         (64, 24576, 1536)]
GROUPS = [(4, 32768, 4096, 7168), (8, 8192, 4096, 7168), (32, 8192, 7168, 2048)]
ROWS, BLOCKS = "BlockWise1x128", "BlockWise128x128"


def e4m3(*shape):
    return torch.randn(shape, device=DEVICE).to(torch.float8_e4m3fn)


def scales(*shape):
    return torch.rand(shape, device=DEVICE) + 0.5


def up(x, to=128):
    return -(-x // to)


def spread(x, rows, columns):
    """Expands scales to a matrix [rows, columns]. The scales have one column for every 128 columns, and one row for each row or for every
    128 rows."""
    x = x.repeat_interleave(128, 1)[:, :columns].double()
    return x if x.shape[0] == rows else x.repeat_interleave(128, 0)[:rows]


def drawn(draw):
    return (int(2**draw.uniform(6, 13)) // 16 * 16, *(int(2**draw.uniform(10, 13.5)) // 128 * 128 for _ in range(2)))


def dense(m, n, k, of_blocks):
    """Returns A, B, their scales in PyTorch's layout, and the exact product of the first rows."""
    a, b, of_a = e4m3(m, k), e4m3(n, k), scales(up(k), m).t()
    if of_blocks:
        of_b = scales(up(n), up(up(k), 4) * 4).t()
        whole = spread(of_b.t()[:, :up(k)], n, k)
    else:
        of_b = scales(up(k), n).t()
        whole = spread(of_b, n, k)
    some = slice(0, min(m, 256))
    return a, b.t(), of_a, of_b, (a[some].double() * spread(of_a[some], min(m, 256), k)) @ (b.double() * whole).t()


def grouped(groups, m, n, k, of_blocks=True):
    """Returns the arguments of pb.matmul() for a product in groups, and the exact product of the first rows."""
    ends = sorted(draw.randint(0, m) for _ in range(groups - 1)) + [m]
    a, b, of_a, of_b = e4m3(m, k), e4m3(groups, n, k), scales(up(k), m), scales(groups, *((up(n), up(k)) if of_blocks else (up(k), n)))
    some = min(m, 256)
    exact, begin = torch.zeros(some, n, dtype=torch.float64, device=DEVICE), 0
    for group, end in enumerate(ends):
        at = slice(begin, min(end, some))
        if at.start < at.stop:
            whole = spread(of_b[group] if of_blocks else of_b[group].t(), n, k)
            exact[at] = (a[at].double() * spread(of_a[:, at].t(), at.stop - at.start, k)) @ (b[group].double() * whole).t()
        begin = end
    offs = torch.tensor(ends, dtype=torch.int32, device=DEVICE)
    return {"a": a, "b": b.mT, "offs": offs, "scale_a_1x128": of_a, "scale_b_128x128" if of_blocks else "scale_b_1x128": of_b}, exact


def check_random(count):
    worst = 0.0
    for _ in range(count):
        m, n, k, of_blocks = draw.randint(1, 700), draw.randint(1, 90) * 8, draw.randint(1, 100) * 16, draw.random() < 0.6
        if draw.random() < 0.5:
            words, exact = grouped(draw.randint(1, 9), m, n, k, of_blocks)
            call = lambda: pb.matmul(**words, device=PLACE)  # noqa: E731
        else:
            a, b, of_a, of_b, exact = dense(m, n, k, of_blocks)
            recipe = BLOCKS if of_blocks else ROWS
            call = lambda: pb.scaled_mm(a, b, of_a, ROWS, of_b, recipe, output_dtype="bf16", device=PLACE)  # noqa: E731
        d = call()
        error = timing.error_of(d[:256], exact)
        worst = max(worst, error)
        if not error < 4e-3 or not torch.equal(d, call()):
            print("WRONG", m, n, k, of_blocks, error)
    print(f"{count} random products: they differ from float64 by {worst:.1e} at most, and each is bitwise reproducible")


given = timing.arguments(__doc__, "two small products, on the emulator", {"--drawn": {"type": int, "default": 8}})
DEVICE, PLACE, draw = given.device, given.place, given.draw
timing.start(given, check_random, 2)
from torch.nn.functional import ScalingType, scaled_mm  # noqa: E402

rows, ratios = [], {BLOCKS: [], ROWS: []}
for shape in NAMED + [drawn(draw) for _ in range(given.drawn)]:
    m, n, k = shape
    for recipe in ratios:
        a, b, of_a, of_b, exact = dense(m, n, k, recipe == BLOCKS)
        scaled = (a, b, of_a, ScalingType.BlockWise1x128, of_b, getattr(ScalingType, recipe))
        calls = {"ours": lambda: pb.scaled_mm(*scaled, output_dtype=torch.bfloat16),
                 "torch": lambda: scaled_mm(*scaled, output_dtype=torch.bfloat16)}
        took = timing.graphs(calls, given.rounds)
        speed = {word: 2e-6 * m * n * k / us for word, us in took.items()}
        ratios[recipe].append(took["torch"] / took["ours"])
        rows.append((recipe[9:], "x".join(map(str, shape)), f"{took['ours']:.1f}", f"{speed['ours']:.0f}", f"{speed['torch']:.0f}",
                     f"{ratios[recipe][-1]:.3f}", f"{timing.error_of(calls['ours']()[:256], exact):.0e}"))
        print(*rows[-1], flush=True)
timing.table(rows, ("scales of B", "m x n x k", "us", "TFLOP/s", "torch", "speed", "apart"))
for recipe, all_of in ratios.items():
    print(f"{recipe} of B: geometric mean of the speeds {statistics.geometric_mean(all_of):.3f}, from {min(all_of):.3f}; of the named "
          f"{statistics.geometric_mean(all_of[:len(NAMED)]):.3f}, from {min(all_of[:len(NAMED)]):.3f}")
for groups, m, n, k in GROUPS:
    words, exact = grouped(groups, m, n, k)
    words["offs"] = torch.arange(m // groups, m + 1, m // groups, dtype=torch.int32, device=DEVICE)
    gathers = {**words, "a_rows": torch.randperm(m, dtype=torch.int32, device=DEVICE)}
    copied = {**words, "a": words["a"].view(torch.uint8)[gathers["a_rows"]].view(torch.float8_e4m3fn)}
    apart = timing.error_of(pb.matmul(**gathers), pb.matmul(**copied).double())
    took = timing.graphs({"ours": lambda: pb.matmul(**words), "gathers": lambda: pb.matmul(**gathers)}, given.rounds)
    us = took["ours"]
    print(f"{groups} groups of {m // groups} rows, {n} x {k}: {us:.1f} us, {2e-6 * m * n * k / us:.0f} TFLOP/s; gathered "
          f"{took['gathers']:.1f} us, apart by {apart:.0e}")

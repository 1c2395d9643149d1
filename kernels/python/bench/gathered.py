"""Compares products that themselves gather, scatter and add the rows of experts with products for which rows are copied. The variants are
pb.grouped_mm with a_rows and d_rows; without them, on rows that are already gathered; with copies by index_select and index_copy; and
torch._grouped_mm with these copies. The two results of a token are added with add_to_rows, or summed after d_rows. Everything is bf16, and
the calls alternate.

  gathered.py [--shapes EXPERTSxROWSxNxK,...] [--seed S] [--rounds N] [--small]

Each token has two experts. The experts' numbers of rows differ by a factor of up to six.
"""
import argparse
import random
import statistics

import torch

import ptxbuilder as pb
import timing

SHAPES = [(8, 8192, 4096, 7168), (8, 32768, 4096, 7168), (32, 8192, 7168, 2048), (64, 8192, 2048, 7168), (8, 4096, 14336, 4096),
          (32, 8192, 2048, 2048), (32, 8192, 2048, 1024)]
parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--shapes", default="")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--rounds", type=int, default=7)
parser.add_argument("--small", action="store_true", help="one small product, on the emulator")
given = parser.parse_args()
place, where = ("cpu", "emulator") if given.small else ("cuda", None)
draw = random.Random(given.seed)
torch.manual_seed(given.seed)


def ends_of(experts, rows):
    sizes = [draw.uniform(1, 6) for _ in range(experts)]
    ends = torch.tensor(sizes).cumsum(0) / sum(sizes) * rows
    return ends.round().to(place, torch.int32)


def operands(experts, rows, n, k):
    x, weights = (torch.randn(shape, device=place).bfloat16() for shape in ((rows // 2, k), (experts, n, k)))
    order = torch.randperm(rows, device=place)  # order of the results, two for each token
    return x, weights.mT, ends_of(experts, rows), (order // 2).int(), order, torch.rand(rows, device=place)


def error_of(got, shape, x, weights, ends, token, order, factor):
    """Compares some rows of each variant with float64."""
    picked = torch.randint(0, shape[1], (64,), device=place)
    expert = torch.searchsorted(ends, picked.int(), right=True)
    exact = torch.stack([x[token[i]].double() @ weights[e].double() for i, e in zip(picked, expert)])
    plain, scattered = got["gathers"][picked].double(), got["scatters"][order[picked]].double()
    pairs = ((plain, exact), (scattered, exact * factor[picked, None].double()), (got["adds"].double(), got["sums"].double()))
    return max(((d - of).norm() / of.norm()).item() for d, of in pairs)


def calls_of(x, weights, ends, token, order, factor):
    rows, numbers = x[token], order.int()
    shape = (len(rows) // 2, weights.shape[2])

    def placed(y):
        return torch.empty_like(y).index_copy_(0, order, y * factor[:, None].to(y.dtype))

    calls = {
        "gathered": lambda: pb.grouped_mm(rows, weights, ends, device=where),
        "gathers": lambda: pb.grouped_mm(x, weights, ends, a_rows=token, device=where),
        "copies": lambda: pb.grouped_mm(x.index_select(0, token), weights, ends, device=where),
        "scatters": lambda: pb.grouped_mm(rows, weights, ends, d_rows=numbers, d_weights=factor, device=where),
        "places": lambda: placed(pb.grouped_mm(rows, weights, ends, device=where)),
        "adds": lambda: pb.matmul(rows, weights, offs=ends, out=torch.zeros(shape, dtype=rows.dtype, device=place), add_to_rows=token,
                                  scale_a=factor, device=where),
        "sums": lambda: pb.grouped_mm(rows, weights, ends, d_rows=numbers, d_weights=factor, device=where).view(-1, 2, shape[1]).sum(1)}
    if place == "cuda":
        calls["torch copies"] = lambda: torch._grouped_mm(x.index_select(0, token), weights, offs=ends)
        calls["torch places"] = lambda: placed(torch._grouped_mm(rows, weights, offs=ends))
    return calls


shapes = [tuple(map(int, text.split("x"))) for text in given.shapes.split(",")] if given.shapes else SHAPES
lines, ratios = [], {"gather": [], "scatter": [], "sum": []}
for shape in [(3, 70, 48, 64)] if given.small else shapes:
    tensors = operands(*shape)
    calls = calls_of(*tensors)
    error = error_of({word: call() for word, call in calls.items()}, shape, *tensors)
    if given.small:
        print(error < 1e-2)
        raise SystemExit(0)
    took = timing.device(calls, rounds=given.rounds)
    ratios["gather"].append(took["gathers"] / took["gathered"])
    ratios["scatter"].append(took["scatters"] / took["gathered"])
    ratios["sum"].append(took["adds"] / took["sums"])
    lines.append(("x".join(map(str, shape)), *(f"{took[word]:.1f}" for word in calls), f"{ratios['gather'][-1]:.3f}",
                  f"{ratios['scatter'][-1]:.3f}", f"{ratios['sum'][-1]:.3f}", f"{error:.0e}"))
    print(*lines[-1], flush=True)
timing.table(lines, ("experts x rows x n x k", "gathered ahead", "gathers", "copies", "scatters", "places", "adds", "sums", "torch copies",
                     "torch places", "of gathered", "scatters", "adds of sums", "apart"))
for word, all_of in ratios.items():
    against = "of sums after d_rows" if word == "sum" else "of the product without it"
    print(f"{word}: times {against}, geometric mean {statistics.geometric_mean(all_of):.3f}, to {max(all_of):.3f}")

"""Compares pb.einsum with torch.einsum and with the matrix product of the same size, for random contractions. They have two to four free
dimensions, one or two dimensions that are summed over, sometimes batches, and operands that are stored in any order. Everything is bf16,
and the calls alternate.

  einsum.py [--drawn N] [--seed S] [--rounds R] [--small]

All results are compared with float64. There are three kinds of contractions: `plain` ones can be folded into one matrix product, `modes`
need several dimensions of a tensor map, and the operands of `copied` ones are first copied. The last lines have the geometric mean of each
kind.
"""
import argparse
import math
import random
import statistics

import torch

import ptxbuilder as pb
import timing


def extents_of(draw, count, total):
    """Returns `count` extents, multiples of 8, with a product near `total`."""
    all_of = []
    for left in range(count - 1, 0, -1):
        most = max(8, total // 8**left)
        all_of.append(max(8, int(math.exp(draw.uniform(math.log(8), math.log(min(most, 256))))) // 8 * 8))
        total //= all_of[-1]
    all_of.append(max(8, round(total / 8) * 8))
    draw.shuffle(all_of)
    return all_of


def drawn(draw):
    """Draws a contraction: returns the subscripts, the extents by letter, and the order in which the dimensions of A and of B are
    stored."""
    free = draw.randint(2, 4)
    of_m = draw.randint(1, free - 1)
    letters = iter("abcdefghijkl")
    groups = {}
    for name, count, least, most in (("m", of_m, 1024, 8192), ("n", free - of_m, 1024, 8192), ("k", draw.randint(1, 2), 512, 4096),
                                     ("batch", int(draw.random() < 0.35), 2, 8)):
        total = int(math.exp(draw.uniform(math.log(least), math.log(most))))
        extents = [total] if name == "batch" and count else extents_of(draw, count, total) if count else []
        groups[name] = {next(letters): extent for extent in extents}
    extents = {letter: extent for group in groups.values() for letter, extent in group.items()}

    def shuffled(*names):
        order = [letter for name in names for letter in groups[name]]
        draw.shuffle(order)
        return "".join(order)

    a, b, d = shuffled("m", "k", "batch"), shuffled("n", "k", "batch"), shuffled("m", "n", "batch")
    sizes = {name: math.prod(group.values()) for name, group in groups.items()}
    return f"{a},{b}->{d}", extents, (shuffled("m", "k", "batch"), shuffled("n", "k", "batch")), sizes


def tensor(letters, order, extents):
    x = torch.randn([extents[letter] for letter in order], device=DEVICE, dtype=torch.bfloat16)
    return x.permute([order.index(letter) for letter in letters])


def kind_of(text):
    return "copied" if "is copied" in text else "modes" if " x " in text else "plain"


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--drawn", type=int, default=20)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--rounds", type=int, default=9)
parser.add_argument("--small", action="store_true", help="one small contraction, on the emulator")
given = parser.parse_args()
DEVICE = "cpu" if given.small else "cuda"
if given.small:
    a, b = (torch.randn(shape, dtype=torch.bfloat16) for shape in ((20, 3, 16), (8, 3, 16)))
    d = pb.einsum("mbk,nbk->mnb", a, b, device="emulator")
    print(torch.allclose(d.float(), torch.einsum("mbk,nbk->mnb", a.float(), b.float()), rtol=1e-2, atol=0.1))
    raise SystemExit(0)
print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
draw, rows, ratios = random.Random(given.seed), [], {}
while len(rows) < given.drawn:
    subscripts, extents, orders, sizes = drawn(draw)
    work = math.prod(extents.values())
    if not 1 << 33 <= work <= 1 << 36:
        continue
    of_a, of_b = subscripts.split("->")[0].split(",")
    a, b = tensor(of_a, orders[0], extents), tensor(of_b, orders[1], extents)
    batches = [sizes["batch"]] if sizes["batch"] > 1 else []
    x, y = (torch.randn(*batches, sizes[rows_of], sizes["k"], device=DEVICE, dtype=torch.bfloat16) for rows_of in ("m", "n"))
    calls = {"ours": lambda: pb.einsum(subscripts, a, b), "torch": lambda: torch.einsum(subscripts, a, b),
             "product": lambda: pb.matmul(x, y, transpose_b=True)}
    took = timing.queued(calls, rounds=given.rounds)
    exact = torch.einsum(subscripts, a.double(), b.double())
    error = ((calls["ours"]().double() - exact).norm() / exact.norm()).item()
    text = pb.einsum_explained(subscripts, a, b)
    of_torch, of_product = took["torch"] / took["ours"], took["product"] / took["ours"]
    ratios.setdefault(kind_of(text), []).append((of_torch, of_product))
    rows.append((subscripts, "x".join(f"{letter}{extent}" for letter, extent in extents.items()), ",".join(orders), kind_of(text),
                 f"{took['ours']:.1f}", f"{2e-6 * work / took['ours']:.0f}", f"{of_torch:.3f}", f"{of_product:.3f}", f"{error:.0e}"))
    print(*rows[-1], text, flush=True)
    assert error < 4e-3, "wrong"
    del a, b, x, y, exact
timing.table(rows, ("letters", "extents", "order in memory", "kind", "us", "TFLOP/s", "of torch.einsum", "of the product", "error"))
for name, all_of in (*ratios.items(), ("all", [pair for pairs in ratios.values() for pair in pairs])):
    of_torch, of_product = zip(*all_of)
    print(f"{name}, {len(all_of)}: {statistics.geometric_mean(of_torch):.3f} of torch.einsum's speed, from {min(of_torch):.3f}; "
          f"{statistics.geometric_mean(of_product):.3f} of the product's, from {min(of_product):.3f}")

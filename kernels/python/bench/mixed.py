"""pb.packed_mm against torch._weight_int4pack_mm, torch.matmul of bf16 and, where it is to be had, Marlin: rows of bf16 with packed
weights, in turns, as captured graphs, whose weights are three times what L2 holds.

  mixed.py [--m M,M,..] [--types TYPE_GROUP,..] [--rounds N] [--random N] [--small]

The layers are those of models, N x K; a type is int4, uint4, int8 or e4m3, with groups of 32, 64 or 128 of k, or 0. With --random so many
products, of any size and form, are held against float64 first, and against themselves.
"""
import argparse
import importlib.util
import random
import statistics

import torch

import ptxbuilder as pb
import timing

LAYERS = [(8192, 8192), (28672, 8192), (8192, 28672), (4096, 4096), (14336, 4096), (4096, 14336), (6144, 4096), (7168, 2048)]
L2_BYTES = 50e6
SCALES = (torch.float32, torch.float16, torch.bfloat16)


def quantized(n, k, type, group, scales=torch.bfloat16):
    """The arguments of pb.pack_weights(), and the numbers that they stand for."""
    groups = -(-k // group) if group else 1
    if type == "e4m3":
        w = torch.randn(n, k, device=DEVICE).to(torch.float8_e4m3fn)
    else:
        low, high = {"int4": (-8, 8), "uint4": (0, 16), "int8": (-128, 128)}[type]
        w = torch.randint(low, high, (n, k), device=DEVICE, dtype=torch.uint8 if type == "uint4" else torch.int8)
    s = (torch.rand(n, groups, device=DEVICE) + 0.5).to(scales) / 8
    z = torch.randint(0, 16, (n, groups), device=DEVICE, dtype=torch.uint8) if type == "uint4" else None
    by_k = torch.arange(k, device=DEVICE) // group if group else torch.zeros(k, device=DEVICE, dtype=torch.long)
    numbers = (w.double() - (0 if z is None else z.double()[:, by_k])) * s.double()[:, by_k]
    return (w, s, z), {"type": type, "group": group}, numbers


def error_of(d, exact):
    return ((d.double() - exact).norm() / exact.norm().clamp(min=1e-30)).item()


def check_random(count):
    worst = 0.0
    for _ in range(count):
        type, group = draw.choice(("int4", "uint4", "int8", "e4m3")), draw.choice((0, 32, 64, 128))
        m, n, k = (int(2**draw.uniform(0, 9)) for _ in range(3))
        given, words, numbers = quantized(n, k, type, group, draw.choice(SCALES))
        packed = pb.pack_weights(*given, **words)
        a = torch.randn(m, k, device=DEVICE).to(draw.choice((torch.bfloat16, torch.float16)))
        bias = torch.randn(n, device=DEVICE)
        call = lambda: pb.packed_mm(a, packed, bias, out_dtype=torch.float32, device=PLACE)  # noqa: E731
        d = call()
        error = error_of(d, a.double() @ numbers.t() + bias.double())
        worst = max(worst, error)
        if not error < 1e-5 or not torch.equal(d, call()):
            raise SystemExit(f"WRONG: {m} x {n} x {k}, {type}, groups of {group}, A of {a.dtype}: apart by {error:.1e}")
    print(f"{count} random products: apart from float64 by {worst:.1e} at most, and each repeats its bits")


def of_torch(w, s, group):
    """torch._weight_int4pack_mm's operands of int4 with groups."""
    shifted = (w + 8).to(torch.uint8)
    packed = torch._convert_weight_to_int4pack((shifted[:, ::2] << 4 | shifted[:, 1::2]).contiguous(), 8)
    return packed, group, torch.stack((s.t(), torch.zeros_like(s.t())), -1).to(torch.bfloat16).contiguous()


def of_marlin(w, s, group):
    """A call of Marlin's by its rows, of int4 with groups of 128."""
    import marlin

    layer = marlin.Layer(w.shape[1], w.shape[0], groupsize=group).to(DEVICE)
    linear = torch.nn.Linear(w.shape[1], w.shape[0], bias=False, device=DEVICE, dtype=torch.half)
    linear.weight.data = (w.half() * s.half().repeat_interleave(group, 1))
    layer.pack(linear, s.half())
    return layer


def peers_of(m, n, k, type, group, given, copies):
    """Calls by name, one for each copy of the weights."""
    w, s, _ = given
    a = torch.randn(m, k, device=DEVICE, dtype=torch.bfloat16)
    calls = {}
    if type == "int4" and group and n % 8 == 0 and k % 128 == 0:
        mine = [of_torch(w, s, group) for _ in range(copies)]
        calls["torch int4"] = [lambda x=x: torch._weight_int4pack_mm(a, *x) for x in mine]
    if type == "int4" and group == 128 and importlib.util.find_spec("marlin"):
        layers, half = [of_marlin(w, s, group) for _ in range(copies)], a.half()
        calls["marlin"] = [lambda x=x: x(half) for x in layers]
    dense = [torch.randn(n, k, device=DEVICE, dtype=torch.bfloat16) for _ in range(max(2, -(-copies // 4)))]
    calls["bf16"] = [lambda x=x: torch.nn.functional.linear(a, x) for x in dense]
    return a, calls


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--m", default="1,16,64,256")
parser.add_argument("--types", default="int4_128")
parser.add_argument("--rounds", type=int, default=9)
parser.add_argument("--random", type=int, default=0)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--small", action="store_true", help="three small products, on the emulator")
words = parser.parse_args()
DEVICE, PLACE = ("cpu", "emulator") if words.small else ("cuda", None)
draw = random.Random(words.seed)
torch.manual_seed(words.seed)
check_random(3 if words.small else words.random)
if words.small:
    raise SystemExit(0)
print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
rows, speeds = [], {}
for type, group in ((x.split("_")[0], int(x.split("_")[1])) for x in words.types.split(",")):
    for n, k in LAYERS:
        given, how, numbers = quantized(n, k, type, group)
        packed = pb.pack_weights(*given, **how)
        copies = max(4, int(3 * L2_BYTES / packed.data.numel()) + 1)
        weights = [packed._replace(data=packed.data.clone()) for _ in range(copies)]
        for m in map(int, words.m.split(",")):
            a, calls = peers_of(m, n, k, type, group, given, copies)
            calls["ours"] = [lambda x=x: pb.packed_mm(a, x) for x in weights]
            took = timing.graphs(calls, words.rounds)
            best = min(us for name, us in took.items() if name != "ours")
            speeds.setdefault((f"{type}_{group}", m), []).append(best / took["ours"])
            rows.append((f"{type}_{group}", m, f"{n} x {k}",
                         *(f"{took[x]:.1f}" if x in took else "-" for x in ("ours", "torch int4", "marlin", "bf16")),
                         f"{packed.data.numel() / took['ours'] * 1e-6:.2f}", f"{best / took['ours']:.2f}",
                         f"{error_of(calls['ours'][0](), a.double() @ numbers.t()):.0e}"))
            print(*rows[-1], flush=True)
timing.table(rows, ("weights", "m", "n x k", "us", "torch int4", "Marlin", "bf16", "TB/s", "speed", "apart"))
for (type, m), all_of in speeds.items():
    print(f"{type}, m {m}: geometric mean of the speeds over the best peer {statistics.geometric_mean(all_of):.2f}, from {min(all_of):.2f}")

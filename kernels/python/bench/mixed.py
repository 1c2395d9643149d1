"""Compares pb.packed_mm with torch._weight_int4pack_mm, torch.matmul in bf16 and, if available, Marlin, for products of bf16 rows and
packed weights. The calls alternate and are captured as graphs, with weights that have three times the size of L2.

  mixed.py [--m M,M,..] [--types TYPE_GROUP,..] [--experts] [--rounds N] [--random N] [--small]

The weights, N x K, are those of layers of models. A type is int4, uint4, int8 or e4m3, and GROUP is the size of groups along k, 32, 64 or
128, or 0 for all of k. --random is the number of products, of any size and form, and of experts, that are first compared with float64 and
with a second run. With --experts, the weights of experts are measured instead, and compared with pb.grouped_mm and torch._grouped_mm in
bf16.
"""
import importlib.util
import statistics

import torch

import ptxbuilder as pb
import timing

LAYERS = [(8192, 8192), (28672, 8192), (8192, 28672), (4096, 4096), (14336, 4096), (4096, 14336), (6144, 4096), (7168, 2048)]
EXPERTS = [(8, 16, 14336, 4096), (8, 64, 14336, 4096), (8, 512, 4096, 14336), (32, 64, 4096, 2048), (64, 64, 2048, 7168),
           (128, 256, 1536, 4096)]
L2_BYTES = 50e6
SCALES = (torch.float32, torch.float16, torch.bfloat16)


def quantized(n, k, type, group, scales=torch.bfloat16):
    """Returns random arguments of pb.pack_weights(), and the numbers that they represent."""
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


def experts_of(count, rows, n, k, type, group, scales=torch.bfloat16):
    """Returns packed weights of experts, the end of each expert's rows, and the numbers that each expert's weights represent, followed by
    zeros for rows without an expert."""
    each = [quantized(n, k, type, group, scales) for _ in range(count)]
    given = [None if x[0] is None else torch.stack([y.view(torch.uint8) for y in x]).view(x[0].dtype)
             for x in zip(*(one[0] for one in each))]
    ends = sorted(draw.randint(0, rows) for _ in range(count))
    numbers = torch.stack([one[2] for one in each] + [torch.zeros_like(each[0][2])])
    return pb.pack_weights(*given, **each[0][1]), torch.tensor(ends, dtype=torch.int32, device=DEVICE), numbers


def exact_of_experts(a, ends, numbers, some):
    """Returns the exact products of the rows in a slice."""
    index = torch.searchsorted(ends, torch.arange(a.shape[0], dtype=torch.int32, device=DEVICE), right=True)
    return torch.stack([numbers[i] @ row for i, row in zip(index[some], a[some].double())])


def check_experts():
    """Draws a product of experts, and returns its call and the expected result."""
    type, group = draw.choice(("int4", "uint4", "int8", "e4m3")), draw.choice((0, 32, 64, 128))
    m, n, k = (int(2**draw.uniform(0, 8)) for _ in range(3))
    packed, ends, numbers = experts_of(draw.randint(1, 6), m, n, k, type, group, draw.choice(SCALES))
    a = torch.randn(m, k, device=DEVICE).bfloat16()
    return (lambda: pb.packed_mm(a, packed, offs=ends, out_dtype=torch.float32, device=PLACE),
            exact_of_experts(a, ends, numbers, slice(None)), f"{m} x {n} x {k} of {len(ends)} experts, {type}, groups of {group}")


def measure_experts(type, group):
    rows, ratios = [], []
    for count, m, n, k in EXPERTS:
        packed, _, numbers = experts_of(count, m, n, k, type, group)
        weights = numbers[:-1].bfloat16()
        sizes = torch.tensor([draw.uniform(1, 6) for _ in range(count)])
        ends = (sizes.cumsum(0) / sizes.sum() * m).round().to(DEVICE, torch.int32)
        a = torch.randn(m, k, device=DEVICE, dtype=torch.bfloat16)
        calls = {"ours": lambda: pb.packed_mm(a, packed, offs=ends), "bf16": lambda: pb.grouped_mm(a, weights.mT, ends),
                 "torch": lambda: torch._grouped_mm(a, weights.mT, offs=ends)}
        some = slice(0, 32)
        apart = timing.error_of(calls["ours"]()[some], exact_of_experts(a, ends, numbers, some))
        took = timing.graphs(calls, words.rounds)
        ratios.append(min(took["bf16"], took["torch"]) / took["ours"])
        rows.append((f"{type}_{group}", f"{count} x {m} x {n} x {k}", *(f"{took[x]:.1f}" for x in ("ours", "bf16", "torch")),
                     f"{packed.data.numel() / took['ours'] * 1e-6:.2f}", f"{ratios[-1]:.2f}", f"{apart:.0e}"))
        print(*rows[-1], flush=True)
    timing.table(rows, ("weights", "experts x rows x n x k", "us", "ours of bf16", "torch._grouped_mm", "TB/s", "speed", "apart"))
    print(f"experts: geometric mean of the speeds over bf16 {statistics.geometric_mean(ratios):.2f}, from {min(ratios):.2f}")


def check_random(count):
    worst = 0.0
    for i in range(count):
        if i % 3 == 2:
            call, exact, what = check_experts()
            d = call()
            error = timing.error_of(d, exact)
            worst = max(worst, error)
            if not error < 1e-5 or not torch.equal(d, call()):
                raise SystemExit(f"WRONG: {what}: apart by {error:.1e}")
            continue
        type, group = draw.choice(("int4", "uint4", "int8", "e4m3")), draw.choice((0, 32, 64, 128))
        m, n, k = (int(2**draw.uniform(0, 9)) for _ in range(3))
        given, words, numbers = quantized(n, k, type, group, draw.choice(SCALES))
        packed = pb.pack_weights(*given, **words)
        a = torch.randn(m, k, device=DEVICE).to(draw.choice((torch.bfloat16, torch.float16)))
        bias = torch.randn(n, device=DEVICE)
        call = lambda: pb.packed_mm(a, packed, bias, out_dtype=torch.float32, device=PLACE)  # noqa: E731
        d = call()
        error = timing.error_of(d, a.double() @ numbers.t() + bias.double())
        worst = max(worst, error)
        if not error < 1e-5 or not torch.equal(d, call()):
            raise SystemExit(f"WRONG: {m} x {n} x {k}, {type}, groups of {group}, A of {a.dtype}: apart by {error:.1e}")
    print(f"{count} random products: they differ from float64 by {worst:.1e} at most, and each is bitwise reproducible")


def of_torch(w, s, group):
    """Returns the operands of torch._weight_int4pack_mm for int4 with groups."""
    shifted = (w + 8).to(torch.uint8)
    packed = torch._convert_weight_to_int4pack((shifted[:, ::2] << 4 | shifted[:, 1::2]).contiguous(), 8)
    return packed, group, torch.stack((s.t(), torch.zeros_like(s.t())), -1).to(torch.bfloat16).contiguous()


def of_marlin(w, s, group):
    """Returns a function of rows that calls Marlin, for int4 with groups of 128."""
    import marlin

    layer = marlin.Layer(w.shape[1], w.shape[0], groupsize=group).to(DEVICE)
    linear = torch.nn.Linear(w.shape[1], w.shape[0], bias=False, device=DEVICE, dtype=torch.half)
    linear.weight.data = (w.half() * s.half().repeat_interleave(group, 1))
    layer.pack(linear, s.half())
    return layer


def peers_of(m, n, k, type, group, given, copies):
    """Returns a dict of lists of calls, with one call for each copy of the weights."""
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


words = timing.arguments(__doc__, "four small products, on the emulator", {
    "--m": {"default": "1,16,64,256"}, "--types": {"default": "int4_128"}, "--experts": {"action": "store_true"}})
DEVICE, PLACE, draw = words.device, words.place, words.draw
timing.start(words, check_random, 4)
forms = [(x.split("_")[0], int(x.split("_")[1])) for x in words.types.split(",")]
if words.experts:
    for type, group in forms:
        measure_experts(type, group)
    raise SystemExit(0)
rows, speeds = [], {}
for type, group in forms:
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
                         f"{timing.error_of(calls['ours'][0](), a.double() @ numbers.t()):.0e}"))
            print(*rows[-1], flush=True)
timing.table(rows, ("weights", "m", "n x k", "us", "torch int4", "Marlin", "bf16", "TB/s", "speed", "apart"))
for (type, m), all_of in speeds.items():
    print(f"{type}, m {m}: geometric mean of the speeds over the best peer {statistics.geometric_mean(all_of):.2f}, from {min(all_of):.2f}")

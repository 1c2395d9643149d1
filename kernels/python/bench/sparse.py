"""Compares products with sparse weights (2:4) with our and torch's dense products, and with torch's semi-structured products (cuSPARSELt).
The calls alternate and are captured as graphs, so that only the GPU's time is measured.

  sparse.py [--drawn N] [--seed S] [--rounds N] [--random N] [--dtype bf16] [--sparse_a] [--small]

The products are x [m, k] times weights [n, k] that have two zeros in every four elements along k, with five named shapes and N random
shapes. With --sparse_a, x is sparse instead of the weights. --random is the number of small products that are first compared with float64
and with a second run.
"""
import statistics

import torch

import ptxbuilder as pb
import timing

NAMED = [(8192, 8192, 8192), (4096, 4096, 4096), (16384, 8192, 4096), (4096, 14336, 4096), (128, 8192, 8192)]


def with_zeros(x):
    """Sets two of every four elements along the rows to zero."""
    order = torch.rand(*x.shape[:-1], x.shape[-1] // 4, 4, device=x.device).argsort(-1)
    return x * (order < 2).reshape(x.shape)


def dense(rows, k, dtype):
    return torch.randn(rows, k, device=DEVICE).to(dtype)


def drawn(draw):
    return tuple(int(2**draw.uniform(10, 13.5)) // 256 * 256 for _ in range(3))


def check_random(count):
    worst = 0.0
    for _ in range(count):
        m, n, k, is_a = draw.randint(1, 400), draw.randint(1, 400), draw.randint(1, 200) * 4, draw.random() < 0.5
        dtype = draw.choice((torch.bfloat16, torch.float16, torch.float8_e4m3fn))
        x, w = dense(m, k, torch.float32), dense(n, k, torch.float32)
        x, w = (with_zeros(x) if is_a else x).to(dtype), (w if is_a else with_zeros(w)).to(dtype)
        a, b = (pb.compress_2_4(x), w) if is_a else (x, pb.compress_2_4(w))
        call = lambda: pb.matmul(a, b, transpose_b=True, out_dtype=torch.bfloat16, device=PLACE)  # noqa: E731
        d = call()
        error = timing.error_of(d, x.double() @ w.double().t())
        worst = max(worst, error)
        if not error < 4e-3 or not torch.equal(d, call()):
            print("WRONG", m, n, k, is_a, dtype, error)
    print(f"{count} random products: they differ from float64 by {worst:.1e} at most, and each is bitwise reproducible")


given = timing.arguments(__doc__, "two small products, on the emulator", {
    "--drawn": {"type": int, "default": 5}, "--dtype": {"choices": ("bf16", "f16", "e4m3"), "default": "bf16"},
    "--sparse_a": {"action": "store_true"}})
DEVICE, PLACE, draw = given.device, given.place, given.draw
timing.start(given, check_random, 2)
dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "e4m3": torch.float8_e4m3fn}[given.dtype]
rows, ratios = [], []
for shape in NAMED + [drawn(draw) for _ in range(given.drawn)]:
    m, n, k = shape
    x, w = dense(m, k, torch.float32), dense(n, k, torch.float32)
    x, w = (with_zeros(x) if given.sparse_a else x).to(dtype), (w if given.sparse_a else with_zeros(w)).to(dtype)
    a, b = (pb.compress_2_4(x), w) if given.sparse_a else (x, pb.compress_2_4(w))
    words = {"transpose_b": True, "out_dtype": torch.bfloat16 if given.dtype == "e4m3" else dtype}
    calls = {"ours": lambda: pb.matmul(a, b, **words), "dense": lambda: pb.matmul(x, w, **words)}
    if given.dtype != "e4m3":
        calls["torch"] = lambda: torch.nn.functional.linear(x, w)
        try:  # cuSPARSELt multiplies a sparse matrix from the left, as linear() does
            semi = torch.sparse.to_sparse_semi_structured(x if given.sparse_a else w)
            calls["semi"] = (lambda: semi @ w.t()) if given.sparse_a else (lambda: torch.nn.functional.linear(x, semi))
            calls["semi"]()
        except (RuntimeError, NotImplementedError) as error:
            calls.pop("semi", None)
            print(f"torch's semi-structured product of {shape}: {error}")
    some = slice(0, min(m, 256))
    apart = timing.error_of(calls["ours"]()[some], x[some].double() @ w.double().t())
    took = timing.graphs(calls, given.rounds)
    speed = {name: f"{2e-6 * m * n * k / us:.0f}" for name, us in took.items()}
    ratios.append(took["dense"] / took["ours"])
    rows.append(("x".join(map(str, shape)), f"{took['ours']:.1f}", *(speed.get(name, "-") for name in ("ours", "dense", "torch", "semi")),
                 f"{ratios[-1]:.3f}", f"{took['semi'] / took['ours']:.3f}" if "semi" in took else "-", f"{apart:.0e}"))
    print(*rows[-1], flush=True)
timing.table(rows, ("m x n x k", "us", "TFLOP/s", "dense", "torch", "semi", "of dense", "of semi", "apart"))
print(f"of our dense products: geometric mean of the speeds {statistics.geometric_mean(ratios):.3f}, from {min(ratios):.3f}")

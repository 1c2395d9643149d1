"""Compares attention, forward and backward, in bf16, with the fastest of the other libraries: the TFLOP/s of each pass, and the errors of
results and gradients relative to float32. The other libraries are PyTorch's backends, and FlashAttention's CuTe kernels if they can be
imported (scripts/peers/get fetches them).

  attention.py [--small]   16,384 tokens, 32 heads of 64, 16 of 128 or 8 of 256; --small on the emulator
"""
import importlib.util
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
    """Returns the largest error of O, dQ, dK and dV."""
    torch.manual_seed(20)
    q, k, v, grad = (torch.randn(shape, device=place).bfloat16() for _ in range(4))
    found = []
    for attend in (way, exact):
        given = [x.clone().requires_grad_() for x in (q, k, v)]
        o = attend(*given, causal)
        found.append([o, *torch.autograd.grad(o, given, grad.to(o.dtype))])
    return max(error(x.detach(), y.detach().float()) for x, y in zip(*found))


def by_cute(q, k, v, causal):
    return flash_attn_func(q, k, v, causal=causal)[0]


ways = {"ptxbuilder": ours, **{str(x).rpartition(".")[2].removesuffix("_ATTENTION").lower(): by_backend(x) for x in BACKENDS}}
if not is_small and importlib.util.find_spec("flash_attn") and importlib.util.find_spec("flash_attn.cute"):
    from flash_attn.cute import flash_attn_func
    ways["flash_attn.cute"] = by_cute
PASSES = {"forward": 4, "backward": 10, "both": 14}  # floating-point operations for each combination of a row, a key and a column
ratios, rows = {name: [] for name in PASSES}, []
for depth in (32,) if is_small else (64, 128, 256):
    for causal in (False, True):
        at, able = f"D {depth}{' causal' if causal else ''}", {}
        for name, way in ways.items():
            try:
                found = errors(way, (1, 32 if is_small else 1024, 2, depth), causal)
            except Exception as why:  # noqa: BLE001 a library may raise any exception for a width that it does not support
                print(f"{at}: {name} is left out: {str(why).splitlines()[0]}")
                continue
            able[name] = way
            print(f"{at}: {name}'s greatest error at 1024 rows is {found:.2e}")
        if "ptxbuilder" not in able:
            continue
        for length in lengths:
            shape = (tokens // length, length, width // depth, depth)
            q, k, v, grad = (torch.randn(shape, device=place).bfloat16() for _ in range(4))
            given = [x.requires_grad_() for x in (q, k, v)]
            outputs = {name: way(*given, causal) for name, way in able.items()}

            def forward(way):
                with torch.no_grad():
                    way(q, k, v, causal)

            calls = {"forward": {name: lambda way=way: forward(way) for name, way in able.items()},
                     "backward": {name: lambda o=o: torch.autograd.grad(o, given, grad, retain_graph=True) for name, o in outputs.items()}}
            if is_small:
                for call in (*calls["forward"].values(), *calls["backward"].values()):
                    call()
                continue
            times = {name: timing.device(of_pass, rounds=7) for name, of_pass in calls.items()}
            times["both"] = {name: times["forward"][name] + times["backward"][name] for name in able}
            for name, flops in PASSES.items():
                flops *= tokens * length * width / (2 if causal else 1)
                ratios[name].append(min(t for who, t in times[name].items() if who != "ptxbuilder") / times[name]["ptxbuilder"])
                rows.append((at, length, name, *(f"{flops / times[name][who] * 1e-6:.0f}" if who in able else "-" for who in ways),
                             f"{ratios[name][-1]:.3f}"))
if not is_small:
    timing.table(rows, ("heads", "rows", "pass", *ways, "compared with the best of the others"))
    for name, found in ratios.items():
        print(f"{name}: geometric mean {statistics.geometric_mean(found):.3f}, worst {min(found):.3f}")

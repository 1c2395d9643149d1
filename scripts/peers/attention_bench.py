#!/usr/bin/env python3
"""Measures this project's attention beside others on one GPU: cuDNN and FlashAttention as PyTorch brings them, a kernel in
Triton, JAX Pallas' attention_mgpu, and FlashAttention-3 and FlashAttention's CuTe kernels where python3 imports them.

All take the same tensors, [batch, row, head, column] of N(0,1). Each is checked against float64 on rows that a seed draws, then
timed in bursts of launches in CUDA graphs (Pallas': queued one by one), all contenders in a random order round by round,
and compared in pairs within a round.

    scripts/bench attention [--quick] [--only WORD ...] [--set NAME] [--rounds N] [--burst-ms MS] [--time-limit S] [--seed N]
                            [--library FILE] [--no-jax] [--json FILE] [--markdown FILE] [--svg FILE]

Sets: grid (lengths 512 to 16384 of 16384 tokens, heads of 64, 128 and 256 columns, causal and not), extra (grouped heads, widths 96
and 192/128, lengths that fill whole waves, and packed sequences of a long-tailed mix).
Exit code 0: measured; 1: a result is wrong, or nothing could be measured."""
import argparse
import concurrent.futures
import ctypes
import json
import math
import os
import random
import statistics
import sys
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the card is shared
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOKENS, WIDTH = 16384, 2048


class Shape:
    """`lengths`: of packed sequences, else batch times `queries`."""

    def __init__(self, queries, depth, causal, value_depth=None, batch=None, heads=None, key_heads=None, lengths=None,
                 dtype="f16", group="grid"):
        self.depth, self.value_depth, self.causal = depth, value_depth or depth, causal
        self.queries, self.lengths, self.dtype, self.group = queries, lengths, dtype, group
        self.batch = batch or max(TOKENS // queries, 1)
        self.heads = heads or WIDTH // depth
        self.key_heads = key_heads or self.heads

    def name(self):
        width = str(self.depth) if self.depth == self.value_depth else f"{self.depth}/{self.value_depth}"
        heads = str(self.heads) if self.heads == self.key_heads else f"{self.heads} on {self.key_heads}"
        length = "packed" if self.lengths else str(self.queries)
        return (f"D {width}{' causal' if self.causal else ''}, S {length}, {self.batch} x {heads} heads"
                f"{', bf16' if self.dtype == 'bf16' else ''}")

    def flops(self):
        pairs = sum(n * (n + 1) // 2 if self.causal else n * n for n in self.lengths or [self.queries] * self.batch)
        return 2 * pairs * self.heads * (self.depth + self.value_depth)

    def weight(self):
        """As hd 128 50, 64 25, 256 25; causal 60, not 40; lengths alike."""
        return {64: 25, 128: 50, 256: 25}.get(self.depth, 0) * (60 if self.causal else 40) / 6


def shapes(name, seed):
    if name == "grid":
        return [Shape(s, d, causal) for d in (64, 128, 256) for causal in (False, True)
                for s in (512, 1024, 2048, 4096, 8192, 16384)]
    draw = random.Random(seed)
    mix = []
    while sum(mix) < TOKENS:
        mix.append(min(int(draw.lognormvariate(6, 1.2)) + 1, TOKENS - sum(mix)))
    extra = [Shape(s, 128, causal, heads=32, key_heads=4, group="extra") for s in (2048, 8192) for causal in (False, True)]
    extra += [Shape(4096, 96, causal, heads=16, group="extra") for causal in (False, True)]
    extra += [Shape(4096, 192, causal, value_depth=128, heads=16, group="extra") for causal in (False, True)]
    extra += [Shape(s, 128, False, batch=1, heads=16, group="extra") for s in (4224, 8448, 16896)]
    extra += [Shape(8448, 128, causal, batch=4, heads=16, group="extra") for causal in (False, True)]
    extra += [Shape(max(mix), 128, True, batch=len(mix), heads=16, lengths=mix, group="extra")]
    extra += [Shape(s, 128, causal, dtype="bf16", group="extra") for s in (2048, 8192) for causal in (False, True)]
    return extra


class Refused(Exception):
    pass


# ---- This project's, through its C interface ----


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class Attention(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.POINTER(DLTensor)) for name in
                                              ("q", "k", "v", "o", "lse", "query_offsets", "key_offsets")] + [
        ("queries", ctypes.c_int64), ("keys", ctypes.c_int64), ("left", ctypes.c_int64), ("right", ctypes.c_int64),
        ("scale", ctypes.c_float), ("softcap", ctypes.c_float), ("causal", ctypes.c_int32), ("top_left", ctypes.c_int32)]


class Ours:
    name = "ptxbuilder"

    def __init__(self, library):
        self.library = ctypes.CDLL(library)
        self.library.ptxb_error.restype = ctypes.c_char_p
        self.device = ctypes.c_void_p()
        self.check(self.library.ptxb_open(b"cuda", ctypes.byref(self.device)))

    def check(self, status):
        if status:
            raise Refused(self.library.ptxb_error().decode())

    def tensor(self, t):
        code, bits = {"torch.float16": (2, 16), "torch.bfloat16": (4, 16), "torch.int32": (0, 32)}[str(t.dtype)]
        made = DLTensor(t.data_ptr(), 2, 0, t.dim(), code, bits, 1, (ctypes.c_int64 * t.dim())(*t.shape),
                        (ctypes.c_int64 * t.dim())(*t.stride()), 0)
        self.kept.append(made)
        return ctypes.pointer(made)

    def prepare(self, shape, data):
        import torch
        self.kept = []
        self.out = torch.full_like(data.expected_like, float("nan"))
        p = Attention(size=ctypes.sizeof(Attention), left=-1, right=-1, causal=int(shape.causal))
        p.q, p.k, p.v, p.o = (self.tensor(t) for t in (data.q, data.k, data.v, self.out))
        if shape.lengths:
            p.query_offsets = p.key_offsets = self.tensor(data.offsets)
            p.queries = p.keys = max(shape.lengths)
        size = ctypes.c_size_t()
        self.check(self.library.ptxb_attention_workspace(self.device, ctypes.byref(p), ctypes.byref(size)))
        self.workspace = torch.empty(max(size.value, 1), dtype=torch.uint8, device="cuda")
        self.bytes = size.value
        self.p = p

    def launch(self):
        import torch
        self.check(self.library.ptxb_attention_run(self.device, ctypes.byref(self.p),
                                                   ctypes.c_void_p(self.workspace.data_ptr()), ctypes.c_size_t(self.bytes),
                                                   ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)))
        return self.out


# ---- The others ----


class Sdpa:
    """One of PyTorch's backends of scaled_dot_product_attention."""

    def __init__(self, name, backend):
        self.name, self.backend = name, backend

    def prepare(self, shape, data):
        if shape.lengths:
            raise Refused("takes no packed sequences through this function")
        self.q, self.k, self.v = (t.transpose(1, 2) for t in (data.q, data.k, data.v))
        self.options = {"is_causal": shape.causal}
        if shape.heads != shape.key_heads:
            self.options["enable_gqa"] = True

    def launch(self):
        import torch
        from torch.nn.attention import sdpa_kernel
        with sdpa_kernel([self.backend]):
            return torch.nn.functional.scaled_dot_product_attention(self.q, self.k, self.v, **self.options).transpose(1, 2)


class FlashAttention:
    """FlashAttention-3 or FlashAttention's CuTe kernels, by their Python functions."""

    def __init__(self, name, function, packed):
        self.name, self.function, self.packed = name, function, packed

    def prepare(self, shape, data):
        if shape.lengths:
            longest = max(shape.lengths)
            self.call = lambda: self.packed(data.q, data.k, data.v, cu_seqlens_q=data.offsets, cu_seqlens_k=data.offsets,
                                            max_seqlen_q=longest, max_seqlen_k=longest, causal=shape.causal)
        else:
            self.call = lambda: self.function(data.q, data.k, data.v, causal=shape.causal)

    def launch(self):
        out = self.call()
        return out[0] if isinstance(out, tuple) else out


class Triton:
    """A kernel of triton_attention.py, its blocks tuned for each shape."""

    name = "Triton"

    def __init__(self):
        import triton_attention
        self.module = triton_attention

    def prepare(self, shape, data):
        configurations = self.module.CONFIGURATIONS.get(shape.depth)
        if (shape.lengths or not configurations or shape.depth != shape.value_depth or shape.heads != shape.key_heads
                or shape.queries % 128):
            raise Refused("takes heads of 64, 128 and 256 columns, as many of keys, and whole blocks")
        timed = []
        for configuration in configurations:
            self.call = lambda c=configuration: self.module.call(data.q, data.k, data.v, shape.causal, c)
            timed.append((estimate(self.call), configuration))
        self.config = min(timed)[1]
        self.call = lambda: self.module.call(data.q, data.k, data.v, shape.causal, self.config)

    def launch(self):
        return self.call()


class Pallas:
    """JAX's attention_mgpu, its blocks tuned for each shape. Calls are queued: several in one executable would be merged."""

    name = "Pallas"
    FASTEST = {64: [(64, 256, True), (128, 128, True)], 128: [(64, 128, True)], 256: [(64, 64, True)]}  # on an H100

    def __init__(self, quick):
        self.quick = quick
        import jax
        from jax.experimental.pallas.ops.gpu import attention_mgpu
        import pallas_peer  # its events
        self.jax, self.module, self.events = jax, attention_mgpu, pallas_peer.Events()

    def prepare(self, shape, data):
        if shape.lengths or shape.depth % 64 or shape.depth != shape.value_depth:
            raise Refused("takes one length, and a multiple of 64 columns")
        # It does not scale the scores: Q comes scaled, which rounds it once more unless the factor is a power of two.
        scaled = (data.q.float() / math.sqrt(shape.depth)).to(data.q.dtype)
        self.arrays = [self.jax.dlpack.from_dlpack(t.contiguous()) for t in (scaled, data.k, data.v)]
        every = [(block_q, block_kv, barrier) for block_q in (64, 128) for block_kv in (256, 128, 64)
                 for barrier in (True, False)]
        configurations = [
            self.module.TuningConfig(block_q=block_q, block_kv=block_kv, max_concurrent_steps=2,
                                     use_schedule_barrier=barrier, causal=shape.causal)
            for block_q, block_kv, barrier in (self.FASTEST.get(shape.depth, every) if self.quick else every)
            if shape.queries % block_kv == 0]

        def compiled(config):
            try:
                call = self.jax.jit(lambda q, k, v: self.module.attention(q, k, v, config))
                return call.lower(*self.arrays).compile()
            except Exception as error:  # noqa: BLE001  too large a tile, which its own tuning passes over too
                return str(error).splitlines()[0][:120]

        best, why = None, "no configuration"
        with concurrent.futures.ThreadPoolExecutor() as threads:
            for config, made in zip(configurations, threads.map(compiled, configurations)):
                if isinstance(made, str):
                    why = made
                    continue
                took = min(self.burst_of(4, made) for _ in range(3))
                if best is None or took < best[0]:
                    best = (took, config, made)
        if best is None:
            raise Refused(why)
        self.each, self.config, self.compiled = best

    def launch(self):
        import torch
        out = self.compiled(*self.arrays)
        out.block_until_ready()
        return torch.from_dlpack(out)

    def burst_of(self, count, compiled=None):
        """Microseconds of a call, of so many, queued behind two that are not timed."""
        call = compiled or self.compiled
        for _ in range(2):
            result = call(*self.arrays)
        self.events.record(self.events.start, result)
        for _ in range(count):
            result = call(*self.arrays)
        self.events.record(self.events.end, result)
        return self.events.microseconds() / count


def contenders(library, with_jax, quick):
    import torch
    from torch.nn.attention import SDPBackend
    all_of_them, left_out = [Ours(library)], []
    all_of_them.append(Sdpa(f"cuDNN {torch.backends.cudnn.version()}", SDPBackend.CUDNN_ATTENTION))
    all_of_them.append(Sdpa("FlashAttention-2", SDPBackend.FLASH_ATTENTION))
    for name, module in (("FlashAttention-3", "flash_attn_interface"), ("FlashAttention CuTe", "flash_attn.cute")):
        try:
            imported = __import__(module, fromlist=["flash_attn_func"])
            all_of_them.append(FlashAttention(name, imported.flash_attn_func, imported.flash_attn_varlen_func))
        except Exception as error:  # noqa: BLE001
            left_out.append(f"{name}: {error}")
    try:
        all_of_them.append(Triton())
    except Exception as error:  # noqa: BLE001
        left_out.append(f"Triton: {error}")
    if with_jax:
        try:
            all_of_them.append(Pallas(quick))
        except Exception as error:  # noqa: BLE001
            left_out.append(f"Pallas: {error}")
    return all_of_them, left_out


# ---- Data, check, time ----


class Data:
    def __init__(self, shape, seed):
        import torch
        generator = torch.Generator("cuda").manual_seed(seed)
        dtype = torch.float16 if shape.dtype == "f16" else torch.bfloat16
        front = [sum(shape.lengths)] if shape.lengths else [shape.batch, shape.queries]

        def normal(heads, columns):
            return torch.randn(*front, heads, columns, generator=generator, device="cuda", dtype=torch.float32).to(dtype)

        self.q, self.k = normal(shape.heads, shape.depth), normal(shape.key_heads, shape.depth)
        self.v = normal(shape.key_heads, shape.value_depth)
        self.expected_like = torch.empty(*front, shape.heads, shape.value_depth, device="cuda", dtype=dtype)
        if shape.lengths:
            begins = [0]
            for n in shape.lengths:
                begins.append(begins[-1] + n)
            self.offsets = torch.tensor(begins, dtype=torch.int32, device="cuda")
        draw = random.Random(seed)
        self.rows = []  # where in the output, and what should be there in float64
        for _ in range(12):
            batch, head = draw.randrange(shape.batch), draw.randrange(shape.heads)
            length = shape.lengths[batch] if shape.lengths else shape.queries
            i = draw.randrange(length)
            shared = head // (shape.heads // shape.key_heads)
            if shape.lengths:
                first = begins[batch]
                at, keys, values = (first + i,), self.k[first:first + length, shared], self.v[first:first + length, shared]
            else:
                at, keys, values = (batch, i), self.k[batch, :, shared], self.v[batch, :, shared]
            end = i + 1 if shape.causal else length
            query = self.q[at][head].double()
            weights = torch.softmax(keys[:end].double() @ query / math.sqrt(shape.depth), 0)
            self.rows.append((at, head, weights @ values[:end].double()))
        self.unit = 2.0 ** (-11 if shape.dtype == "f16" else -8)

    def wrong(self, out):
        for at, head, expected in self.rows:
            error = (out[at][head].double() - expected).abs().max().item()
            if not error <= self.unit * (6 * expected.abs().max().item() + 2):
                return f"row {at}, head {head}: off by {error:.2g}"
        return ""


class Graph:
    """Launches recorded once, so that the host's part is not timed."""

    def __init__(self, launch, microseconds, wanted):
        import torch
        self.count = max(1, min(64, round(2000 / microseconds)))
        self.replays = max(1, round(wanted / (microseconds * self.count)))
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for _ in range(self.count):
                launch()
        self.start, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def burst(self, look=None):
        """Microseconds of a launch; `look` is called while they run."""
        self.start.record()
        for _ in range(self.replays):
            self.graph.replay()
        self.end.record()
        if look:
            look()
        self.end.synchronize()
        return 1e3 * self.start.elapsed_time(self.end) / (self.count * self.replays)


def estimate(launch):
    import torch
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(3):
        launch()
    start.record()
    for _ in range(3):
        launch()
    end.record()
    end.synchronize()
    return 1e3 * start.elapsed_time(end) / 3


class Nvml:
    """The clock of the SMs and the power that the card draws, while it works."""

    def __init__(self):
        import torch
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.device = ctypes.c_void_p()
        properties = torch.cuda.get_device_properties(0)
        bus = f"{properties.pci_domain_id:08x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"
        if self.nvml.nvmlInit_v2() or self.nvml.nvmlDeviceGetHandleByPciBusId_v2(bus.encode(), ctypes.byref(self.device)):
            raise OSError("NVML does not find the card")

    def clock_and_power(self):
        clock, power = ctypes.c_uint(), ctypes.c_uint()
        self.nvml.nvmlDeviceGetClockInfo(self.device, 1, ctypes.byref(clock))  # NVML_CLOCK_SM
        self.nvml.nvmlDeviceGetPowerUsage(self.device, ctypes.byref(power))    # mW, a mean of the last second on Hopper
        return clock.value, power.value / 1000


def interval_of_median(values, draw):
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(500))
    return medians[12], medians[487]


def measure(shape, everyone, options, seed, nvml):
    import torch
    data = Data(shape, seed)
    result = {"shape": shape.name(), "group": shape.group, "weight": shape.weight(), "flops": shape.flops(), "entries": []}
    ready = []
    for contender in everyone:
        entry = {"name": contender.name}
        result["entries"].append(entry)
        try:
            contender.prepare(shape, data)
            problem = data.wrong(contender.launch())
            if problem:
                entry["wrong"] = problem
                continue
            wanted = options.burst_ms * 1e3
            if isinstance(contender, Pallas):
                count = max(1, round(wanted / contender.each))
                burst = lambda c=contender, n=count: c.burst_of(n)  # noqa: E731
                entry["configuration"] = str(contender.config)
            else:
                graph = Graph(contender.launch, estimate(contender.launch), wanted)
                look = (lambda e=entry: e.setdefault("mhz_w", []).append(nvml.clock_and_power())) if nvml else None
                burst = lambda g=graph, l=look: g.burst(l)  # noqa: E731
            burst()
            ready.append((entry, burst))
            entry["us"] = []
        except Exception as error:  # noqa: BLE001
            entry["left_out"] = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    draw = random.Random(seed)
    end = time.monotonic() + options.warm_up
    while time.monotonic() < end and ready:
        ready[0][1]()
    for entry, _ in ready:
        entry.pop("mhz_w", None)
    for _ in range(options.rounds):
        for entry, burst in draw.sample(ready, len(ready)):
            entry["us"].append(burst())
    ours = next((e for e in result["entries"] if e["name"] == "ptxbuilder" and e.get("us")), None)
    for entry in result["entries"]:
        if not entry.get("us"):
            continue
        entry["median_us"] = statistics.median(entry["us"])
        entry["tflops"] = shape.flops() / entry["median_us"] * 1e-6
        if ours and entry is not ours:
            ratios = [theirs / mine for theirs, mine in zip(entry["us"], ours["us"])]
            entry["ours_over_it"] = statistics.median(ratios)
            entry["interval"] = interval_of_median(ratios, draw)
    peers = [e for e in result["entries"] if "ours_over_it" in e]
    if ours and ours.get("mhz_w"):
        result["clock_mhz"], result["power_w"] = (statistics.median(column) for column in zip(*ours["mhz_w"]))
    if peers:
        best = min(peers, key=lambda e: e["median_us"])
        result["best_peer"], result["ratio"] = best["name"], best["ours_over_it"]
    torch.cuda.synchronize()
    return result


# ---- What is told ----


def line(result):
    cells = []
    for e in result["entries"]:
        cells.append(f"{e['name']} " + (f"{e['tflops']:.0f}" if "tflops" in e else f"({e.get('wrong') or e.get('left_out')})"))
    ratio = f"; {result['ratio']:.3f} of {result['best_peer']}" if "ratio" in result else ""
    clock = f"; {result['clock_mhz']:.0f} MHz, {result['power_w']:.0f} W" if result.get("clock_mhz") else ""
    return f"{result['shape']}: TFLOP/s " + ", ".join(cells) + ratio + clock


def mean(results):
    pairs = [(r["weight"], r["ratio"]) for r in results if r.get("ratio") and r["weight"]]
    total = sum(w for w, _ in pairs)
    return math.exp(sum(w * math.log(r) for w, r in pairs) / total) if total else None


def markdown(results, about, names):
    text = f"{about}\n\n| | " + " | ".join(names) + " | over the best peer | 95 % | MHz | W |\n|---" + "|---" * (len(names) + 4) + "|\n"
    for r in results:
        by_name = {e["name"]: e for e in r["entries"]}
        cells = [f"{by_name[n]['tflops']:.0f}" if n in by_name and "tflops" in by_name[n] else "" for n in names]
        best = by_name.get(r.get("best_peer"), {})
        low_high = "{:.3f} to {:.3f}".format(*best["interval"]) if "interval" in best else ""
        text += (f"| {r['shape']} | " + " | ".join(cells) + f" | {r.get('ratio', float('nan')):.3f} | {low_high} | "
                 f"{r.get('clock_mhz') or 0:.0f} | {r.get('power_w') or 0:.0f} |\n")
    total = mean(results)
    return text + (f"\nWeighted geometric mean of ours over the best peer: {total:.3f}\n" if total else "")


def svg(results, names):
    """TFLOP/s over the length, a panel for each width and mask."""
    panels = {}
    for r in results:
        if r["group"] == "grid":
            panels.setdefault(r["shape"].split(", S ")[0], []).append(r)
    colours = ["#1b6ac9", "#76b900", "#999999", "#d1495b", "#edae49", "#8d5a97"]
    width, height, pad = 300, 200, 40
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{(width + pad) * max(len(panels), 1) + pad}" '
           f'height="{height + 3 * pad}" font-family="sans-serif" font-size="11">']
    for index, (title, of_panel) in enumerate(panels.items()):
        left, top, most = pad + index * (width + pad), pad, 850
        out.append(f'<text x="{left}" y="{top - 10}" font-weight="bold">{title}, TFLOP/s</text>')
        for level in range(0, most, 200):
            y = top + height * (1 - level / most)
            out.append(f'<line x1="{left}" x2="{left + width}" y1="{y}" y2="{y}" stroke="#ddd"/>'
                       f'<text x="{left - 4}" y="{y + 4}" text-anchor="end">{level}</text>')
        step = width / max(len(of_panel) - 1, 1)
        for i, r in enumerate(of_panel):
            out.append(f'<text x="{left + i * step}" y="{top + height + 14}" text-anchor="middle">'
                       f'{r["shape"].split(", S ")[1].split(",")[0]}</text>')
        for name, colour in zip(names, colours):
            points = []
            for i, r in enumerate(of_panel):
                entry = next((e for e in r["entries"] if e["name"] == name and "tflops" in e), None)
                if entry:
                    points.append(f"{left + i * step:.1f},{top + height * (1 - entry['tflops'] / most):.1f}")
            out.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>')
    for index, (name, colour) in enumerate(zip(names, colours)):
        x = pad + index * 160
        out.append(f'<rect x="{x}" y="{height + 2 * pad}" width="12" height="12" fill="{colour}"/>'
                   f'<text x="{x + 16}" y="{height + 2 * pad + 10}">{name}</text>')
    return "\n".join(out) + "</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=("grid", "extra"), action="append")
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="shapes whose line has this in it")
    parser.add_argument("--quick", action="store_true", help="7 rounds of 5 ms, and of Pallas' blocks those known to be the fastest")
    parser.add_argument("--rounds", type=int, help="30 unless given")
    parser.add_argument("--burst-ms", type=float, help="20 unless given")
    parser.add_argument("--warm-up", type=float, default=1, help="seconds for each shape")
    parser.add_argument("--time-limit", type=float, default=1e9, help="seconds, after which no other shape is begun")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--library", help="libptxbuilder.so; that of build/static or build/release unless given")
    parser.add_argument("--no-jax", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    parser.add_argument("--svg")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.burst_ms, options.warm_up = options.rounds or 7, options.burst_ms or 5, 0.2
    options.rounds, options.burst_ms = options.rounds or 30, options.burst_ms or 20
    library = options.library or next(
        (path for preset in ("static", "release")
         if os.path.exists(path := f"{TOP}/build/{preset}/kernels/libptxbuilder.so")), None)
    if not library:
        sys.exit("attention_bench: there is no libptxbuilder.so; build the preset release, or say --library FILE")
    try:
        import torch
        if not torch.cuda.is_available():
            sys.exit("attention_bench: PyTorch finds no GPU")
    except ImportError as error:
        sys.exit(f"attention_bench: it needs PyTorch: {error}")
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    everyone, left_out = contenders(library, not options.no_jax, options.quick)
    try:
        nvml = Nvml()
    except Exception as error:  # noqa: BLE001
        nvml = None
        left_out.append(f"clock and power: {error}")
    for words in left_out:
        print("left out:", words)
    chosen = [s for name in options.set or ["grid"] for s in shapes(name, options.seed)
              if not options.only or any(word in s.name() for word in options.only)]
    about = f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, seed {options.seed}"
    print(about, flush=True)
    results, end = [], time.monotonic() + options.time_limit
    names = [c.name for c in everyone]

    def write():
        if options.json:
            with open(options.json, "w") as file:
                json.dump({"about": about, "mean": mean(results), "results": results}, file, indent=1)
        if options.markdown:
            with open(options.markdown, "w") as file:
                file.write(markdown(results, about, names))
        if options.svg:
            with open(options.svg, "w") as file:
                file.write(svg(results, names))

    for shape in chosen:
        if time.monotonic() > end:
            print(f"time limit: {len(chosen) - len(results)} shapes are left")
            break
        results.append(measure(shape, everyone, options, options.seed + len(results), nvml))
        print(line(results[-1]), flush=True)
        write()
        torch.cuda.empty_cache()
    total = mean(results)
    if total:
        print(f"weighted geometric mean of ours over the best peer: {total:.3f}")
    wrong = [e for r in results for e in r["entries"] if e["name"] == "ptxbuilder" and "us" not in e]
    return 1 if wrong or not results else 0


if __name__ == "__main__":
    sys.exit(main())

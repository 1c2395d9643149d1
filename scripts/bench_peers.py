#!/usr/bin/env python3
"""Times torch.matmul and JAX's Pallas hopper_matmul, each in fresh processes whose order alternates.

They cannot share a process with gemm_bench, so their times are beside its times, not paired with them: the card's clock
drifts from process to process. Data, rotation of buffers and burst length are those of gemm_bench.
"""
import argparse
import importlib.util
import inspect
import json
import statistics
import subprocess
import sys
import time

PEERS = {"torch": "torch", "pallas": "jax"}  # and the module each needs
SHAPES = ["1024x1024x1024", "2048x2048x2048", "4096x4096x4096", "8192x8192x8192", "16384x16384x16384"]
ROTATED_BYTES = 150e6  # three times the L2 of an H100


def set_count(m, n, k):
    return max(2, min(64, int(-(-ROTATED_BYTES // (2 * (m * k + n * k + m * n))))))


def launches_for(seconds, each, sets):
    return max(5, sets, round(seconds / each))


def time_torch(m, n, k, args):
    """Microseconds per launch of bursts between two events; launches are replayed as one CUDA graph."""
    import torch

    dtype = getattr(torch, args.dtype)
    torch.manual_seed(args.seed)
    sets = []
    for _ in range(set_count(m, n, k)):
        a = torch.randn(m, k, device="cuda", dtype=torch.float32).to(dtype)
        b = torch.randn(*((n, k) if args.layout == "TN" else (k, n)), device="cuda", dtype=torch.float32).to(dtype)
        sets.append((a, b.T if args.layout == "TN" else b, torch.empty(m, n, device="cuda", dtype=dtype)))

    def launch(count):
        for i in range(count):
            a, b, d = sets[i % len(sets)]
            torch.matmul(a, b, out=d)

    def measured(queue, count):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        queue()
        end.record()
        end.synchronize()
        return 1e3 * start.elapsed_time(end) / count

    launch(len(sets))
    torch.cuda.synchronize()
    each = 1e-6 * measured(lambda: launch(len(sets)), len(sets))
    count = launches_for(1e-3 * args.burst_ms, each, len(sets))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch(count)
    end = time.monotonic() + args.warm_up
    while time.monotonic() < end:
        graph.replay()
        torch.cuda.synchronize()
    times = [measured(graph.replay, count) for _ in range(args.rounds)]
    return times, f"torch {torch.__version__}, cuBLAS by torch.matmul", "events around a CUDA graph"


def pallas_configurations(module, m, n, k):
    """The tiles that hopper_matmul's own tuning tries and that divide the problem."""
    dimension = module.MatmulDimension
    for tile_m in (128, 256):
        for tile_n in (64, 128):
            for minor in (dimension.M, dimension.N):
                for width in (4, 8, 16):
                    for warpgroups in dimension:
                        rows = tile_m * (2 if warpgroups == dimension.M else 1)
                        columns = tile_n * (2 if warpgroups == dimension.N else 1)
                        if m % rows == 0 and n % columns == 0 and k % 64 == 0:
                            yield module.TuningConfig(tile_m=tile_m, tile_n=tile_n, tile_k=64, max_concurrent_steps=4,
                                                      grid_minor_dim=minor, grid_tile_width=width,
                                                      wg_dimension=warpgroups)


def time_pallas(m, n, k, args):
    """hopper_matmul of row-major A[m,k] and B[k,n]: its configurations tried once, the best timed."""
    import jax
    import jax.numpy as jnp
    from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu as module

    dtype = jnp.dtype(args.dtype)
    keys = iter(jax.random.split(jax.random.key(args.seed), 2 * set_count(m, n, k)))
    sets = [(jax.random.normal(next(keys), (m, k), jnp.float32).astype(dtype),
             jax.random.normal(next(keys), (k, n), jnp.float32).astype(dtype)) for _ in range(set_count(m, n, k))]
    takes_c = "c" in inspect.signature(module.matmul).parameters

    def compiled(config):
        call = (lambda a, b: module.matmul(a, b, None, config)) if takes_c else (
            lambda a, b: module.matmul(a, b, config))
        return jax.jit(call).lower(*sets[0]).compile()

    def burst(f, count):
        """Launches are queued by the host ahead of the GPU: it waits once, at the end."""
        start = time.perf_counter()
        for i in range(count):
            result = f(*sets[i % len(sets)])
        result.block_until_ready()
        return 1e6 * (time.perf_counter() - start) / count

    best = None
    for config in pallas_configurations(module, m, n, k):
        try:
            f = compiled(config)
        except ValueError as error:
            if "shared memory" in str(error):
                continue
            raise
        burst(f, 2)
        each = burst(f, launches_for(5e-3, 1e-6 * burst(f, 2), 2))
        if best is None or each < best[0]:
            best = (each, f, config)
    if best is None:
        raise ValueError("no configuration of hopper_matmul divides the problem")
    each, f, config = best
    count = launches_for(1e-3 * args.burst_ms, 1e-6 * each, len(sets))
    end = time.monotonic() + args.warm_up
    while time.monotonic() < end:
        burst(f, count)
    times = [burst(f, count) for _ in range(args.rounds)]
    note = "host clock around queued launches"
    if each < 100:
        note += "; short kernels: the host's launches show"
    chosen = f"{config.tile_m}x{config.tile_n}x{config.tile_k}, width {config.grid_tile_width}, layout NN"
    return times, f"JAX {jax.__version__}, {chosen}", note


def child(args):
    m, n, k = (int(x) for x in args.shape[0].split("x"))
    times, configuration, note = {"torch": time_torch, "pallas": time_pallas}[args.child](m, n, k, args)
    print(json.dumps({"times_us": times, "configuration": configuration, "timed_by": note}))


def run_child(peer, shape, args):
    words = [sys.executable, __file__, "--child", peer, "--shape", shape]
    for option in ("dtype", "layout", "seed", "rounds", "burst_ms", "warm_up"):
        words += ["--" + option.replace("_", "-"), str(getattr(args, option))]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=args.timeout)
    except subprocess.TimeoutExpired:
        return {"left_out": f"not done after {args.timeout} s"}
    if done.returncode != 0:
        return {"left_out": (done.stderr.strip().splitlines() or ["it failed without a word"])[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def table(results):
    lines = ["| shape | peer | us | TFLOP/s | timed by | configuration |", "|---|---|---|---|---|---|"]
    for r in results:
        if r["times_us"]:
            m, n, k = (int(x) for x in r["shape"].split("x"))
            us = statistics.median(r["times_us"])
            cells = [f"{us:.2f}", f"{2e-6 * m * n * k / us:.1f}", r["timed_by"], r["configuration"]]
        else:
            cells = ["-", "-", "left out", r["left_out"].replace("|", "\\|")]
        lines.append("| " + " | ".join([r["shape"], r["peer"], *cells]) + " |")
    return "\n".join(lines) + "\n"


def write(results, args):
    head = "Each peer in processes of its own, in alternate order: beside gemm_bench's times, not paired with them.\n\n"
    for path, text in ((args.json, json.dumps(results, indent=1) + "\n"), (args.markdown, head + table(results))):
        if path:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default="torch,pallas", help="by comma: torch, pallas")
    parser.add_argument("--shape", action="append", help="MxNxK; may be given again (the squares)")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16"])
    parser.add_argument("--layout", default="TN", choices=["TN", "NN"], help="of torch; Pallas takes NN alone")
    parser.add_argument("--rounds", type=int, default=15, help="bursts of a process")
    parser.add_argument("--burst-ms", type=float, default=20)
    parser.add_argument("--warm-up", type=float, default=2, help="seconds, in each process")
    parser.add_argument("--passes", type=int, default=2, help="processes of each peer for each shape")
    parser.add_argument("--timeout", type=float, default=300, help="seconds, of one process")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    parser.add_argument("--child", choices=list(PEERS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child(args)
    peers = []
    for peer in args.peers.split(","):
        if peer not in PEERS:
            parser.error(f"--peers: '{peer}' is not one of {', '.join(PEERS)}")
        if importlib.util.find_spec(PEERS[peer]):
            peers.append(peer)
        else:
            print(f"left out: {peer}, since Python has no module {PEERS[peer]}", file=sys.stderr)
    if not peers:
        sys.exit("error: none of the peers is installed: pip install torch, or jax[cuda13]")
    results = []
    for shape in args.shape or SHAPES:
        rows = {peer: {"shape": shape, "peer": peer, "times_us": []} for peer in peers}
        for i in range(args.passes):
            for peer in peers if i % 2 == 0 else reversed(peers):
                done = run_child(peer, shape, args)
                rows[peer]["times_us"] += done.pop("times_us", [])
                rows[peer].update(done)
        results += rows.values()
        print(table(list(rows.values())).split("\n", 2)[2], end="", flush=True)
        write(results, args)
    if not any(r["times_us"] for r in results):
        sys.exit(1)


if __name__ == "__main__":
    main()

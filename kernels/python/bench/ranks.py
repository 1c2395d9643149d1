"""Compares multi-GPU calls with NCCL and PyTorch's kernels on the GPUs of this host, with a process for each GPU.

  ranks.py [--ranks 2] [--quick]

The calls are products of layers of models and ten random products, in bf16; all-reduces with a residual and a norm; exchanges that send
tokens to the ranks of their experts and back, as single calls and in graphs of twenty; and a step of the block in
examples/tensor_parallel_torch.py. Times are medians of nine rounds of twenty calls, on the slowest rank. The progress is printed to stderr.
"""
import argparse
import math
import os
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch.nn import functional

parser = argparse.ArgumentParser()
parser.add_argument("--ranks", type=int, default=2)
parser.add_argument("--quick", action="store_true", help="without the drawn products")
given = parser.parse_args()
RANKS, BEGIN = given.ranks, time.monotonic()
SHAPES = [(4096, 8192, 8192), (8192, 8192, 8192), (16384, 4096, 4096), (2048, 14336, 4096)]
# The rows, columns and depth of these products can be divided among up to eight ranks.
DRAWN = [(5632, 4608, 2688), (4096, 5696, 1408), (13952, 2240, 6016), (8576, 6016, 6016), (15872, 4224, 6656), (1984, 3136, 6272),
         (9344, 2688, 4352), (9344, 6016, 7552), (832, 1792, 8704), (9856, 3456, 2304)]


def drawn(*shape):
    return (torch.rand(*shape, device="cuda") * 2 - 1).bfloat16()


def time_of(call, calls=20):
    """Returns the microseconds of one call; call() makes `calls` calls."""
    for _ in range(10):
        call()
    torch.cuda.synchronize()
    dist.barrier()
    rounds = []
    for _ in range(9):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(20):
            call()
        end.record()
        torch.cuda.synchronize()
        rounds.append(begin.elapsed_time(end) * 1e3 / calls)
    slowest = torch.tensor(sorted(rounds)[4]).cuda()
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return slowest.item()


def time_in_graph(call):
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        call()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(20):
                call()
    return time_of(graph.replay, 400)


def times_of_products(pb, m, n, k):
    """Returns three times for each form, in microseconds. They are the times of the product without communication, of the product with
    NCCL, and of our operation."""
    a, b, gathered = drawn(m // RANKS, k), drawn(n // RANKS, k), drawn(m, k)
    d = a.new_empty(m, n // RANKS)
    gather = [time_of(lambda: torch.mm(gathered, b.t(), out=d)),
              time_of(lambda: (dist.all_gather_into_tensor(gathered, a), torch.mm(gathered, b.t(), out=d))),
              time_of(lambda: pb.all_gather_matmul(a, b.t()))]
    a, b = drawn(m, k // RANKS), drawn(n, k // RANKS)
    part, d = a.new_empty(m, n), a.new_empty(m // RANKS, n)
    alone = time_of(lambda: torch.mm(a, b.t(), out=part))
    scatter = [alone, time_of(lambda: (torch.mm(a, b.t(), out=part), dist.reduce_scatter_tensor(d, part))),
               time_of(lambda: pb.matmul_reduce_scatter(a, b.t()))]
    reduce = [alone, time_of(lambda: (torch.mm(a, b.t(), out=part), dist.all_reduce(part))),
              time_of(lambda: pb.matmul_all_reduce(a, b.t()))]
    return gather, scatter, reduce


def say(rank, words):
    if rank == 0:
        print(f"[{time.monotonic() - BEGIN:4.0f} s] {words}", file=sys.stderr, flush=True)


def show(rank, name, alone, nccl, ours):
    if rank == 0:
        print(f"| {name} | {format(alone, '.1f') if alone else ''} | {nccl:.1f} | {ours:.1f} | {nccl / ours:.2f} |", flush=True)
    return nccl / ours


def show_products(pb, rank):
    forms = "all-gather", "reduce-scatter", "all-reduce"
    gains = [], [], []
    shapes = SHAPES + ([] if given.quick else DRAWN)
    for i, shape in enumerate(shapes):
        say(rank, f"products, {i + 1} of {len(shapes)}")
        for name, found, gain in zip(forms, times_of_products(pb, *shape), gains):
            gain.append(show(rank, f"{name} {' x '.join(map(str, shape))}", *found))
    lines = []
    for name, gain in zip(forms, gains):
        of_drawn = gain[len(SHAPES):] or gain
        mean = math.exp(sum(map(math.log, of_drawn)) / len(of_drawn))
        lines.append(f"{name}: {mean:.3f} of NCCL's in the mean over {len(of_drawn)}, the least of all {min(gain):.3f}")
    return lines


def show_norms(pb, rank, columns=4096):
    weight = torch.ones(columns, device="cuda", dtype=torch.bfloat16)
    for rows in (1, 8, 32, 128):
        say(rank, f"norm of {rows} rows")
        x, residual = drawn(rows, columns), drawn(rows, columns)

        def by_nccl():
            total = x.clone()  # all_reduce() overwrites its input
            dist.all_reduce(total)
            total += residual
            return functional.rms_norm(total, (columns,), weight, 1e-6), total

        def ours():
            return pb.all_reduce_rms_norm(x, residual, weight)

        name = f"norm of {rows} x {columns} ({rows * columns * 2 // 1024} KB)"
        show(rank, name, None, time_of(by_nccl), time_of(ours))
        show(rank, name + ", in a graph", None, time_in_graph(by_nccl), time_in_graph(ours))


def show_tokens(pb, rank, columns=4096, experts=32):
    """Prints the times of token exchanges. With NCCL, a call first sends the host the number of rows that each rank sends to each other
    rank. It then sends the rows. Finally it sorts the received rows, which are in the order of ranks, by expert."""
    for count in (64, 1024, 8192, 32768):
        say(rank, f"tokens, {count} rows")
        x = drawn(count, columns)
        chosen = torch.randint(0, RANKS * experts, (count,), device="cuda").sort().values
        counts = torch.bincount(chosen, minlength=RANKS * experts)
        ends = counts.cumsum(0).int()

        def by_nccl(sent=None, came=None):
            of_experts = torch.empty_like(counts)
            dist.all_to_all_single(of_experts, counts)
            if sent is None:
                sent, came = torch.stack([each.view(RANKS, experts).sum(1) for each in (counts, of_experts)]).tolist()
            rows = x.new_empty(sum(came), columns)
            dist.all_to_all_single(rows, x, came, sent)
            expert_of = torch.arange(experts, device="cuda").repeat(RANKS).repeat_interleave(of_experts, output_size=sum(came))
            order = expert_of.argsort(stable=True)
            grouped = rows[order]  # the products of the experts would use these rows
            rows.index_copy_(0, order, grouped)
            back = torch.empty_like(x)
            dist.all_to_all_single(back, rows, sent, came)
            return back

        def ours():
            rows, _, splits = pb.all_to_all_dispatch(x, ends, most_rows=count)
            return pb.all_to_all_combine(rows, ends, splits, count)

        for call in (by_nccl, ours):
            if not torch.equal(call(), x):
                sys.exit(f"ranks.py: {call.__name__}() did not return the rows")
        known = [each.view(RANKS, experts).sum(1).tolist() for each in (counts, came_of(counts))]
        name = f"tokens: {count} rows of {columns * 2 // 1024} KB, {experts} experts a rank"
        show(rank, name, None, time_of(by_nccl), time_of(ours))
        show(rank, name + ", in a graph, with NCCL's numbers known", None, time_in_graph(lambda: by_nccl(*known)), time_in_graph(ours))


def came_of(counts):
    """Returns the number of rows that each of this rank's experts receives from each rank."""
    came = torch.empty_like(counts)
    dist.all_to_all_single(came, counts)
    return came


def run(rank, place):
    import ptxbuilder as pb

    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"file://{place}", rank=rank, world_size=RANKS, device_id=torch.device("cuda", rank))
    torch.manual_seed(rank)
    if rank == 0:
        print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}\n")
        print(f"| {RANKS} ranks | product alone, us | with NCCL | ours | gain |\n|---|---|---|---|---|", flush=True)
    lines = show_products(pb, rank)
    show_norms(pb, rank)
    show_tokens(pb, rank)
    if rank == 0:
        print("", *lines, sep="\n", flush=True)
    torch.cuda.synchronize()
    dist.barrier()
    os._exit(0)  # skips destructors, because peers use this process's memory until it ends


if __name__ == "__main__":
    if torch.cuda.device_count() < RANKS:
        sys.exit(f"ranks.py: --ranks {RANKS} needs {RANKS} GPUs, but PyTorch finds {torch.cuda.device_count()}")
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(run, (os.path.join(folder, "group"),), nprocs=RANKS)
    block = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../examples/tensor_parallel_torch.py")
    sys.exit(subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS), "--master-port", "0",
                             "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", block, "--times"]).returncode)

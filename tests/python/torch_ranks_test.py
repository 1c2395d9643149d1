"""Products of the ranks of a process group, on the GPUs of this host, a process for each: torch_ranks_test.py [--times]

They are right by float64 for drawn shapes, in graphs and under torch.compile. --times puts them beside NCCL and torch.mm, one after the other.
"""
import math
import os
import random
import sys
import tempfile

import kit

kit.use("torch", "numpy")
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as processes  # noqa: E402

RANKS = 2
SHAPES = [(4096, 8192, 8192), (8192, 8192, 8192), (16384, 4096, 4096), (2048, 14336, 4096)]
DRAWN = [(5600, 4608, 2688), (4064, 5696, 1408), (13920, 2240, 6016), (8576, 6016, 6016), (15888, 4224, 6656), (1968, 3136, 6272),
         (9360, 2688, 4352), (9344, 6016, 7552), (832, 1792, 8704), (9888, 3456, 2304)]


def drawn(*shape):
    return (torch.rand(*shape, device="cuda") * 2 - 1).bfloat16()


def worst(got, wanted, room):
    """The greatest error, as parts of what rounding may do."""
    return ((got.double() - wanted).abs() / room).max().item()


def check_shape(pb, rank, rows, n, k):
    a, b = drawn(rows, k), drawn(n, k)
    gathered = a.new_empty(RANKS * rows, k)
    dist.all_gather_into_tensor(gathered, a)
    wanted = gathered.double() @ b.double().t()
    error = worst(pb.all_gather_matmul(a, b.t()), wanted, wanted.abs() / 256 + 1e-5 * k)
    kit.check(error <= 1, "all_gather_matmul", rows, n, k, error)
    a = drawn(RANKS * rows, k)
    part = a.double() @ b.double().t()
    wanted = part.clone()
    dist.all_reduce(wanted)
    own = slice(rank * rows, (rank + 1) * rows)
    room = torch.maximum(part.abs(), (wanted - part).abs()) / 256 + wanted.abs() / 256 + 2e-5 * k
    error = worst(pb.matmul_reduce_scatter(a, b.t()), wanted[own], room[own])
    kit.check(error <= 1, "matmul_reduce_scatter", rows, n, k, error)


def check_graph(pb):
    a, b = drawn(700, 512), drawn(1000, 512)
    first = pb.all_gather_matmul(a, b.t())
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        pb.all_gather_matmul(a, b.t())  # makes the stream's exchange memory
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            recorded = pb.all_gather_matmul(a, b.t())
    for _ in range(300):
        graph.replay()
    torch.cuda.synchronize()
    kit.check(torch.equal(recorded, first), "a graph's replays")
    twice = torch.compile(lambda a, b: pb.all_gather_matmul(a, b.t()) * 2, fullgraph=True)
    kit.check(torch.equal(twice(a, b), first * 2), "torch.compile")


def time_of(call):
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
        rounds.append(begin.elapsed_time(end) * 50)
    slowest = torch.tensor(sorted(rounds)[4]).cuda()
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return slowest.item()


def times_of_shape(pb, m, n, k):
    """Microseconds of the product alone, behind or ahead of NCCL, and of ours, for both forms."""
    a, b, gathered = drawn(m // RANKS, k), drawn(n // RANKS, k), drawn(m, k)
    d = a.new_empty(m, n // RANKS)
    gather = [time_of(lambda: torch.mm(gathered, b.t(), out=d)),
              time_of(lambda: (dist.all_gather_into_tensor(gathered, a), torch.mm(gathered, b.t(), out=d))),
              time_of(lambda: pb.all_gather_matmul(a, b.t()))]
    a, b = drawn(m, k // RANKS), drawn(n, k // RANKS)
    part, d = a.new_empty(m, n), a.new_empty(m // RANKS, n)
    return gather, [time_of(lambda: torch.mm(a, b.t(), out=part)),
                    time_of(lambda: (torch.mm(a, b.t(), out=part), dist.reduce_scatter_tensor(d, part))),
                    time_of(lambda: pb.matmul_reduce_scatter(a, b.t()))]


def show_times(pb, rank):
    gains = [], []
    for m, n, k in SHAPES + DRAWN:
        found = times_of_shape(pb, m, n, k)
        if rank:
            continue
        for name, (alone, nccl, ours), gain in zip(("gather", "scatter"), found, gains):
            gain.append(nccl / ours)
            print(f"{name} {m} x {n} x {k}: product {alone:.1f} us, NCCL {nccl:.1f}, ours {ours:.1f}: {nccl / ours:.2f}", flush=True)
    for gain in gains if rank == 0 else ():
        of_drawn = gain[len(SHAPES):]
        print(f"over the drawn {math.exp(sum(map(math.log, of_drawn)) / len(of_drawn)):.3f}, the least {min(gain):.3f}")


def run(rank, place):
    import ptxbuilder as pb

    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"file://{place}", rank=rank, world_size=RANKS, device_id=torch.device("cuda", rank))
    torch.manual_seed(rank)
    draw = random.Random(9)
    for _ in range(20):
        check_shape(pb, rank, draw.randint(1, 2500), 8 * draw.randint(1, 400), 8 * draw.randint(1, 300))
    check_graph(pb)
    if "--times" in sys.argv:
        show_times(pb, rank)
    torch.cuda.synchronize()
    dist.barrier()
    os._exit(1 if kit.failures else 0)  # peers' memory is in use to the end of the process


def check_gradients(rank, place):
    """Of the two products, whose forward passes are done by gloo and torch.mm here, against autograd of the whole in one process."""
    from ptxbuilder._torch import ranks

    dist.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=RANKS)
    name = dist.group.WORLD.group_name

    def gather(a):
        parts = [torch.empty_like(a) for _ in range(RANKS)]
        dist.all_gather(parts, a.contiguous())
        return torch.cat(parts)

    @ranks.gather_operation.register_kernel("cpu")
    def _(a, b, scale, out_dtype, keeps, group_name):
        gathered = gather(a)
        return gathered @ b * scale, gathered if keeps else a.new_empty(0, a.shape[1])

    @ranks.scatter_operation.register_kernel("cpu")
    def _(a, b, scale, out_dtype, group_name):
        part = a @ b * scale
        dist.all_reduce(part)
        return part.chunk(RANKS)[rank].clone()

    def turned_product(a, b, transpose_a, alpha):
        return a.t() @ b * alpha

    ranks.matmul = turned_product
    rows, n, k = 6, 5, 7
    torch.manual_seed(4)  # the same on all ranks, of which each takes its part
    xs, ws, scales = torch.randn(RANKS, rows, k).double(), torch.randn(RANKS, n, k).double(), [torch.tensor([r + 0.5]) for r in range(RANKS)]
    hs, weights = torch.randn(RANKS, RANKS * rows, k).double(), torch.randn(RANKS, RANKS * rows, n).double()

    def of_gather(x, w):
        return ranks.gather_operation(x, w.t(), scales[rank], None, w.requires_grad, name)[0]

    def of_scatter(h, w):
        return ranks.scatter_operation(h, w.t(), scales[rank], None, name)

    for x in (xs, ws, hs):
        x.requires_grad_()
    whole = sum((xs.reshape(-1, k) @ w.t() * s * weight).sum() for w, s, weight in zip(ws, scales, weights))
    sums = sum(h @ w.t() * s for h, w, s in zip(hs, ws, scales)).chunk(RANKS)
    whole_of_sums = sum((d * weight[:rows]).sum() for d, weight in zip(sums, weights))
    for function, left, total, weight in ((of_gather, xs, whole, weights[rank]), (of_scatter, hs, whole_of_sums, weights[rank][:rows])):
        wanted = [x[rank] for x in torch.autograd.grad(total, (left, ws))]
        for way in (function, torch.compile(function, backend="aot_eager", fullgraph=True)):
            for asks in ((True, True), (True, False), (False, True)):
                mine = [x.detach()[rank].clone().requires_grad_(one) for x, one in zip((left, ws), asks)]
                got = torch.autograd.grad((way(*mine) * weight).sum(), [x for x, one in zip(mine, asks) if one])
                for x, y in zip(got, [x for x, one in zip(wanted, asks) if one]):
                    kit.check(torch.allclose(x, y), "a gradient", function, asks, (x - y).abs().max())
    dist.barrier()
    os._exit(1 if kit.failures else 0)


def refusal(call, why):
    try:
        call()
        kit.check(False, "not refused:", why)
    except ValueError as error:
        kit.check(why in str(error), error)


def check_without_gpus():
    """Bytes, shapes and refusals are known without a GPU."""
    import ptxbuilder as pb
    from ptxbuilder import _ext
    from ptxbuilder._common import untouched
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.testing._internal.distributed.fake_pg import FakeStore

    def memory(a, b, d, ranks, scatters, types=("bfloat16", "bfloat16"), gathered=None):
        shapes = zip((a, b, d, gathered), (types[0], *types, types[0]))
        tensors = untouched(*(shape and (shape, name) for shape, name in shapes), None)
        return _ext.ranked_memory(tuple(tensors), ranks, scatters, _ext.EMULATOR)

    kit.check(memory((100, 64), (48, 64), (200, 48), 2, False) == 262144 + 2 * 200 * 64, "bytes of gathered rows")
    eight = "float8_e4m3fn"
    kit.check(memory((100, 64), (48, 64), (200, 48), 2, False, (eight, "float16")) == 262144 + 200 * 64, "bytes of rows of 8 bits")
    kit.check(memory((100, 64), (48, 64), (200, 48), 2, False, gathered=(200, 64)) == 262144 + 2 * 200 * 64, "bytes with all ranks' A")
    refusal(lambda: memory((100, 64), (48, 64), (200, 48), 2, False, (eight, eight)), "D: e4m3; A is e4m3")
    refusal(lambda: memory((100, 64), (48, 64), (200, 48), 2, False, gathered=(100, 64)), "gathered: 100 x 64; it has to be 200 x 64")
    kit.check(memory((200, 64), (48, 64), (100, 48), 2, True) == 262144 + 2 * 200 * 48, "bytes of sums")
    refusal(lambda: memory((100, 64), (48, 64), (100, 48), 2, False), "D: 100 x 48; it has to be 200 x 48")
    refusal(lambda: memory((101, 64), (48, 64), (50, 48), 2, True), "A: 101 rows, which 2 ranks do not divide evenly")
    refusal(lambda: memory((100, 64), (48, 32), (200, 48), 2, False), "B: 48 x 32; it has to be 48 x 64")
    refusal(lambda: memory((100, 64), (48, 64), (200, 48), 1, False), "ranks: 1; there are 2 at least")
    def norm_memory(x, residual, weight, ranks):
        return _ext.ranked_norm_memory(tuple(untouched(*(shape and (shape, "float16") for shape in (x, residual, weight, x, x)))), ranks,
                                       _ext.EMULATOR)

    kit.check(norm_memory((4, 100), (4, 100), (100,), 3) == 262144 + 2 * 2560, "bytes of a norm: two places of three ranks' rows")
    kit.check(norm_memory((4, 100), None, None, 2) == 262144 + 2 * 1792, "bytes of a norm without residual and weight")
    refusal(lambda: norm_memory((4, 100), (4, 100), None, 1), "ranks: 1; there are 2 at least")
    a, b = torch.zeros(8, 8), torch.zeros(16, 8)
    refusal(lambda: pb.all_gather_matmul(a, a), "no process group")
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    refusal(lambda: pb.all_gather_matmul(a, a), "A is on cpu")
    refusal(lambda: pb.matmul_reduce_scatter(a, b), "A is (8, 8), and B (16, 8)")
    refusal(lambda: pb.all_reduce_rms_norm(a, a), "x, residual and weight are on cpu, cpu: an all-reduce of ranks takes tensors on")
    refusal(lambda: pb.all_reduce_rms_norm(a, epsilon="1"), "epsilon")
    with FakeTensorMode():
        a, b = (torch.empty(*shape, device="cuda", dtype=torch.bfloat16) for shape in ((100, 64), (64, 48)))
        kit.check(pb.all_gather_matmul(a, b).shape == (200, 48), "a gathered shape")
        kit.check(pb.matmul_reduce_scatter(a, b).shape == (50, 48), "a scattered shape")
        refusal(lambda: pb.matmul_reduce_scatter(a[:99], b), "A has 99 rows, which 2 ranks do not divide evenly")
        y, total = pb.all_reduce_rms_norm(a, a, b[:, 0])
        kit.check(y.shape == total.shape == (100, 64) and total.dtype == torch.bfloat16, "the shapes of a norm")
        narrow = a.to(torch.float8_e4m3fn)
        kit.check(pb.all_gather_matmul(narrow, b.to(narrow.dtype), out_dtype=torch.float16).dtype == torch.float16, "the type of a result")
        kit.check(pb.matmul_reduce_scatter(narrow, b.to(narrow.dtype)).dtype == torch.bfloat16, "the type of a sum")
        refusal(lambda: pb.all_gather_matmul(a, b, scale=torch.ones(1, device="cuda", requires_grad=True)), "scale: it has no gradient")
        refusal(lambda: pb.all_reduce_rms_norm(a.requires_grad_()), "it has no gradient")
        for call, rows in ((pb.all_gather_matmul, 200), (pb.matmul_reduce_scatter, 50)):
            d = call(a, b.requires_grad_())
            kit.check(d.shape == (rows, 48) and d.requires_grad, "a product whose gradient is asked for", call)
    dist.destroy_process_group()


if __name__ == "__main__":
    check_without_gpus()
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(check_gradients, (os.path.join(folder, "group"),), nprocs=RANKS)
    if torch.cuda.device_count() < RANKS or torch.cuda.get_device_capability() != (9, 0):
        print("SKIPPED: PyTorch sees no two Hopper GPUs")
        sys.exit(1 if kit.failures else 77)
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(run, (os.path.join(folder, "group"),), nprocs=RANKS)
    sys.exit(1 if kit.failures else 0)

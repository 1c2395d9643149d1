"""Tests calls between the ranks of a process group, with a process for each GPU of this host: torch_ranks_test.py [--ranks 2]

Compares calls with float64 for random shapes and types: forward and backward, in graphs, in two streams, with one rank late, and under
torch.compile. kernels/python/bench/ranks.py compares them with NCCL.
"""
import argparse
import os
import random
import sys
import tempfile
import time

import kit

kit.use("torch", "numpy")
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as processes  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--ranks", type=int, default=2)
RANKS = parser.parse_args().ranks


def drawn(*shape, dtype=torch.bfloat16):
    return (torch.rand(*shape, device="cuda") * 2 - 1).to(dtype)


def gathered_of(x):
    """Returns the rows of all ranks."""
    parts = [torch.empty_like(x) for _ in range(RANKS)]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts)


def summed(x):
    x = x.clone()
    dist.all_reduce(x)
    return x


def check_near(got, wanted, room, *words):
    """Checks that no element deviates by more than its `room`, the bound of its rounding error."""
    error = ((got.double() - wanted).abs() / room).max().item()
    kit.check(error <= 1, *words, error)


def check_shape(pb, rank, rows, n, k, dtype):
    words, out_dtype = {}, dtype
    if dtype.itemsize == 1:
        out_dtype = random.choice((torch.bfloat16, torch.float16))
        words = {"out_dtype": out_dtype, "scale": torch.tensor([0.25], device="cuda")}
    scale, rounding = words.get("scale", 1), torch.finfo(out_dtype).eps
    lost = 2**-10 if dtype.itemsize == 1 else 2**-20  # share of the products' magnitudes that the tensor cores may lose in sums
    a, b = drawn(rows, k, dtype=dtype), drawn(n, k, dtype=dtype)

    def sizes_of(a):
        return a.double().abs() @ b.double().abs().t() * scale

    gathered = gathered_of(a.double())
    wanted = gathered @ b.double().t() * scale
    room = wanted.abs() * rounding + lost * sizes_of(gathered)
    check_near(pb.all_gather_matmul(a, b.t(), **words), wanted, room, "all_gather_matmul", rows, n, k, dtype)
    a = drawn(RANKS * rows, k, dtype=dtype)
    part = a.double() @ b.double().t() * scale
    wanted = summed(part)
    # Each rank rounds a part of the sum, by at most half of eps.
    room = summed(part.abs()) * rounding * RANKS / 2 + lost * summed(sizes_of(a))
    check_near(pb.matmul_reduce_scatter(a, b.t(), **words), wanted.chunk(RANKS)[rank], room.chunk(RANKS)[rank], "matmul_reduce_scatter",
               rows, n, k, dtype)
    # In these products, all ranks get all rows, and the number of rows need not be a multiple of the ranks.
    d = pb.matmul_all_reduce(a[1:], b.t(), **words)
    check_near(d, wanted[1:], room[1:], "matmul_all_reduce", rows, n, k, dtype)
    kit.check(all(torch.equal(one, d) for one in gathered_of(d).chunk(RANKS)), "the same sums on all ranks", rows, n, k, dtype)


def check_drawn(pb, rank):
    draw = random.Random(9)
    random.seed(3)
    for i in range(20):
        dtype = (torch.bfloat16, torch.float16, torch.float8_e4m3fn)[i % 3]
        check_shape(pb, rank, draw.randint(1, 2500), 8 * draw.randint(1, 400), 16 * draw.randint(1, 150), dtype)
        check_norm(pb, draw.randint(1, 300), draw.choice((4096, 8 * draw.randint(1, 1000), draw.randint(1, 5000), 65536)),
                   (torch.bfloat16, torch.float16, torch.float32)[i % 3])


def check_norm(pb, rows, columns, dtype):
    x = drawn(rows, columns, dtype=dtype)
    shared = torch.Generator(x.device).manual_seed(rows)  # all ranks draw the same numbers
    residual, weight = (torch.randn(shape, device="cuda", generator=shared).to(dtype) for shape in ((rows, columns), (columns,)))
    y, total = pb.all_reduce_rms_norm(x, residual, weight)
    wanted, rounding = summed(x.double()) + residual.double(), torch.finfo(dtype).eps
    check_near(total, wanted, wanted.abs() * rounding + 1e-6 * RANKS, "a sum", rows, columns, dtype)
    wanted = torch.nn.functional.rms_norm(total.double(), (columns,), weight.double(), 1e-6)
    check_near(y, wanted, wanted.abs() * (rounding + 4e-6) + 1e-7, "a norm", rows, columns, dtype)
    kit.check(all(torch.equal(one, y) for one in gathered_of(y).chunk(RANKS)), "the same bits on all ranks", rows, columns, dtype)


def check_gradients_on_gpus(pb, rank):
    rows, n, k = 264, 520, 392

    def check(got, wanted, what):
        kit.check((got.double() - wanted).norm() < 1e-2 * wanted.norm(), "gradient", what)

    for way in (lambda f: f, lambda f: torch.compile(f, fullgraph=True)):
        x, h, w = drawn(rows, k).requires_grad_(), drawn(RANKS * rows, k).requires_grad_(), drawn(n, k).requires_grad_()
        dy = drawn(RANKS * rows, n)
        dx, dw = torch.autograd.grad(way(lambda x, w: pb.all_gather_matmul(x, w.t()))(x, w), (x, w), dy)
        check(dx, summed(dy.double() @ w.double()).chunk(RANKS)[rank], "of A, all-gather")
        check(dw, dy.double().t() @ gathered_of(x.detach()).double(), "of B, all-gather")
        dy = dy[:rows].contiguous()
        dh, dw = torch.autograd.grad(way(lambda h, w: pb.matmul_reduce_scatter(h, w.t()))(h, w), (h, w), dy)
        everywhere = gathered_of(dy).double()
        check(dh, everywhere @ w.double(), "of A, reduce-scatter")
        check(dw, everywhere.t() @ h.double(), "of B, reduce-scatter")
        dd = gathered_of(dy)[:RANKS * rows]  # all ranks have the same loss
        dist.broadcast(dd, 0)
        dh, dw = torch.autograd.grad(way(lambda h, w: pb.matmul_all_reduce(h, w.t()))(h, w), (h, w), dd)
        check(dh, dd.double() @ w.double(), "of A, all-reduce")
        check(dw, dd.double().t() @ h.double(), "of B, all-reduce")
        x, weight, factors = drawn(8, 4096).requires_grad_(), drawn(4096).requires_grad_(), [drawn(8, 4096) for _ in range(2)]
        found = torch.autograd.grad(way(lambda x, weight: pb.all_reduce_rms_norm(x, None, weight))(x, weight), (x, weight), factors)
        total, exact_weight = summed(x.detach().double()).requires_grad_(), weight.detach().double().requires_grad_()
        exact = torch.nn.functional.rms_norm(total, (4096,), exact_weight, 1e-6), total
        for got, wanted in zip(found, torch.autograd.grad(exact, (total, exact_weight), [factor.double() for factor in factors])):
            check(got, wanted, "of a norm")


def drawn_ends(count, experts):
    """Returns the experts of `count` rows in order, and the ends of each expert's rows."""
    chosen = torch.randint(0, RANKS * experts, (count,), device="cuda").sort().values
    return chosen, torch.bincount(chosen, minlength=RANKS * experts).cumsum(0).int()


def check_experts(pb, rank):
    """Checks products of rows with the matrices of their experts, which are distributed over the ranks."""
    for way in (lambda f: f, lambda f: torch.compile(f, fullgraph=True)):
        for experts, count, k, n in ((4, 700, 256, 512), (1, 33, 128, 64), (24, 2000, 512, 256)):
            x, w, dy = drawn(count, k).requires_grad_(), drawn(experts, k, n).requires_grad_(), drawn(count, n)
            chosen, ends = drawn_ends(count, experts)

            def layer(x, w, ends, count=count):
                rows, offs, splits = pb.all_to_all_dispatch(x, ends, most_rows=x.shape[0])
                return pb.all_to_all_combine(pb.grouped_mm(rows, w, offs=offs), ends, splits, count)

            y = way(layer)(x, w, ends)
            dx, dw = torch.autograd.grad(y, (x, w), dy)
            all_w = gathered_of(w.detach().double())[chosen]
            whole = torch.zeros(RANKS * experts, k, n, dtype=torch.float64, device="cuda")
            whole.index_add_(0, chosen, x.detach().double()[:, :, None] * dy.double()[:, None])
            for got, wanted in ((y.detach(), (x.detach().double()[:, None] @ all_w)[:, 0]),
                                (dx, (all_w @ dy.double()[:, :, None])[:, :, 0]), (dw, summed(whole).chunk(RANKS)[rank])):
                kit.check((got.double() - wanted).norm() < 1e-2 * wanted.norm(), "experts", experts, count, k, n)


def calls_of(pb):
    """Returns a call of each form; the results of these calls are bitwise reproducible."""
    a, b, x = drawn(700, 512), drawn(1000, 512), drawn(8, 4096)
    whole = drawn(RANKS * 100, 512)
    _, ends = drawn_ends(700, 6)

    def exchanged():
        rows, _, splits = pb.all_to_all_dispatch(a, ends, most_rows=a.shape[0])
        return pb.all_to_all_combine(rows, ends, splits, 700)

    return (lambda: pb.all_gather_matmul(a, b.t()), lambda: pb.matmul_reduce_scatter(whole, b.t()),
            lambda: pb.matmul_all_reduce(a, b.t()), lambda: pb.all_reduce_rms_norm(x, x)[0], exchanged)


def check_repetitions(pb, rank):
    """Repeats calls while one rank is sometimes late."""
    for number, call in enumerate(calls_of(pb)):
        first = call()
        for i in range(300):
            if i % 20 == 19 and i // 20 % RANKS == rank:
                torch.cuda.synchronize()
                time.sleep(0.002)
            again = call()
        kit.check(torch.equal(first, again), "repetitions", number)


def check_streams(pb, rank):
    streams = [torch.cuda.Stream() for _ in range(2)]
    for number, call in enumerate(calls_of(pb)):
        first = call()
        torch.cuda.synchronize()
        for _ in range(50):
            for stream in streams:
                with torch.cuda.stream(stream):
                    again = call()
        torch.cuda.synchronize()
        kit.check(torch.equal(first, again), "two streams", number)


def check_graph(pb, rank):
    for number, call in enumerate(calls_of(pb)):
        first = call()
        stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream):
            call()  # this call creates the exchange memory of the stream
            torch.cuda.synchronize()
            with torch.cuda.graph(graph, stream=stream):
                recorded = call()
        for _ in range(300):
            graph.replay()
        torch.cuda.synchronize()
        kit.check(torch.equal(recorded, first), "a graph's replays", number)
    a, b, x = drawn(64, 512), drawn(1000, 512), drawn(8, 4096)
    twice = torch.compile(lambda a, b: pb.all_gather_matmul(a, b.t()) * 2, fullgraph=True)
    kit.check(torch.equal(twice(a, b), pb.all_gather_matmul(a, b.t()) * 2), "torch.compile")
    norm = torch.compile(lambda x: pb.all_reduce_rms_norm(x, x), fullgraph=True)
    kit.check(all(torch.equal(*both) for both in zip(norm(x), pb.all_reduce_rms_norm(x, x))), "torch.compile of a norm")


def run(rank, place):
    import ptxbuilder as pb

    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"file://{place}", rank=rank, world_size=RANKS, device_id=torch.device("cuda", rank))
    torch.manual_seed(rank)
    for check in (check_drawn, check_gradients_on_gpus, check_experts, check_repetitions, check_streams, check_graph):
        begin = time.monotonic()
        check(pb, rank)
        torch.cuda.synchronize()
        dist.barrier()
        if rank == 0:
            print(f"{check.__name__}: {time.monotonic() - begin:.0f} s, {kit.failures} failures so far", flush=True)
    print(f"rank {rank} of {RANKS}: {kit.failures} failures", flush=True)
    os._exit(1 if kit.failures else 0)  # peers use this memory until the end of the process


def check_gradients(rank, place):
    """Compares gradients of the two products with those of one process that computes the whole product. Gloo and torch.mm compute the
    forward passes."""
    from ptxbuilder._torch import ranks

    dist.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=RANKS)
    name = dist.group.WORLD.group_name

    def gather(a):
        parts = [torch.empty_like(a) for _ in range(RANKS)]
        dist.all_gather(parts, a.contiguous())
        return torch.cat(parts)

    @ranks.gather_operation.register_kernel("cpu")
    def _(a, b, scale, out_dtype, keeps, multiprocessors, count, group_name):
        gathered = gather(a)
        return gathered @ b * scale, gathered if keeps else a.new_empty(0, a.shape[1])

    def whole_sum(a, b, scale):
        part = a @ b * scale
        dist.all_reduce(part)
        return part

    @ranks.scatter_operation.register_kernel("cpu")
    def _(a, b, scale, out_dtype, multiprocessors, count, group_name):
        return whole_sum(a, b, scale).chunk(RANKS)[rank].clone()

    @ranks.product_reduce_operation.register_kernel("cpu")
    def _(a, b, scale, out_dtype, multiprocessors, count, group_name):
        return whole_sum(a, b, scale)

    def turned_product(a, b, transpose_a=False, alpha=1):
        return (a.t() if transpose_a else a) @ b * alpha

    ranks.matmul = turned_product
    rows, n, k = 6, 5, 7
    torch.manual_seed(4)  # all ranks draw the same numbers, and each takes its part
    xs, ws = torch.randn(RANKS, rows, k).double(), torch.randn(RANKS, n, k).double()
    scales = [torch.tensor([r + 0.5]) for r in range(RANKS)]
    hs, weights = torch.randn(RANKS, RANKS * rows, k).double(), torch.randn(RANKS, RANKS * rows, n).double()

    def of_gather(x, w):
        return ranks.gather_operation(x, w.t(), scales[rank], None, w.requires_grad, 0, dist.get_world_size(), name)[0]

    def of_scatter(h, w):
        return ranks.scatter_operation(h, w.t(), scales[rank], None, 0, dist.get_world_size(), name)

    def of_reduce(h, w):
        return ranks.product_reduce_operation(h, w.t(), scales[rank], None, 0, dist.get_world_size(), name)

    for x in (xs, ws, hs):
        x.requires_grad_()
    whole = sum((xs.reshape(-1, k) @ w.t() * s * weight).sum() for w, s, weight in zip(ws, scales, weights))
    sums = sum(h @ w.t() * s for h, w, s in zip(hs, ws, scales)).chunk(RANKS)
    whole_of_sums = sum((d * weight[:rows]).sum() for d, weight in zip(sums, weights))
    same_on_all = (torch.cat(sums) * weights[0]).sum()
    for function, left, total, weight in ((of_gather, xs, whole, weights[rank]), (of_scatter, hs, whole_of_sums, weights[rank][:rows]),
                                          (of_reduce, hs, same_on_all, weights[0])):
        wanted = [x[rank] for x in torch.autograd.grad(total, (left, ws), retain_graph=True)]
        for way in (function, torch.compile(function, backend="aot_eager", fullgraph=True)):
            for asks in ((True, True), (True, False), (False, True)):
                mine = [x.detach()[rank].clone().requires_grad_(one) for x, one in zip((left, ws), asks)]
                got = torch.autograd.grad((way(*mine) * weight).sum(), [x for x, one in zip(mine, asks) if one])
                for x, y in zip(got, [x for x, one in zip(wanted, asks) if one]):
                    kit.check(torch.allclose(x, y), "a gradient", function, asks, (x - y).abs().max())
    check_gradients_of_norm(ranks, rank, name)
    check_gradients_of_tokens(ranks, rank, name)
    dist.barrier()
    os._exit(1 if kit.failures else 0)


def check_gradients_of_norm(ranks, rank, name):
    """Checks a norm with a loss that all ranks compute alike: its gradients must be those of one process that computes the whole norm."""
    rows, columns, epsilon = 5, 24, 1e-3

    def whole(xs, residual, weight):
        total = xs.sum(0) if residual is None else xs.sum(0) + residual
        return torch.nn.functional.rms_norm(total, (columns,), weight, epsilon), total

    @ranks.reduce_operation.register_kernel("cpu")
    def _(x, residual, weight, epsilon, multiprocessors, group_name):
        parts = [torch.empty_like(x) for _ in range(RANKS)]
        dist.all_gather(parts, x)
        return whole(torch.stack(parts), residual, weight)

    xs, residual, weight = torch.randn(RANKS, rows, columns), torch.randn(rows, columns), torch.randn(columns)
    factors = torch.randn(2, rows, columns)
    for given in ((residual, weight), (None, weight), (residual, None)):
        mine = [None if x is None else x.clone().requires_grad_() for x in (xs, *given)]
        asked = [x for x in mine if x is not None]
        wanted = list(torch.autograd.grad(sum((x * factor).sum() for x, factor in zip(whole(*mine), factors)), asked))
        wanted[0] = wanted[0][rank]
        call = lambda x, *more: ranks.reduce_operation(x, *more, epsilon, 0, name)  # noqa: E731
        for way in (call, torch.compile(call, backend="aot_eager", fullgraph=True)):
            own = [None if x is None else x.detach().clone().requires_grad_() for x in (mine[0][rank], *mine[1:])]
            loss = sum((x * factor).sum() for x, factor in zip(way(*own), factors))
            for x, y in zip(torch.autograd.grad(loss, [x for x in own if x is not None]), wanted):
                kit.check(torch.allclose(x, y, rtol=1e-4, atol=1e-4), "a norm's gradient", [x is not None for x in given])


def check_gradients_of_tokens(ranks, rank, name):
    """Checks rows that experts of all ranks multiply: their gradients must be those of one process that computes all products."""
    experts, count, k, n = 3, 17, 5, 4

    def places(all_ends):
        """Returns the origin (rank and row) of each row that comes to this rank, in order, and the ends of its experts."""
        begins = torch.cat((all_ends.new_zeros(RANKS, 1), all_ends), 1)
        order, offs = [], []
        for expert in range(rank * experts, (rank + 1) * experts):
            order += [(r, row) for r in range(RANKS) for row in range(begins[r, expert], begins[r, expert + 1])]
            offs.append(len(order))
        return order, torch.tensor(offs, dtype=torch.int32)

    def gather(x):
        parts = [torch.empty_like(x) for _ in range(RANKS)]
        dist.all_gather(parts, x.contiguous())
        return torch.stack(parts)

    @ranks.dispatch_operation.register_kernel("cpu")
    def _(x, ends, most_rows, multiprocessors, ranks_, group_name):
        order, offs = places(gather(ends))
        everywhere, rows = gather(x), x.new_zeros(RANKS * most_rows, x.shape[1])
        for place, (r, row) in enumerate(order):
            rows[place] = everywhere[r, row]
        return rows, offs, ends.new_zeros(RANKS, experts)

    @ranks.combine_operation.register_kernel("cpu")
    def _(rows, ends, splits, count, multiprocessors, ranks_, group_name):
        whole = rows.new_zeros(RANKS, count, rows.shape[1])
        for place, (r, row) in enumerate(places(gather(ends))[0]):
            whole[r, row] = rows[place]
        dist.all_reduce(whole)
        return whole[rank].clone()

    xs, ws, dys = (torch.randn(*shape).double() for shape in ((RANKS, count, k), (RANKS * experts, k, n), (RANKS, count, n)))
    chosen = torch.randint(0, RANKS * experts, (RANKS, count)).sort(1).values
    ends = torch.bincount(chosen[rank], minlength=RANKS * experts).cumsum(0).int()
    xs.requires_grad_(), ws.requires_grad_()
    wanted = torch.autograd.grad(((xs[:, :, None] @ ws[chosen])[:, :, 0] * dys).sum(), (xs, ws))
    x, w = xs.detach()[rank].clone().requires_grad_(), ws.detach().chunk(RANKS)[rank].clone().requires_grad_()
    rows, offs, splits = ranks.dispatch_operation(x, ends, 20, 0, RANKS, name)
    of_rows = torch.searchsorted(offs, torch.arange(RANKS * 20, dtype=torch.int32), right=True).clamp(max=experts - 1)
    answers = (rows[:, None] @ w[of_rows])[:, 0]
    y = ranks.combine_operation(answers, ends, splits, count, 0, RANKS, name)
    dx, dw = torch.autograd.grad((y * dys[rank]).sum(), (x, w))
    kit.check(torch.allclose(dx, wanted[0][rank]), "the gradient of dispatched rows")
    kit.check(torch.allclose(dw, wanted[1].chunk(RANKS)[rank]), "the gradient of experts")


def refusal(call, why):
    try:
        call()
        kit.check(False, "not refused:", why)
    except ValueError as error:
        kit.check(why in str(error), error)


def check_without_gpus():
    """Checks what is known without a GPU: the bytes of memory, shapes, and refused calls."""
    import ptxbuilder as pb
    from ptxbuilder import _ext
    from ptxbuilder._common import untouched
    from ptxbuilder._torch import ranks
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
    refusal(lambda: memory((100, 64), (48, 64), (200, 48), 2, False, gathered=(100, 64)), "gathered: it is 100 x 64, but must be 200 x 64")
    kit.check(memory((100, 64), (48, 64), (100, 48), 2, 2) == 262144 + 2 * 100 * 48, "bytes of sums that come to all")
    kit.check(memory((200, 64), (48, 64), (100, 48), 2, True) == 262144 + 2 * 200 * 48, "bytes of sums")
    refusal(lambda: memory((100, 64), (48, 64), (100, 48), 2, False), "D: it is 100 x 48, but must be 200 x 48")
    refusal(lambda: memory((101, 64), (48, 64), (50, 48), 2, True), "A: 101 rows; their number must be a multiple of the 2 ranks")
    refusal(lambda: memory((100, 64), (48, 32), (200, 48), 2, False), "B: it is 48 x 32, but must be 48 x 64")
    refusal(lambda: memory((100, 64), (48, 64), (200, 48), 1, False), "ranks is 1, but must be at least 2")

    def norm_memory(x, residual, weight, ranks):
        return _ext.ranked_norm_memory(tuple(untouched(*(shape and (shape, "float16") for shape in (x, residual, weight, x, x)))), ranks,
                                       _ext.EMULATOR)

    kit.check(norm_memory((4, 100), (4, 100), (100,), 3) == 262144 + 2 * 2560, "bytes of a norm: two places of three ranks' rows")
    kit.check(norm_memory((4, 100), None, None, 2) == 262144 + 2 * 1792, "bytes of a norm without residual and weight")
    refusal(lambda: norm_memory((4, 100), (4, 100), None, 1), "ranks is 1, but must be at least 2")
    def tokens_memory(rows, columns, most_rows, experts, ranks_):
        return ranks.tokens_memory(rows, columns, most_rows, torch.bfloat16, experts, ranks_, _ext.EMULATOR)

    more = tokens_memory(7, 64, 20, 4, 2) - tokens_memory(7, 64, 10, 4, 2)
    kit.check(more == 2 * 2 * 10 * 128, "bytes of tokens: two places of two ranks' rows")
    refusal(lambda: tokens_memory(7, 64, 10, 4, 1), "ranks is 1, but must be at least 2")
    a, b = torch.zeros(8, 8), torch.zeros(16, 8)
    refusal(lambda: pb.all_gather_matmul(a, a), "no process group")
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    refusal(lambda: pb.all_gather_matmul(a, a), "A is on cpu")
    refusal(lambda: pb.matmul_reduce_scatter(a, b), "A is (8, 8) and B is (16, 8)")
    refusal(lambda: pb.all_reduce_rms_norm(a, a), "x, residual and weight are on cpu, cpu, but must be on")
    refusal(lambda: pb.all_reduce_rms_norm(a, epsilon="1"), "epsilon")
    with FakeTensorMode():
        a, b = (torch.empty(*shape, device="cuda", dtype=torch.bfloat16) for shape in ((100, 64), (64, 48)))
        kit.check(pb.all_gather_matmul(a, b).shape == (200, 48), "a gathered shape")
        kit.check(pb.matmul_reduce_scatter(a, b).shape == (50, 48), "a scattered shape")
        kit.check(pb.matmul_all_reduce(a[:99], b).shape == (99, 48), "a reduced shape")
        refusal(lambda: pb.matmul_reduce_scatter(a[:99], b), "A has 99 rows; their number must be a multiple of the 2 ranks")
        name = dist.group.WORLD.group_name
        kit.check(ranks.gather_operation(a, b, None, None, False, 0, 4, name)[0].shape == (400, 48), "a shape of the ranks that are said")
        refusal(lambda: ranks.resolved(name, 4), "ranks: the call was compiled for 4")
        y, total = pb.all_reduce_rms_norm(a, a, b[:, 0])
        kit.check(y.shape == total.shape == (100, 64) and total.dtype == torch.bfloat16, "the shapes of a norm")
        ends = torch.empty(6, device="cuda", dtype=torch.int32)
        rows, offs, splits = pb.all_to_all_dispatch(a, ends, most_rows=128)
        kit.check(rows.shape == (256, 64) and offs.shape == (3,) and splits.shape == (2, 3), "the shapes of a dispatch")
        kit.check(pb.all_to_all_combine(rows, ends, splits, 100).shape == (100, 64), "the shape of a combine")
        whole = torch.compile(lambda a, b, ends: (pb.all_gather_matmul(pb.all_reduce_rms_norm(a)[0], b), pb.matmul_reduce_scatter(a, b),
                                                  pb.matmul_all_reduce(a, b), *pb.all_to_all_dispatch(a, ends, most_rows=128)),
                              backend="eager", fullgraph=True)(a, b, ends)
        kit.check([tuple(x.shape) for x in whole] == [(200, 48), (50, 48), (100, 48), (256, 64), (3,), (2, 3)], "all in one graph", whole)
        refusal(lambda: pb.all_to_all_dispatch(a, ends, most_rows=99), "most_rows is 99, but x has 100 rows")
        refusal(lambda: pb.all_to_all_dispatch(a, ends[:5], most_rows=128),
                "ends is (5,), but must have one end for each expert of all 2 ranks")
        refusal(lambda: pb.all_to_all_dispatch(a, ends.long(), most_rows=128), "ends is torch.int64, but must be int32")
        refusal(lambda: pb.all_to_all_dispatch(a[:, :7], ends, most_rows=128), "rows are multiples of 16 bytes")
        refusal(lambda: pb.all_to_all_dispatch(a, ends.cpu(), most_rows=128), "all must be on this rank's GPU")
        refusal(lambda: pb.all_to_all_combine(rows, ends, splits, 129), "they must be those of a dispatch over 2 ranks")
        narrow = a.to(torch.float8_e4m3fn)
        kit.check(pb.all_gather_matmul(narrow, b.to(narrow.dtype), out_dtype=torch.float16).dtype == torch.float16, "the type of a result")
        kit.check(pb.matmul_reduce_scatter(narrow, b.to(narrow.dtype)).dtype == torch.bfloat16, "the type of a sum")
        refusal(lambda: pb.all_gather_matmul(a, b, scale=torch.ones(1, device="cuda", requires_grad=True)), "scale has no gradient")
        kit.check(all(one.requires_grad for one in pb.all_reduce_rms_norm(a.requires_grad_())), "a norm whose gradient is asked for")
        came = pb.all_to_all_dispatch(a, ends, most_rows=128)
        kit.check(came[0].requires_grad and not came[1].requires_grad, "a dispatch whose gradient is asked for")
        back = pb.all_to_all_combine(came[0], ends, came[2], 100)
        kit.check(back.requires_grad, "a combine whose gradient is asked for")
        for call, rows in ((pb.all_gather_matmul, 200), (pb.matmul_reduce_scatter, 50), (pb.matmul_all_reduce, 100)):
            d = call(a, b.requires_grad_())
            kit.check(d.shape == (rows, 48) and d.requires_grad, "a product whose gradient is asked for", call)
    dist.destroy_process_group()


if __name__ == "__main__":
    check_without_gpus()
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(check_gradients, (os.path.join(folder, "group"),), nprocs=RANKS)
    if torch.cuda.device_count() < RANKS or torch.cuda.get_device_capability() != (9, 0):
        print(f"SKIPPED: PyTorch sees no {RANKS} Hopper GPUs")
        sys.exit(1 if kit.failures else 77)
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(run, (os.path.join(folder, "group"),), nprocs=RANKS)
    sys.exit(1 if kit.failures else 0)

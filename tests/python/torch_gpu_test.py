"""Tests the package with PyTorch tensors on a GPU. Compares every way to call an operation with float64, and checks the order of work on
streams.

  torch_gpu_test.py FOLDER   which holds saxpy.cubin and saxpy.json
"""
import os
import subprocess
import sys
import tempfile
import threading

import kit
from torch_kit import by_compiler, check, check_attention_gradients, check_beside, check_gradients_beside, exactly, functions, tensors_of, with_tensors  # imported first, because it finds a PyTorch
import numpy as np
import torch
from torch import library as operators

if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    print("SKIPPED: PyTorch sees no Hopper GPU")
    sys.exit(77)
import ptxbuilder as pb  # noqa: E402
import reference  # noqa: E402
from packed_kit import plain  # noqa: E402
from ptxbuilder._attention import NO_EXTRAS  # noqa: E402

torch.manual_seed(7)
torch._dynamo.config.recompile_limit = 64  # one function below is compiled for many cases
BF16 = torch.bfloat16


def drawn(*shape, dtype=BF16):
    return torch.randn(shape, device="cuda").to(dtype)


def check_product(a, b, **words):
    check(pb.matmul(a, b, **words), a.double() @ b.double(), 2**-8, tuple(a.shape), a.stride(), tuple(b.shape), b.stride(), words)


def exact_attention(q, k, v, **words):
    """Returns O and lse in float64."""
    return (torch.from_numpy(x).cuda() for x in reference.attention(*(x.double().cpu().numpy() for x in (q, k, v)), **words))


# ---- Products in place ----

for dtype in (BF16, torch.float16):
    for shapes in (((64, 64), (64, 64)), ((33, 20), (20, 41)), ((1, 7), (7, 1)), ((3, 17, 24), (3, 24, 40)), ((3, 17, 24), (24, 40)),
                   ((2, 1, 9, 24), (3, 24, 8)), ((24, 8), (2, 8, 16)), ((0, 8), (8, 8)), ((8, 0), (0, 8)), ((0, 9, 16), (16, 8)),
                   ((1000, 1111), (1111, 999)), ((2048, 4096), (4096, 1024))):
        check_product(*(drawn(*shape, dtype=dtype) for shape in shapes))
a, b = drawn(200, 520), drawn(520, 264)
for x, y in ((a[:, :256], b[:256]), (a[:, ::2], b[::2]), (a[:, 1:], b[1:]), (a[:1].expand(200, 520), b), (a, b[:, :1].expand(520, 264)),
             (a.T.contiguous().T, b.T.contiguous().T), (a.as_strided((1, 520), (5, 1)), b), (a, b.as_strided((520, 1), (264, 7))),
             (a.flatten()[1:1 + 100 * 512].view(100, 512), b[:512])):
    check_product(x, y)
    check(pb.matmul(x.T.contiguous(), y.T.contiguous(), transpose_a=True, transpose_b=True), x.double() @ y.double(), 2**-8)
for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
    x, y = drawn(256, 512, dtype=dtype), drawn(384, 512, dtype=dtype)
    check(pb.matmul(x, y, transpose_b=True), x.double() @ y.double().T, 2**-8)
    check(pb.matmul(x, y.T.contiguous(), out_dtype=torch.float32, precise=True), x.double() @ y.double().T, 2**-10)
check(pb.matmul(drawn(200, 96, dtype=torch.float32), drawn(96, 40, dtype=torch.float32), tf32=True) * 0, torch.zeros(200, 40).cuda(), 0)
ints = torch.randint(-8, 8, (160, 320), dtype=torch.int8, device="cuda")
kit.check(torch.equal(pb.matmul(ints, ints, transpose_b=True).cpu(), ints.cpu().int() @ ints.cpu().int().T))
out = torch.full((200, 300), 7.0, dtype=BF16, device="cuda")
pb.matmul(a, b, out=out[:, 3:267])
check(out[:, 3:267], a.double() @ b.double(), 2**-8, "out=")
kit.check((out[:, :3] == 7).all() and (out[:, 267:] == 7).all(), "what is next to D")

# ---- Gradients: called directly, through the operation, and compiled; in the thread of backward() ----

operands = [drawn(240, 720), drawn(720, 400), drawn(400), drawn(240, 400)]
for x in operands:
    x.requires_grad_()
weight = torch.randn(240, 400, device="cuda")
for name, function in functions.items():
    def ours(a, b, bias, c):
        return pb.matmul(a, b, bias=bias, c=c, alpha=0.5, beta=2.0, activation=name)

    def by_op(a, b, bias, c):
        return torch.ops.ptxbuilder.matmul(a, b, bias, c, 0.5, 2.0, name)

    a32, b32, bias32, c32 = (x.double() for x in operands)
    expected = torch.autograd.grad((function(0.5 * (a32 @ b32) + 2 * c32 + bias32) * weight).sum(), operands)
    for way in (ours, by_op, torch.compile(ours, fullgraph=True)):
        for x, y, operand in zip(torch.autograd.grad((way(*operands) * weight).sum(), operands), expected, "a b bias c".split()):
            check(x, y, 2**-7, name, way.__name__, operand)
compiled = torch.compile(lambda a, b: pb.matmul(a, b).relu(), fullgraph=True, dynamic=True)
for m in (16, 170, 400):
    a, b = drawn(m, 240), drawn(240, 320)
    check(compiled(a, b), (a.double() @ b.double()).relu(), 2**-8, "compiled", m)
for grad in (False, True):
    operators.opcheck(torch.ops.ptxbuilder.matmul.default, tuple(drawn(*s).requires_grad_(grad) for s in ((160, 240), (240, 320))))
operators.opcheck(torch.ops.ptxbuilder.matmul_out.default, (drawn(16, 24), drawn(24, 32)), {"d": drawn(16, 32)})
small = [drawn(24, 40, dtype=torch.float32).requires_grad_(), drawn(40, 32, dtype=torch.float32).requires_grad_()]
kit.check(torch.autograd.gradcheck(lambda a, b: pb.matmul(a, b, tf32=True).double(), small, eps=0.5, atol=0.05, rtol=0.02,
                                   nondet_tol=0, fast_mode=False), "gradcheck: a product is linear in each operand")

# Tests torch.func, and that dual tensors are refused.
a, b = drawn(3, 160, 240), drawn(240, 320)
check(torch.func.vmap(pb.matmul, (0, None))(a, b), a.double() @ b.double(), 2**-8, "vmap")
check(torch.func.vmap(torch.func.grad(lambda a: pb.matmul(a, b).float().sum()))(a), b.double().sum(1).expand(3, 160, 240), 2**-7, "grad")
with torch.autograd.forward_ad.dual_level(), kit.refused("jvp", kind=Exception):
    pb.matmul(torch.autograd.forward_ad.make_dual(a[0], a[0]), b)

# ---- The other operands: scales, the amax, gates and slopes, and D of 8 bits ----


def larger(shape):
    """Returns the shape with eight times as many rows and columns."""
    return (*shape[:-2], *(8 * extent for extent in shape[-2:]))


traced, by_inductor = by_compiler(pb.matmul), by_compiler(pb.matmul, "inductor")
check_beside((pb.matmul, traced), reference.PRODUCTS, "cuda")
check_beside((pb.matmul,), [(larger(a), larger(b), *others) for a, b, *others in reference.PRODUCTS], "cuda")
check_beside((pb.matmul, by_inductor), reference.PRODUCTS[:1] + reference.PRODUCTS[8:10], "cuda")
check_gradients_beside((pb.matmul, by_inductor), reference.PRODUCTS[4:10], "cuda")
for case in reference.PRODUCTS[:4] + reference.PRODUCTS[6:7] + reference.PRODUCTS[9:11]:  # the short path, unless two scales have one element
    t, words = tensors_of(case, "cuda")
    amax = torch.zeros(1, device="cuda") if "amax" in case[4] else None
    b = t["b"].mT.contiguous().mT  # the layout that 8-bit floats require
    given = {**t, "amax": amax}
    d = pb._product.eager_product(t["a"], b, None, t.get("alpha", 1.0), None, words.get("activation"), words["out_dtype"], False, False,
                                  False, False, words.get("gate", False), None, False,
                                  *(given.get(row.word) for row in pb._product.ROWS if row.word != "alpha"))
    kit.check((d is NotImplemented) == ("one_a one_b" in case[4]), case, d is NotImplemented)
# Tests a row-wise product of 8-bit floats in PyTorch's form.
x, y = drawn(256, 512).to(torch.float8_e4m3fn), drawn(384, 512).to(torch.float8_e4m3fn)
rows, columns = torch.rand(256, 1, device="cuda") + 0.5, torch.rand(1, 384, device="cuda") + 0.5
theirs = torch._scaled_mm(x, y.T, scale_a=rows, scale_b=columns, out_dtype=BF16)
check(pb.matmul(x, y, transpose_b=True, scale_a=rows, scale_b=columns), theirs, 2**-7, "next to torch._scaled_mm")
# Checks that values in memory are read when the product runs, and by each replay of a captured product.
alpha, amax = torch.ones((), device="cuda"), torch.zeros(1, device="cuda")
pb.matmul(x, y, transpose_b=True, scale_a=rows, scale_b=columns, alpha=alpha, amax=amax)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    amax.zero_()
    d = pb.matmul(x, y, transpose_b=True, scale_a=rows, scale_b=columns, alpha=alpha, amax=amax)
for factor in (3.0, 0.25):
    alpha.fill_(factor)
    graph.replay()
    expected = factor * (x.double() @ y.double().T) * rows.double() * columns.double()
    check(d, expected, 2**-7, "alpha in memory, replayed")
    kit.check(abs(amax.item() - expected.abs().max().item()) <= 2**-7 * amax.item(), "amax, replayed")
check(pb.matmul(x, y, transpose_b=True, alpha=torch.tensor(2.0)), 2 * x.double() @ y.double().T, 2**-7, "alpha on the CPU")
check(pb.matmul(x[:, :256], x[:, :256], transpose_b=1), x[:, :256].double() @ x[:, :256].double().T, 2**-7, "1 is True")
for words, text in ((dict(c=torch.zeros(256, 384, device="cuda", dtype=BF16), beta="2"), "beta: '2' is a str"), (dict(bias=[1.0]), "bias: it is <class 'list'>"),
                    (dict(scale_a=rows.to("meta")), "scale_a: a meta tensor"), (dict(alpha=rows[0].to_sparse()), "alpha: its layout is "
                                                                                                             "torch.sparse_coo")):
    with kit.refused(text):
        pb.matmul(x, y, transpose_b=True, **words)
a, b, rows, columns = drawn(3, 160, 240), drawn(240, 320), torch.randn(3, 160, device="cuda"), torch.randn(320, device="cuda")
check(torch.func.vmap(lambda a, rows: pb.matmul(a, b, scale_a=rows, scale_b=columns, activation="silu", gate=True))(a, rows),
      exactly(a.double(), b.double(), "silu", True, scale_a=rows.double(), scale_b=columns.double()), 2**-7, "vmap")
operation, scales = (a, b, drawn(320), None, 1.0, 0.0, "silu", BF16, False, False, None), {"scale_a": rows, "scale_b": columns}
operators.opcheck(torch.ops.ptxbuilder.matmul_amax.default, operation, {"amax": torch.zeros(1, device="cuda"), **scales})
operators.opcheck(torch.ops.ptxbuilder.matmul_out.default, (*operation, True), {"d": drawn(3, 160, 160), **scales})
for words, text in ((dict(scale_a=columns), "scale_a: its shape is (320,)"), (dict(scale_a=rows.double()), "scale_a: its type is float64"),
                    (dict(scale_a=rows.cpu()), "its memory is on device"), (dict(gate=True), "gate needs an activation"),
                    (dict(amax=rows), "amax: its shape is (3, 160)"),
                    (dict(gate=True, activation="silu", c=a), "gate cannot be used with C"),
                    (dict(gate=True, activation="silu", slope_of=drawn(3, 160, 320)), "a product is a gate or a backward pass")):
    with kit.refused(text):
        pb.matmul(a, b, **words)

# ---- Attention ----

for case in [(4, 4, 64, 64, 300, 300, {}), (8, 2, 128, 128, 257, 600, {"causal": True}), (2, 1, 256, 256, 64, 200, {"causal": True}),
             (4, 2, 128, 96, 500, 500, {"window": (100, 0)}), (2, 2, 96, 96, 1, 77, {}), *reference.CASES]:
    words = with_tensors(case[-1], "cuda")
    q, k, v = (drawn(*shape) for shape in reference.shapes(case))
    expected, expected_lse = exact_attention(q, k, v, **case[-1])
    attend = lambda q, k, v: pb.attention(q, k, v, return_lse=True, **words)  # noqa: E731
    for way in (attend, torch.compile(attend, fullgraph=True, backend="aot_eager")):
        o, lse = way(q, k, v)
        check(o, expected, 2**-7, "attention", case)
        kit.check(torch.equal(lse.isinf(), expected_lse.isinf()), case)
        check(lse.nan_to_num(0, 0, 0), expected_lse.nan_to_num(0, 0, 0), 1e-5, "lse", case)
    if "layout" not in words:
        turned = [x.transpose(1, 2).contiguous() for x in (q, k, v)]
        check(pb.attention(*turned, layout="bhsd", **words).transpose(1, 2), expected, 2**-7, "bhsd", case)
lengths = [100, 1, 333]
offsets = torch.tensor([0, 100, 101, 434], dtype=torch.int32, device="cuda")
q, k, v = drawn(434, 4, 128), drawn(434, 2, 128), drawn(434, 2, 128)
o = pb.attention(q, k, v, causal=True, query_offsets=offsets, key_offsets=offsets, max_queries=333, max_keys=333)
for i, length in enumerate(lengths):
    rows = slice(sum(lengths[:i]), sum(lengths[:i + 1]))
    check(o[rows], next(exact_attention(q[rows][None], k[rows][None], v[rows][None], causal=True))[0], 2**-7, "packed", i)
q, k, v = (drawn(2, 100, 4, 64) for _ in range(3))
operators.opcheck(torch.ops.ptxbuilder.attention.default, (q, k, v, *NO_EXTRAS, 0.0, 0.0, 0.0, -1, 0, 0, 0, 0, 0, True, None))
check_attention_gradients(pb.attention, "cuda", [(4, 4, 64, 64, 300, 300, {}), (8, 2, 128, 128, 257, 600, {"causal": True}),
                                                 (4, 2, 96, 80, 500, 333, {"causal": True, "top_left": True}), *reference.DIFFERENTIABLE])
with kit.refused("O overlaps"):
    pb.attention(q, k, v, out=q)

# ---- Order: streams, threads, captures ----

big = [drawn(2048, 2048) for _ in range(2)]
right = big[0].double() @ big[1].double()
results = {}
streams = [torch.cuda.Stream() for _ in range(2)]
for index, stream in enumerate(streams):  # on each stream, a product must wait for inputs that are written late
    with torch.cuda.stream(stream):
        late = torch.zeros_like(big[0])
        torch.cuda._sleep(50_000_000)
        late.copy_(big[0])
        results[index] = pb.matmul(late, big[1])
        late.zero_()
for index, stream in enumerate(streams):
    stream.synchronize()
    check(results[index], right, 2**-8, "after a long kernel on stream", index)


def on_stream_of_its_own(index):
    stream = torch.cuda.Stream()
    m = 256 + 8 * index
    a, b = drawn(m, 1000), drawn(1000, 504)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        d = [pb.matmul(a, b) for _ in range(20)]
    stream.synchronize()
    for x in d:
        check(x, a.double() @ b.double(), 2**-8, "thread", index)


kit.in_threads(on_stream_of_its_own, 4)
kit.in_threads(lambda index: check_product(drawn(512, 512), drawn(512, 512)), 2)  # on the default stream of a new thread

# Tests a capture with known and unknown kernels. Larger products after the capture must not affect it or its workspace.
a, b = drawn(300, 333), drawn(333, 420)  # k is odd, so A is copied through a workspace
pb.warm_up("matmul", [(300, 420, 333)], "bf16")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    d = pb.matmul(a, b) + 1
    o = pb.attention(q, k, v, causal=True)
for _ in range(3):
    check_product(drawn(1500, 1501), drawn(1501, 1500))
    a.copy_(drawn(300, 333))
    q.copy_(drawn(2, 100, 4, 64))
    graph.replay()
    torch.cuda.synchronize()
    check(d, a.double() @ b.double() + 1, 2**-8, "replayed")
    check(o, next(exact_attention(q, k, v, causal=True)), 2**-7, "attention replayed")
block = torch.compile(lambda a, b: pb.matmul(a, b).relu() + 1, mode="reduce-overhead", fullgraph=True)
for _ in range(4):
    a = drawn(300, 333)
    check(block(a, b), (a.double() @ b.double()).relu() + 1, 2**-8, "reduce-overhead")

# Tests products between PyTorch kernels that write their inputs and read their results.
x = drawn(1024, 1024) / 32
expected = x.double()
y = x.clone()
for _ in range(50):
    y = pb.matmul(y, x)
    y.mul_(1.0)
    z = pb.matmul(y, x)
    y.copy_(z)
torch.cuda.synchronize()
again = x.clone()
for _ in range(50):
    again = pb.matmul(again, x)
    torch.cuda.synchronize()
    again = pb.matmul(again, x)
    torch.cuda.synchronize()
kit.check(torch.equal(y, again), "a chain of products gives the same bits as one that waits")

# ---- Loaded kernels of any kind ----

x, y = drawn(100000, dtype=torch.float32), drawn(100000, dtype=torch.float32)
saxpy = pb.load(f"{sys.argv[1]}/saxpy", updates=["y"])
check(saxpy(x=x, y=y.clone(), alpha=2.0, count=100000), 2 * x + y, 1e-6, "saxpy")
for dynamic in (False, True):
    compiled = torch.compile(lambda x, y: saxpy(x=x, y=y * 1, alpha=2.0, count=x.numel()) + 1, fullgraph=True, dynamic=dynamic)
    for n in (100000, 5000):
        check(compiled(x[:n], y[:n]), 2 * x[:n] + y[:n] + 1, 1e-6, dynamic, n)

# ---- Two GPUs: tensors of the second GPU while the first is current and must remain so ----

if torch.cuda.device_count() < 2:
    print("left out: it needs two GPUs, and there is one")
else:
    first = [drawn(512, 333), drawn(333, 264)]  # k is odd, so either GPU needs a workspace
    second = [t.to("cuda:1").requires_grad_() for t in first]
    right = first[0].double() @ first[1].double()
    expected = torch.autograd.grad((second[0].double() @ second[1].double()).sum(), second)
    for way in (pb.matmul, by_compiler(pb.matmul), by_inductor):
        d = way(*second)
        kit.check(d.device == second[0].device and torch.cuda.current_device() == 0, "on the second GPU", d.device)
        check(d.cpu(), right.cpu(), 2**-8, "on the second GPU")
        for got, exact in zip(torch.autograd.grad(d.float().sum(), second), expected):
            check(got, exact, 2**-7, "in the second GPU's thread of autograd")
        check(way(*first), right, 2**-8, "and on the first again")
    late = []
    for a, b in (first, second):  # each on the current stream of its own GPU, after earlier work there
        with torch.cuda.device(a.device):
            x = torch.zeros_like(a, requires_grad=False)
            torch.cuda._sleep(50_000_000)
            x.copy_(a.detach())
        late.append(pb.matmul(x, b.detach()))
    for d in late:
        check(d.cpu(), right.cpu(), 2**-8, "after a long kernel on", d.device)
    q = drawn(2, 100, 4, 64)
    check(pb.attention(*[q.to("cuda:1")] * 3).cpu(), pb.attention(q, q, q).cpu(), 0, "attention on the second GPU")
    twos = torch.full((1000,), 2.0, device="cuda:1")
    check(saxpy(x=twos, y=twos.clone(), alpha=3.0, count=1000), 4 * twos, 0, "a loaded kernel on the second GPU")
    with torch.cuda.device(1):
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph, stream=torch.cuda.Stream()):  # PyTorch starts a capture on the first GPU
            d = pb.matmul(*second)
        d.zero_()
        graph.replay()
        check(d.cpu(), right.cpu(), 2**-8, "a graph of the second GPU")
    a, b = (t.float().cpu().numpy().astype("float16") for t in first)
    for place in ("cuda:0", "cuda:1"):
        check(torch.from_numpy(pb.matmul(a, b, device=place)), right.cpu(), 2**-8, "numpy's, copied to", place)
    for x, y, text in ((first[0], second[1], "B: its memory is on device 1"), (second[0], first[1], "B: its memory is on device 0")):
        with torch.no_grad(), kit.refused(text):
            pb.matmul(x, y)

# ---- Refused calls ----

a, b = drawn(16, 24), drawn(24, 32)
for words, text in ((dict(out=drawn(16, 32).requires_grad_()), "out: a given result has no gradient"),
                    (dict(out=drawn(16, 31)), "D: its shape is (16, 31)"), (dict(bias=drawn(32).cpu()), "bias: its memory is on device 0"),
                    (dict(bias=drawn(32).float()), "bias: it is [32] of f32, but must be bf16"),
                    (dict(activation="tanh"), "activation 'tanh' is not "
                                                                                           "one of"),
                    (dict(device="emulator"), "A: its memory is on GPU 0"), (dict(out_dtype=torch.int8), "D of s8 from A of bf16")):
    with kit.refused(text):
        pb.matmul(a, b, **words)
for x, y, text in ((a, b.cpu(), "B: its memory is on device"), (a.cpu(), b, "A: its memory is on the CPU"),
                   (a.float(), b.float(), "set `tf32` to allow it"), (a, b.half(), "B of f16"), (a[0, 0], b, "0 and 2 dimensions"),
                   (a.to(torch.complex64), b, "not supported"), (a, b.T, "B: 32 x 24, but A is 16 x 24")):
    with kit.refused(text):
        pb.matmul(x, y)
with torch._subclasses.FakeTensorMode() as mode:
    kit.check(pb.matmul(mode.from_tensor(a), mode.from_tensor(b)).shape == (16, 32))
with kit.refused("it has no memory, like a FakeTensor"):
    pb._product._ext.product(mode.from_tensor(a), b, None, 1.0, 0.0, 0, 0, 1040, None, None, *pb._product.Operands())
try:
    import cupy
except ImportError:
    print("left out: CuPy, which is not installed")
else:
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x, y = cupy.random.standard_normal((300, 333)).astype("float16"), cupy.random.standard_normal((333, 200)).astype("float16")
        got = pb.matmul(x, y).get()
    kit.check(abs(got - x.get().astype("f8") @ y.get().astype("f8")).max() < 0.1, "CuPy")

# ---- Operations on rows and their gradients; a row's width fits into a warp, a CTA or a cluster ----

norms = {"rms_norm": (1, lambda x, w: torch.nn.functional.rms_norm(x, x.shape[-1:], w, 1e-6)),
         "layer_norm": (2, lambda x, w, b: torch.nn.functional.layer_norm(x, x.shape[-1:], w, b)), "softmax": (0, lambda x: x.softmax(-1))}
for name, (weights, theirs) in norms.items():
    for columns, dtype in ((1000, BF16), (1024, torch.float16), (4097, BF16), (16384, BF16), (8192, torch.float32), (40000, BF16)):
        bound = 2**-16 if dtype == torch.float32 else 2**-7
        for rows in (300, 300, 1):  # the second call reuses the kernel, with other addresses
            given = [x.requires_grad_() for x in (drawn(rows, columns, dtype=dtype), *(drawn(columns, dtype=dtype) for _ in range(weights)))]
            far = [x.detach().double().requires_grad_() for x in given]
            got, right = getattr(pb, name)(*given), theirs(*far)
            check(got, right, bound, name, columns, dtype)
            grad = drawn(rows, columns, dtype=dtype)
            for a, b in zip(torch.autograd.grad(got, given, grad), torch.autograd.grad(right, far, grad.double())):
                check(a, b, bound, name, columns, dtype, "gradient")
with torch.no_grad():
    x, target, table = drawn(70, 5000), torch.randint(0, 5000, (70,), device="cuda"), torch.randint(0, 70, (3, 40), device="cuda")
    check(pb.cross_entropy(x, target), torch.nn.functional.cross_entropy(x.double(), target, reduction="none"), 2**-16, "cross_entropy")
    check(pb.cumsum(x), x.double().cumsum(-1), 2**-7, "cumsum")
    kit.check(torch.equal(pb.embedding(table, x), x[table]) and torch.equal(pb.transpose(x), x.t()), "embedding, transpose")
    kit.check(torch.equal(pb.top_k(x, 5)[0], x.topk(5)[0]), "top_k")
    kit.check(torch.equal(pb.softmax(x[:0]), x[:0]), "no rows")
    with kit.refused("rms_norm: weight must have the shape [columns], but is [50]"):
        pb.rms_norm(x, x[0, :50].contiguous())

# ---- Packed weights and their gradients; the weights are unpacked on the device ----
for word, group in (("int4", 128), ("uint4", 64), ("int8", 0)):
    given, exact = plain(np.random.default_rng(3), word, 520, 1096, group, np.float32)
    packed = pb.pack_weights(*(None if x is None else torch.from_numpy(x).cuda() for x in given), type=word, group=group)
    weights, x, bias, grad = torch.from_numpy(exact).cuda(), drawn(300, 1096).requires_grad_(), drawn(520).requires_grad_(), drawn(300, 520)
    for way in (pb.packed_mm, torch.compile(pb.packed_mm, fullgraph=True)):
        d = way(x, packed, bias)
        check(d.detach(), x.detach().double() @ weights.T + bias.detach().double(), 2**-8, "packed", word, group)
        dx, dbias = torch.autograd.grad(d, (x, bias), grad)
        check(dx, grad.double() @ weights, 2**-7, "the gradient of rows by packed weights", word, group)
        check(dbias, grad.double().sum(0), 2**-7, "the gradient of a bias by packed weights", word, group)

# ---- Experts: added rows of tokens, groups with counted rows, and packed weights for each expert ----
ends = torch.tensor([0, 400, 400, 1100, 1700, 1750, 2500, 2800, 2900], dtype=torch.int32, device="cuda")  # 100 rows belong to no expert


def of_experts(x, experts, ends):
    d, begin = torch.zeros(x.shape[0], experts.shape[2], dtype=torch.float64, device=x.device), 0
    for expert, end in zip(experts, ends.tolist()):
        d[begin:end] = x[begin:end].double() @ expert.double()
        begin = end
    return d


def summed(begin, rows, d):
    kept = (rows >= 0) & (rows < len(begin))
    return begin.double().index_add(0, rows[kept].long(), d[kept])


def adding(x, experts, c, ends, rows, factor):
    return pb.matmul(x, experts, c=c, offs=ends, add_to_rows=rows, scale_a=factor)


x, experts, begin, factor = drawn(3000, 1024), drawn(9, 1024, 768), drawn(1000, 768), torch.rand(3000, device="cuda")
rows = torch.randint(-1, 1001, (3000,), dtype=torch.int32, device="cuda")
exact = of_experts(x, experts, ends)
with torch.no_grad():
    for c in (begin, begin.float()):
        for way in (adding, torch.compile(adding, fullgraph=True)):
            d = way(x, experts, c, ends, rows, factor) if c.dtype == BF16 else pb.matmul(
                x, experts, c=c, offs=ends, add_to_rows=rows, scale_a=factor, out_dtype="f32")
            check(d, summed(c, rows, exact * factor[:, None]), 2**-6 if c.dtype == BF16 else 2**-16, "added rows", c.dtype)
    out, graph = begin.clone(), torch.cuda.CUDAGraph()
    pb.matmul(x, experts, out=out.clone(), offs=ends, add_to_rows=rows, scale_a=factor)
    with torch.cuda.graph(graph):
        pb.matmul(x, experts, out=out, offs=ends, add_to_rows=rows, scale_a=factor)
    out.copy_(begin)
    rows.copy_(rows.flip(0))
    graph.replay()
    check(out, summed(begin, rows, exact * factor[:, None]), 2**-6, "added rows, captured, to other rows")
    counts = torch.tensor([0, 20, 333, 1, 128, 333, 64, 400, -5], dtype=torch.int32, device="cuda")
    some, graph = drawn(9 * 333, 1024), torch.cuda.CUDAGraph()
    pb.matmul(some, experts, counts=counts)
    out = torch.full((9 * 333, 768), 7.0, device="cuda", dtype=BF16)
    with torch.cuda.graph(graph):
        pb.matmul(some, experts, counts=counts, out=out)
    for turn in range(2):
        out.fill_(7)
        graph.replay()
        counted = torch.arange(9 * 333, device="cuda") % 333 < counts.repeat_interleave(333)
        right = (some.view(9, 333, 1024).double() @ experts.double()).view(-1, 768)
        check(out[counted], right[counted], 2**-8, "counted rows, captured", turn)
        kit.check(bool((out[~counted] == 7).all()), "rows that do not count stay")
        counts.copy_(counts.flip(0))
for word, group in (("int4", 128), ("uint4", 64), ("int8", 0)):
    each = [plain(np.random.default_rng(seed), word, 520, 1096, group, np.float32) for seed in range(9)]
    given = (None if x[0] is None else torch.from_numpy(np.stack(x)).cuda() for x in zip(*(given for given, _ in each)))
    packed = pb.pack_weights(*given, type=word, group=group)
    weights, x, grad = torch.from_numpy(np.stack([numbers for _, numbers in each])).cuda(), drawn(3000, 1096).requires_grad_(), drawn(3000, 520)
    for way in (pb.packed_mm, torch.compile(pb.packed_mm, fullgraph=True)):
        d = way(x, packed, offs=ends)
        check(d.detach(), of_experts(x.detach(), weights.mT, ends), 2**-8, "packed experts", word, group)
        dx, = torch.autograd.grad(d, x, grad)
        check(dx, of_experts(grad, weights, ends), 2**-7, "the gradient of rows by packed experts", word, group)

# ---- Tests in separate processes ----

PRELUDE = "import torch, ptxbuilder as pb; a = torch.randn(512, 512, device='cuda').bfloat16(); "
CHECK = "d = pb.matmul(a, a); assert (d.double() - a.double() @ a.double()).norm() < 1e-2 * d.double().norm(); "


def process(code, expected=0, text="", **environment):
    words = {**os.environ, **environment}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                          env={name: value for name, value in words.items() if value is not None})
    texts = (text,) if isinstance(text, str) else text
    kit.check(done.returncode == expected and all(t in done.stdout + done.stderr for t in texts), code, environment, done.returncode,
              done.stdout[-500:], done.stderr[-1500:])


scratch = tempfile.mkdtemp()
unwritable = os.path.join(scratch, "unwritable")
open(unwritable, "w").close()  # this is a file, so that nobody, not even root, can create a folder there
jobs = [dict(code=PRELUDE + "torch.cuda._sleep(500_000_000); [pb.matmul(a, a) for _ in range(200)]"),
        dict(code=PRELUDE + CHECK, HOME=None, XDG_CACHE_HOME=None),
        dict(code=PRELUDE + CHECK, XDG_CACHE_HOME=unwritable),
        dict(code="import ptxbuilder as pb; pb.warm_up('matmul', [(64, 64, 64)], 'bf16')", expected=1, text="RuntimeError",
             CUDA_VISIBLE_DEVICES=""),
        dict(code=PRELUDE + CHECK + "import os; p = os.fork()\nif p == 0:\n try: pb.matmul(a, a)\n except Exception as e: print(e)\n "
             "os._exit(0)\n"
             "os.waitpid(p, 0)"),
        # Checks that a device error names the kernel and the call that noticed the error, with the call's sizes, and says how to learn
        # more.
        dict(code=PRELUDE + "pb.softmax(a)\ntry: a[torch.tensor([600], device='cuda')]; torch.cuda.synchronize()\n"
             "except Exception: pass\nfor _ in range(3):\n try: pb.softmax(a)\n except Exception as e: print(e, flush=True)\n"
             "import os; os._exit(0)",
             text=("of kernel 'softmax'", "this call is softmax x bf16 512 x 512, y bf16 512 x 512", "set PTXBUILDER_WATCHDOG=1000")),
        # Captures the first call of the process, whose kernel is compiled and loaded during the capture.
        dict(code=PRELUDE + "g = torch.cuda.CUDAGraph()\nwith torch.cuda.graph(g): d = pb.matmul(a, a)\ng.replay(); "
             "torch.cuda.synchronize(); "
             "assert (d.double() - a.double() @ a.double()).norm() < 1e-2 * d.double().norm()"),
        # Traces the first call of the process.
        dict(code=PRELUDE + "d = torch.compile(lambda a: pb.matmul(a, a), fullgraph=True, backend='aot_eager')(a); "
             "assert (d.double() - a.double() @ a.double()).norm() < 1e-2 * d.double().norm()"),
        dict(code="import ptxbuilder as pb; " + PRELUDE + "d = torch.compile(lambda a: pb.matmul(a, a), fullgraph=True, "
             "backend='aot_eager')(a)")]
threads = [threading.Thread(target=process, kwargs=job) for job in jobs]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
kit.end()

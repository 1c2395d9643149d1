"""Compiles Triton kernels for Hopper to PTX, on any machine: triton_kernels.py FOLDER. It needs the package triton from PyPI, but no
GPU."""
import os
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def softmax(out, x, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + at, mask=at < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * stride + at, e / tl.sum(e, axis=0), mask=at < n)


@triton.jit
def layer_norm(out, x, w, b, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + at, mask=at < n, other=0.0).to(tl.float32)
    mean = tl.sum(v, axis=0) / n
    centred = tl.where(at < n, v - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / n + eps)
    tl.store(out + row * stride + at, centred * scale * tl.load(w + at, mask=at < n) + tl.load(b + at, mask=at < n), mask=at < n)


@triton.jit
def matmul(a, b, c, M, N, K, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid = tl.program_id(0)
    columns = tl.cdiv(N, BN)
    m = (pid // columns) * BM + tl.arange(0, BM)
    n = (pid % columns) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    pa = a + m[:, None] * sa + k[None, :]
    pb = b + k[:, None] * sb + n[None, :]
    sums = tl.zeros((BM, BN), tl.float32)
    for step in range(0, tl.cdiv(K, BK)):
        left = K - step * BK
        sums = tl.dot(tl.load(pa, mask=k[None, :] < left, other=0.0), tl.load(pb, mask=k[:, None] < left, other=0.0), sums)
        pa += BK
        pb += BK * sb
    tl.store(c + m[:, None] * sc + n[None, :], sums.to(c.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def attention(q, k, v, out, stride, length, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    queries = tl.load(q + m[:, None] * stride + d[None, :])
    most = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    sums = tl.zeros((BM, D), tl.float32)
    for start in range(0, length, BN):
        n = start + tl.arange(0, BN)
        scores = tl.dot(queries, tl.load(k + n[None, :] * stride + d[:, None])) * scale
        scores = tl.where(m[:, None] >= n[None, :], scores, -float("inf"))
        now = tl.maximum(most, tl.max(scores, 1))
        p = tl.exp2(scores - now[:, None])
        rest = tl.exp2(most - now)
        total = total * rest + tl.sum(p, 1)
        sums = tl.dot(p.to(queries.dtype), tl.load(v + n[:, None] * stride + d[None, :]), sums * rest[:, None])
        most = now
    tl.store(out + m[:, None] * stride + d[None, :], (sums / total[:, None]).to(out.dtype.element_ty))


@triton.jit
def histogram(x, bins, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(bins + tl.load(x + at, mask=at < n, other=0), 1, mask=at < n)


@triton.jit
def scan(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.cumsum(tl.load(x + at), 0))


@triton.jit
def histogram_of_blocks(x, bins, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    counts = tl.histogram(tl.load(x + at, mask=at < n, other=0), BINS)
    tl.atomic_add(bins + tl.arange(0, BINS), counts)


@triton.jit
def sums(x, by_row, by_column, most, stride, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.arange(0, BM)
    n = tl.arange(0, BN)
    v = tl.load(x + m[:, None] * stride + n[None, :]).to(tl.float32)
    tl.store(by_row + m, tl.sum(v, 1))
    tl.store(by_column + n, tl.sum(v, 0))
    tl.store(most, tl.argmax(tl.reshape(v, (BM * BN,)), 0))


@triton.jit
def product_of(a, b):
    return a * b


@triton.jit
def sorted_rows(x, out, stride, BM: tl.constexpr, BN: tl.constexpr):
    at = tl.arange(0, BM)[:, None] * stride + tl.arange(0, BN)[None, :]
    v = tl.sort(tl.load(x + at))
    tl.store(out + at, tl.associative_scan(v, 1, product_of))


@triton.jit
def layer_norm_gradient(dx, dy, dw, x, w, mean, scale, lock, stride, n, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + at, mask=at < n, other=0).to(tl.float32)
    g = tl.load(dy + row * stride + at, mask=at < n, other=0).to(tl.float32)
    normal = (v - tl.load(mean + row)) * tl.load(scale + row)
    weighted = tl.load(w + at, mask=at < n, other=0) * g
    a = tl.sum(normal * weighted, axis=0) / n
    tl.store(dx + row * stride + at, (weighted - normal * a) * tl.load(scale + row), mask=at < n)
    lock += row % GROUP
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    dw += row % GROUP * n + at
    tl.store(dw, g * normal + tl.load(dw, mask=at < n), mask=at < n)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def transpose(x, out, sx, so, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    v = tl.load(x + m[:, None] * sx + n[None, :])
    tl.store(out + n[:, None] * so + m[None, :], tl.trans(v))


@triton.jit
def matmul_tma(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PERSISTS: tl.constexpr, APART: tl.constexpr):
    from_a = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    from_b = tl.make_tensor_descriptor(b, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    to = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    columns = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * columns
    step = tl.num_programs(0) if PERSISTS else tiles
    for tile in tl.range(tl.program_id(0), tiles, step, warp_specialize=APART, flatten=PERSISTS and not APART):
        m = tile // columns * BM
        n = tile % columns * BN
        sums = tl.zeros((BM, BN), tl.float32)
        for k in tl.range(0, tl.cdiv(K, BK), warp_specialize=APART and not PERSISTS):
            sums = tl.dot(from_a.load([m, k * BK]), from_b.load([n, k * BK]).T, sums)
        to.store([m, n], sums.to(c.dtype.element_ty))


@triton.jit
def attention_tma(q, k, v, out, heads, length, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, APART: tl.constexpr):
    rows = heads * length
    from_q = tl.make_tensor_descriptor(q, shape=[rows, D], strides=[D, 1], block_shape=[BM, D])
    from_k = tl.make_tensor_descriptor(k, shape=[rows, D], strides=[D, 1], block_shape=[BN, D])
    from_v = tl.make_tensor_descriptor(v, shape=[rows, D], strides=[D, 1], block_shape=[BN, D])
    to = tl.make_tensor_descriptor(out, shape=[rows, D], strides=[D, 1], block_shape=[BM, D])
    first = tl.program_id(1) * length
    queries = from_q.load([first + tl.program_id(0) * BM, 0])
    most = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    sums = tl.zeros((BM, D), tl.float32)
    for start in tl.range(0, length, BN, warp_specialize=APART):
        scores = tl.dot(queries, from_k.load([first + start, 0]).T) * scale
        now = tl.maximum(most, tl.max(scores, 1))
        p = tl.exp2(scores - now[:, None])
        rest = tl.exp2(most - now)
        total = total * rest + tl.sum(p, 1)
        sums = tl.dot(p.to(queries.dtype), from_v.load([first + start, 0]), sums * rest[:, None])
        most = now
    to.store([first + tl.program_id(0) * BM, 0], (sums / total[:, None]).to(out.dtype.element_ty))


def pointers(names, kind):
    return {name: f"*{kind}" for name in names}


def cases():
    for block in (256, 1024):
        for kind in ("fp32", "bf16"):
            yield add, {**pointers(("x", "y", "out"), kind), "n": "i32"}, {"BLOCK": block}, {}
    for block in (512, 4096, 8192):
        yield softmax, {**pointers(("out", "x"), "bf16"), "stride": "i32", "n": "i32"}, {"BLOCK": block}, {"num_warps": 8}
        yield layer_norm, {**pointers(("out", "x", "w", "b"), "fp32"), "stride": "i32", "n": "i32", "eps": "fp32"}, {"BLOCK": block}, {}
    sizes = {"M": "i32", "N": "i32", "K": "i32", "sa": "i32", "sb": "i32", "sc": "i32"}
    for kind in ("bf16", "fp16", "fp8e4nv", "fp32"):
        for tile in ((64, 64, 64), (128, 128, 64), (128, 256, 64)):
            for stages in (2, 4):
                signature = {**pointers(("a", "b"), kind), "c": "*bf16", **sizes}
                yield matmul, signature, dict(zip(("BM", "BN", "BK"), tile)), {"num_warps": 8 if tile[1] > 64 else 4, "num_stages": stages}
    for kind in ("bf16", "fp16"):
        for d in (64, 128):
            signature = {**pointers(("q", "k", "v", "out"), kind), "stride": "i32", "length": "i32", "scale": "fp32"}
            yield attention, signature, {"BM": 128, "BN": 64, "D": d}, {"num_warps": 8, "num_stages": 3}
            for apart in (False, True):
                signature = {**pointers(("q", "k", "v", "out"), kind), "heads": "i32", "length": "i32", "scale": "fp32"}
                yield attention_tma, signature, {"BM": 128, "BN": 64, "D": d, "APART": apart}, {"num_warps": 4 if apart else 8}
    sizes = {"M": "i32", "N": "i32", "K": "i32"}
    for kind in ("bf16", "fp8e4nv"):
        for tile in ((64, 64, 64), (128, 128, 64), (128, 256, 128)):
            for persists in (False, True):
                for apart in (False, True):
                    constants = {**dict(zip(("BM", "BN", "BK"), tile)), "PERSISTS": persists, "APART": apart}
                    options = {"num_warps": 4 if tile[1] == 64 else 8, "num_stages": 3}
                    yield matmul_tma, {**pointers(("a", "b"), kind), "c": "*bf16", **sizes}, constants, options
    yield histogram_of_blocks, {"x": "*i32", "bins": "*i32", "n": "i32"}, {"BLOCK": 1024, "BINS": 256}, {}
    for kind in ("bf16", "fp32"):
        yield sums, {**pointers(("x", "by_row", "by_column"), kind), "most": "*i32", "stride": "i32"}, {"BM": 64, "BN": 128}, {"num_warps": 8}
        yield sorted_rows, {**pointers(("x", "out"), kind), "stride": "i32"}, {"BM": 4, "BN": 256}, {}
        yield transpose, {**pointers(("x", "out"), kind), "sx": "i32", "so": "i32"}, {"BM": 64, "BN": 64}, {}
    names = ("dx", "dy", "dw", "x", "w", "mean", "scale")
    yield layer_norm_gradient, {**pointers(names, "fp32"), "lock": "*i32", "stride": "i32", "n": "i32"}, {"GROUP": 64, "BLOCK": 1024}, {}
    yield histogram, {"x": "*i32", "bins": "*i32", "n": "i32"}, {"BLOCK": 512}, {}
    yield scan, {"x": "*fp32", "out": "*fp32"}, {"BLOCK": 2048}, {}


def main(folder):
    os.makedirs(folder, exist_ok=True)
    for kernel, signature, constants, options in cases():
        types = {**signature, **{name: "constexpr" for name in constants}}
        # Assumes 16-byte alignment, because the launcher detects it for most arguments.
        divisible = {(i,): [["tt.divisibility", 16]] for i, kind in enumerate(signature.values()) if kind != "fp32"}
        source = ASTSource(kernel, types, constants, divisible)
        path = "_".join([kernel.__name__, *(kind.strip("*") for kind in list(signature.values())[:1]), *map(str, constants.values()),
                         *map(str, options.values())])
        if os.path.exists(f"{folder}/{path}.ptx"):
            continue
        made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
        with open(f"{folder}/{path}.ptx", "w") as file:
            file.write(made.asm["ptx"])


if __name__ == "__main__":
    main(sys.argv[1])

"""Forward attention in Triton, as its users write it: a program for each block of queries, and a loop over blocks of keys."""
import torch
import triton
import triton.language as tl


@triton.jit
def forward(Q, K, V, O, scale, rows, row_stride, head_stride, batch_stride, heads, CAUSAL: tl.constexpr, D: tl.constexpr,
            BM: tl.constexpr, BN: tl.constexpr):
    block = tl.num_programs(0) - 1 - tl.program_id(0) if CAUSAL else tl.program_id(0)
    head, batch = tl.program_id(1) % heads, tl.program_id(1) // heads
    start = batch.to(tl.int64) * batch_stride + head * head_stride
    column = tl.arange(0, D)
    query = block * BM + tl.arange(0, BM)
    q = tl.load(Q + start + query[:, None] * row_stride + column[None, :])
    most = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    sums = tl.zeros([BM, D], tl.float32)
    end = (block + 1) * BM if CAUSAL else rows
    for first in tl.range(0, end, BN):
        key = first + tl.arange(0, BN)
        k = tl.load(K + start + key[None, :] * row_stride + column[:, None])
        scores = tl.dot(q, k) * (scale * 1.4426950408889634)
        if CAUSAL:
            scores = tl.where(query[:, None] >= key[None, :], scores, -float("inf"))
        now = tl.maximum(most, tl.max(scores, 1))
        weights = tl.exp2(scores - now[:, None])
        shrink = tl.exp2(most - now)
        total = total * shrink + tl.sum(weights, 1)
        v = tl.load(V + start + key[:, None] * row_stride + column[None, :])
        sums = tl.dot(weights.to(v.dtype), v, sums * shrink[:, None])
        most = now
    tl.store(O + start + query[:, None] * row_stride + column[None, :], (sums / total[:, None]).to(O.dtype.element_ty))


# Each configuration has the block sizes of queries and keys, the number of warps, and the number of stages.
CONFIGURATIONS = {64: [(128, 128, 8, 3), (128, 64, 4, 3)], 128: [(128, 64, 8, 3), (128, 128, 8, 2)], 256: [(128, 64, 8, 2)]}


def call(q, k, v, causal, configuration):
    """Runs the kernel. Tensors are [batch, row, head, column], all with the same layout, and lengths must be multiples of the blocks."""
    batch, rows, heads, depth = q.shape
    bm, bn, warps, stages = configuration
    out = torch.empty_like(q)
    forward[(rows // bm, batch * heads)](q, k, v, out, depth ** -0.5, rows, q.stride(1), q.stride(2), q.stride(0), heads,
                                         CAUSAL=causal, D=depth, BM=bm, BN=bn, num_warps=warps, num_stages=stages)
    return out

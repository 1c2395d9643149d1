"""Tests the package with JAX arrays on a GPU: jit, a chain in a command buffer, grad, vmap and shard_map, compared with float64.

  jax_gpu_test.py FOLDER   which holds saxpy.cubin and saxpy.json
"""
import os
import subprocess
import sys

import kit

kit.use("jax", "numpy", "ml_dtypes")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

try:
    is_hopper = jax.devices("gpu")[0].compute_capability == "9.0"
except RuntimeError:
    is_hopper = False
if not is_hopper:
    print("SKIPPED: JAX sees no Hopper GPU")
    sys.exit(77)
import ptxbuilder as pb  # noqa: E402
from jax_kit import check, check_beside, drawn, random, wide  # noqa: E402
import reference  # noqa: E402
from packed_kit import plain  # noqa: E402


for shapes in (((64, 64), (64, 64)), ((33, 20), (20, 41)), ((3, 17, 24), (3, 24, 40)), ((3, 17, 24), (24, 40)),
               ((2, 1, 9, 24), (3, 24, 8)), ((24, 8), (2, 8, 16)), ((0, 8), (8, 8)), ((8, 0), (0, 8)), ((1000, 1111), (1111, 999)),
               ((2048, 2048), (2048, 1024))):
    a, b = (drawn(*shape) for shape in shapes)
    for function in (pb.matmul, jax.jit(pb.matmul)):
        check(function(a, b), np.matmul(wide(a), wide(b)), 2**-8, shapes)
for dtype, words in ((jnp.float16, {}), (jnp.float8_e4m3fn, {}), (jnp.float8_e5m2, {"precise": True})):
    for turn_a in (False, True):
        for turn_b in (False, True):
            a, b = drawn(*((512, 256) if turn_a else (256, 512)), dtype=dtype), drawn(*((384, 512) if turn_b else (512, 384)), dtype=dtype)
            check(pb.matmul(a, b, transpose_a=turn_a, transpose_b=turn_b, **words),
                  (wide(a).T if turn_a else wide(a)) @ (wide(b).T if turn_b else wide(b)), 2**-8, dtype, turn_a, turn_b)

# Tests a chain of ten products in one program, which XLA puts into a command buffer. Every run must be right, even with new arguments.
chain = jax.jit(lambda x, w: [x := pb.matmul(x, w, activation="relu") for _ in range(10)][-1])
steps = jax.jit(lambda x, w: [x := jnp.maximum(jnp.matmul(x, w, preferred_element_type=jnp.float32), 0).astype(x.dtype)
                              for _ in range(10)][-1])
for _ in range(5):
    x, w = drawn(512, 512), drawn(512, 512) / 20
    check(chain(x, w), steps(x, w), 2**-5, "a chain of ten")  # each chain rounds ten times
    check(chain(x, w), chain(x, w), 0)
odd = jax.jit(lambda x, w: pb.matmul(pb.matmul(x, w), w))  # k is 333, so operands are copied through workspaces
for _ in range(4):
    x, w = drawn(333, 333), drawn(333, 333) / 16
    check(odd(x, w), wide(x) @ wide(w) @ wide(w), 2**-7, "workspaces in a command buffer")
scanned = jax.jit(lambda x, w: jax.lax.scan(lambda x, _: (pb.matmul(x, w), None), x, None, length=6)[0])
x, w = drawn(256, 256), drawn(256, 256) / 16
check(scanned(x, w), np.linalg.multi_dot([wide(x)] + [wide(w)] * 6), 2**-6, "in a scan")

# Tests gradients and batches.
activations = reference.activations(jnp)
for name, function in activations.items():
    operands = drawn(240, 720), drawn(720, 400), drawn(240, 400), drawn(400)
    weight = random.standard_normal((240, 400)).astype(np.float32)

    def ours(a, b, c, bias):
        return (pb.matmul(a, b, c=c, bias=bias, alpha=0.5, beta=2.0, activation=name).astype(jnp.float32) * weight).sum()

    def theirs(a, b, c, bias):
        a, b, c, bias = (x.astype(jnp.float32) for x in (a, b, c, bias))
        z = 0.5 * jnp.matmul(a, b, precision="highest") + 2 * c + bias
        return (function(z) * weight).sum()

    for x, y, operand in zip(jax.jit(jax.grad(ours, (0, 1, 2, 3)))(*operands), jax.grad(theirs, (0, 1, 2, 3))(*operands),
                             "a b c bias".split()):
        check(x, y, 2**-7, name, operand)
a, b = drawn(3, 240, 72), drawn(72, 40)
check(jax.vmap(pb.matmul, (0, None))(a, b), wide(a) @ wide(b), 2**-8, "vmap")
check(jax.jit(jax.vmap(jax.grad(lambda a: pb.matmul(a, b).astype(jnp.float32).sum())))(a),
      np.broadcast_to(wide(b).sum(1), a.shape), 2**-7, "vmap of grad")
mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("x",))
spec = jax.sharding.PartitionSpec
check(jax.jit(jax.shard_map(pb.matmul, mesh=mesh, in_specs=(spec("x"), spec()), out_specs=spec("x")))(a[0], b),
      wide(a[0]) @ wide(b), 2**-8, "shard_map")

# Tests the other operands: scales, the amax, gates and slopes, and a D of 8 bits. Gradients and batches are compared with functions of jnp.
check_beside(pb)
left, right, rows, columns = drawn(256, 320), drawn(320, 384), jnp.asarray(random.standard_normal(256), jnp.float32), drawn(384, dtype=jnp.float32)
gated = jax.jit(lambda a, rows, alpha: pb.matmul(a, right, scale_a=rows, scale_b=columns, alpha=alpha, activation="silu", gate=True, amax=True))
for alpha in (1.0, -0.5, 2.0):  # XLA uses a command buffer in the second and later runs
    x = alpha * (wide(left) @ wide(right)) * wide(rows)[:, None] * wide(columns)
    expected = x[:, 0::2] / (1 + np.exp(-x[:, 0::2])) * x[:, 1::2]
    for _ in range(2):
        d, amax = gated(left, rows, alpha)
        check(d, expected, 2**-7, "gated")
        kit.check(abs(float(amax) - abs(expected).max()) <= 1e-3 * abs(expected).max(), "amax", float(amax))
check(jax.jit(jax.grad(lambda rows: pb.matmul(left, right, scale_a=rows, out_dtype="f32").sum()))(rows), (wide(left) @ wide(right)).sum(1), 2**-7, "rows")
check(jax.vmap(lambda a, rows: pb.matmul(a, right, scale_a=rows, out_dtype="f32"))(jnp.stack([left, -left]), jnp.stack([rows, 2 * rows])),
      np.stack([wide(left) @ wide(right) * wide(rows)[:, None], -2 * wide(left) @ wide(right) * wide(rows)[:, None]]), 2**-8, "vmap")

# Compares forward-mode and second derivatives with those of jnp's functions in f32.
moves = drawn(*left.shape), drawn(*right.shape)
_, moved = jax.jit(lambda: jax.jvp(lambda a, b: pb.matmul(a, b, activation="silu"), (left, right), moves))()
check(moved, jax.jvp(lambda a, b: jax.nn.silu(a @ b), *([x.astype(jnp.float32) for x in pair] for pair in ((left, right), moves)))[1], 2**-6, "jvp")
w = drawn(6, 4, dtype=jnp.float32)
check(jax.jit(jax.hessian(lambda w: (pb.matmul(w, w.T, tf32=True) ** 2).sum()))(w),
      jax.hessian(lambda w: (jnp.matmul(w, w.T, precision="highest") ** 2).sum())(w), 2**-7, "hessian")

# Tests convolutions and their gradients.
for of_x, of_w, words in (((4, 64, 28, 28), (96, 64, 3, 3), {"padding": 1}), ((2, 64, 29, 27), (64, 32, 3, 3), {"stride": 2, "groups": 2}),
                          ((2, 3, 32, 32), (64, 3, 7, 7), {"stride": 2, "padding": 3})):
    x, w, bias = drawn(*of_x), drawn(*of_w), drawn(of_w[0])
    z, back = jax.vjp(lambda *given: pb.conv2d(*given, **words), x, w, bias)

    def exactly(x, w, bias):
        stride, padding = words.get("stride", 1), words.get("padding", 0)
        return jax.lax.conv_general_dilated(x, w, (stride, stride), [(padding, padding)] * 2, precision="highest",
                                            feature_group_count=words.get("groups", 1)) + bias[:, None, None]

    expected, exactly_back = jax.vjp(exactly, *(one.astype(jnp.float32) for one in (x, w, bias)))
    check(z, expected, 2**-8, "conv2d", words)
    check(jax.jit(lambda *given: pb.conv2d(*given, activation="relu", **words))(x, w, bias), jax.nn.relu(expected), 2**-8, "conv2d, jitted", words)
    grad = drawn(*z.shape)
    for name, got, right in zip(("x", "w", "bias"), back(grad), exactly_back(grad.astype(jnp.float32))):
        check(got, right, 2**-6, "conv2d's gradient of", name, words)

# Tests attention.
for heads, key_heads, queries, keys, causal in ((4, 4, 300, 300, False), (8, 2, 257, 600, True)):
    q, k, v = drawn(2, queries, heads, 128), drawn(2, keys, key_heads, 128), drawn(2, keys, key_heads, 128)
    wq, wk, wv = (np.moveaxis(wide(x), 1, 2) for x in (q, k, v))
    wk, wv = (np.repeat(x, heads // key_heads, 1) for x in (wk, wv))
    scores = wq @ np.swapaxes(wk, -1, -2) / 128**0.5
    if causal:
        scores = np.where(np.arange(keys)[None] > np.arange(queries)[:, None] + keys - queries, -np.inf, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = np.moveaxis(weights @ wv / weights.sum(-1, keepdims=True), 1, 2)
    lse = np.log(weights.sum(-1)) + scores.max(-1)
    attend = jax.jit(lambda q, k, v: pb.attention(q, k, v, causal=causal, return_lse=True))
    for _ in range(3):
        got, got_lse = attend(q, k, v)
        check(got, expected, 2**-7, "attention")
        check(got_lse, lse, 1e-5, "lse")
    grad = drawn(*q.shape)
    found = jax.jit(lambda q, k, v, grad: jax.vjp(lambda *x: pb.attention(*x, causal=causal), q, k, v)[1](grad))(q, k, v, grad)
    for name, x, exact in zip(("dQ", "dK", "dV"), found, reference.attention_gradients(*map(wide, (q, k, v, grad)), causal=causal)):
        check(x, exact, 2**-6, name)
    turned = [jnp.swapaxes(x, 1, 2) for x in (q, k, v)]
    check(jnp.swapaxes(pb.attention(*turned, causal=causal, layout="bhsd"), 1, 2), expected, 2**-7, "bhsd")

# Tests loaded kernels of any kind.
saxpy = pb.load(f"{sys.argv[1]}/saxpy", updates=["y"])
x, y = drawn(100000, dtype=jnp.float32), drawn(100000, dtype=jnp.float32)
before = wide(y)
twice = jax.jit(lambda x, y: saxpy(x=x, y=saxpy(x=x, y=y, alpha=2.0, count=x.size), alpha=3.0, count=x.size))
for _ in range(3):
    check(twice(x, y), 5 * wide(x) + before, 1e-6, "saxpy")
traced = jax.jit(lambda alpha, x, y, count: saxpy(x=x, y=y, alpha=2 * alpha, count=count - 1) + 1)  # scalars are computed on the stream
for i in range(6):
    check(traced(float(i), x, y, x.size - i), 2 * i * wide(x) * (np.arange(x.size) < x.size - i - 1) + before + 1, 1e-6, "traced scalars", i)
kit.check(np.array_equal(wide(y), before), "JAX's arrays are not written")

# Tests operations on rows and their gradients.
for columns, dtype in ((1000, jnp.bfloat16), (16384, jnp.bfloat16), (4097, jnp.float32)):
    bound = 2**-16 if dtype == jnp.float32 else 2**-7
    x, w = drawn(90, columns, dtype=dtype), drawn(columns, dtype=dtype)

    def exact(x, w):
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w

    far = x.astype(jnp.float32), w.astype(jnp.float32)
    check(pb.rms_norm(x, w), wide(exact(*far)), bound, "rms_norm", columns, dtype)
    check(pb.softmax(x), wide(jax.nn.softmax(far[0], -1)), bound, "softmax", columns, dtype)
    for got, right in zip(*(jax.jit(jax.grad(lambda x, w: (f(x, w).astype(jnp.float32) * far[0]).sum(), (0, 1)))(*given)
                            for f, given in ((pb.rms_norm, (x, w)), (exact, far)))):
        check(got, wide(right), bound, "rms_norm", columns, dtype, "gradient")

# Tests two GPUs: arrays on the second GPU, and both GPUs under shard_map.
if len(jax.devices()) < 2:
    print("left out: it needs two GPUs, and there is one")
else:
    a, b, ones = drawn(256, 333), drawn(333, 264), jnp.ones(1000, jnp.float32)
    there = [jax.device_put(t, jax.devices()[1]) for t in (a, b, ones)]
    for function in (pb.matmul, jax.jit(pb.matmul)):
        for operands in (there[:2], (a, b)):
            d = function(*operands)
            kit.check(d.devices() == operands[0].devices(), d.devices())
            check(d, wide(a) @ wide(b), 2**-8, "on", d.devices())
    check(saxpy(x=there[2], y=there[2], alpha=2.0, count=1000), 3 * wide(ones), 0, "a loaded kernel on the second GPU")
    both = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("x",))
    by_rows = jax.jit(jax.shard_map(pb.matmul, mesh=both, in_specs=(spec("x"), spec()), out_specs=spec("x")))
    for _ in range(4):
        x = drawn(256, 333)
        check(by_rows(x, b), wide(x) @ wide(b), 2**-8, "shard_map over two GPUs")
    heads = [drawn(1, 200, 4, 64) for _ in range(3)]
    by_heads = jax.jit(jax.shard_map(pb.attention, mesh=both, in_specs=(spec(None, None, "x"),) * 3, out_specs=spec(None, None, "x")))
    check(by_heads(*heads), wide(pb.attention(*heads)), 0, "attention, half of the heads on each GPU")
    a, b = drawn(3, 240, 72), drawn(72, 40)

kit.in_threads(lambda index: check(jax.jit(pb.matmul)(a[0], b), wide(a[0]) @ wide(b), 2**-8, "thread", index), 4)
for function, text in ((lambda: pb.matmul(a, b, device="emulator"), "device: JAX's arrays"), (lambda: pb.matmul(b, b), "B must have 40 rows, as many as A has columns")):
    with kit.refused(text):
        function()
with kit.refused("takes a pointer of f32, but the argument is an array of int32", kind=Exception):
    jax.block_until_ready(saxpy(x=x.astype(jnp.int32), y=y, alpha=2.0, count=1000))

for word, group in (("int4", 128), ("uint4", 64), ("int8", 0)):
    given, exact = plain(random, word, 520, 1096, group, np.float32)
    packed = pb.pack_weights(*(None if x is None else jnp.asarray(x) for x in given), type=word, group=group)
    a, bias, grad = drawn(300, 1096), drawn(520), drawn(300, 520)
    for way in (pb.packed_mm, jax.jit(pb.packed_mm)):
        d, back = jax.vjp(lambda a, bias: way(a, packed, bias), a, bias)
        check(d, wide(a) @ exact.T + wide(bias), 2**-8, "packed", word, group)
        for got, exactly in zip(back(grad), (wide(grad) @ exact, wide(grad).sum(0))):
            check(got, exactly, 2**-7, "gradients by packed weights", word, group)

# Checks that a device error names the kernel and the call that noticed the error, with the call's sizes, and says how to learn more. The
# check runs in a separate process.
FAILING = """
import os, sys, jax, jax.numpy as jnp, ptxbuilder as pb
saxpy, x, a = pb.load(sys.argv[1] + "/saxpy", updates=["y"]), jnp.ones(4, jnp.float32), jnp.ones((512, 512), jnp.bfloat16)
calls = [lambda: jax.jit(pb.matmul)(a, a), lambda: pb.softmax(a)]
jax.block_until_ready([call() for call in calls])
for call in (lambda: saxpy(x=x, y=x, alpha=2.0, count=1 << 30), *calls):
    try:
        jax.block_until_ready(call())
    except Exception as e:
        print(e, flush=True)
os._exit(0)
"""
done = subprocess.run([sys.executable, "-c", FAILING, sys.argv[1]], capture_output=True, text=True, timeout=180)
for text in ("kernel 'saxpy' or one queued before it failed", "this call is matmul: ",
             "this call is softmax x bf16 512 x 512, y bf16 512 x 512", "set PTXBUILDER_WATCHDOG=1000"):
    kit.check(text in done.stdout, text, done.stdout[-2000:], done.stderr[-500:])
kit.end()

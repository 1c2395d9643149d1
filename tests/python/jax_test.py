"""Tests attention and kernels with JAX arrays on the CPU, through the same XLA targets as on a GPU; jax_product_test.py tests products.

  jax_test.py FOLDER   which holds saxpy.ptx and saxpy.json
"""
import sys

import jax_cpu  # noqa: F401
import jax
import jax.numpy as jnp
import numpy as np

import kit
import ptxbuilder as pb
import reference
import struct_kernel
from jax_kit import check, drawn, wide, with_arrays

mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
P = jax.sharding.PartitionSpec

# Tests attention, traced or not, with batches by vmap, and with heads on two devices.
for case in reference.CASES[:4] + reference.CASES[6:]:
    operands, words = [drawn(*shape) for shape in reference.shapes(case)], case[-1]
    expected, expected_lse = reference.attention(*map(wide, operands), **words)
    words = with_arrays(words)
    fixed = [name for name, x in words.items() if not isinstance(x, jax.Array)]
    for function in (pb.attention, jax.jit(pb.attention, static_argnames=("return_lse", *fixed))):
        o, lse = function(*operands, return_lse=True, **words)
        kit.check(o.dtype == jnp.bfloat16 and lse.dtype == jnp.float32)
        check(o, expected, 2**-7, case)
        kit.check(np.array_equal(np.isinf(lse), np.isinf(expected_lse)), case)
        check(np.where(np.isinf(lse), 0, lse), np.where(np.isinf(expected_lse), 0, expected_lse), 1e-5, case)
q, k, v = (drawn(2, 3, 40, 2, 64) for _ in range(3))
expected = np.stack([reference.attention(*map(wide, (q[i], k[i], v[0])))[0] for i in range(2)])
check(jax.vmap(pb.attention, (0, 0, None))(q, k, v[0]), expected, 2**-7, "vmap")
check(jax.vmap(pb.attention, (4, 4, None), 4)(*(jnp.moveaxis(x, 0, 4) for x in (q, k)), v[0]), np.moveaxis(expected, 0, 4), 2**-7, "vmap")
q, k, v = q[0], k[0], v[0]
by_heads = P(None, None, "x")
check(jax.jit(jax.shard_map(pb.attention, mesh=mesh, in_specs=(by_heads,) * 3, out_specs=by_heads))(q, k, v), expected[0], 2**-7)
offsets = jnp.array([0, 40, 80, 120], jnp.int32)
packed = jax.jit(lambda q, k, v: pb.attention(q, k, v, query_offsets=offsets, key_offsets=offsets, max_queries=40, max_keys=40))
check(packed(*(x.reshape(-1, 2, 64) for x in (q, k, v))), expected[0].reshape(-1, 2, 64), 2**-7, "packed")
caches = reference.Caches(np.random.default_rng(5), 1, 16)
cached = [jnp.asarray(x, jnp.bfloat16) for x in (caches.q[:, 0], caches.k, caches.v)] + [jnp.asarray(x) for x in (caches.lengths, caches.table)]
check(jax.jit(pb.decode)(*cached), reference.decoded(wide(cached[0])[:, None], *map(wide, cached[1:3]), caches.lengths, caches.table)[0][:, 0], 2**-7,
      "decode")
mixed = jax.jit(lambda q, offsets: pb.decode(q, *cached[1:], query_offsets=offsets, max_queries=2))
found = mixed(cached[0][jnp.array([0, 2])], jnp.array([0, 1, 1, 2], jnp.int32))  # the sequences have one query, none and one
expected_of_mixed = reference.decoded(wide(cached[0])[:, None], *map(wide, cached[1:3]), caches.lengths, caches.table)[0]
check(found, expected_of_mixed[np.array([0, 2]), 0], 2**-7, "a mixed batch")
of_tree = jax.jit(lambda q, masks: pb.decode(q[:, None], *cached[1:], tree_mask=masks))  # the second query sees none of the new keys
masks = np.array([[1], [0], [1]], np.int32)
expected_of_tree = reference.decoded(wide(cached[0])[:, None], *map(wide, cached[1:3]), caches.lengths, caches.table, masks)[0]
check(of_tree(cached[0], jnp.asarray(masks)), expected_of_tree, 2**-7, "a tree of tokens")
eights = [x.astype(jnp.float8_e4m3fn) for x in cached[1:3]]
of_pages = jnp.linspace(0.5, 2, len(caches.k))[:, None]  # scales of pages, which replace those of rows for the first sequence
rows = np.concatenate([caches.table[0] * 16 + row for row in range(16)]).astype(np.int32)
new = [jnp.asarray(np.nan_to_num(np.asarray(x, np.float32)).reshape(-1, *x.shape[2:])[rows], jnp.bfloat16) for x in cached[1:3]]
put = jax.jit(lambda k, v, scale: pb.append(k, v, *eights, jnp.asarray(rows), k_scale=scale, v_scale=scale))
held = put(*new, of_pages)
found = jax.jit(lambda scale: pb.decode(cached[0], *held, *cached[3:], k_scale=scale, v_scale=scale))(of_pages)
scaled = [wide((x.astype(jnp.float32) * of_pages[:, None, :, None]).astype(jnp.bfloat16)) for x in held]
check(found, reference.decoded(wide(cached[0])[:, None], *scaled, caches.lengths, caches.table)[0][:, 0], 2**-6, "scales of pages")
kept = wide(held[0]).reshape(-1, *held[0].shape[2:])[rows] * np.repeat(wide(of_pages), 16, 0)[rows][..., None]
check(kept, wide(new[0]), 0.25, "append by scales of pages")
for scored in (lambda q, scale: pb.decode(q, *cached[1:]),
               lambda q, scale: pb.decode(cached[0], *eights, *cached[3:], k_scale=scale, v_scale=scale)):
    with kit.refused("attention over caches has no gradient, but one is requested"):
        jax.grad(lambda *given: scored(*given).astype(jnp.float32).sum(), (0, 1))(cached[0], jnp.ones(1))
with kit.refused("query_offsets: a sequence has 40 rows, but max_queries is 39"):
    pb.attention(*(x.reshape(-1, 2, 64) for x in (q, k, v)), query_offsets=offsets, key_offsets=offsets, max_queries=39, max_keys=40)


def check_attention_gradients(got, exact, *case):
    for name, x, expected in zip(("dQ", "dK", "dV", "dsinks"), got, exact):
        check(x, expected, 2**-6, name, *case)


for case in reference.DIFFERENTIABLE:
    operands, words = [drawn(*shape) for shape in reference.shapes(case)], with_arrays(case[-1])
    sinks = [words.pop("sinks")] if "sinks" in words else []

    def attend(q, k, v, *sinks):
        return pb.attention(q, k, v, return_lse=True, **dict(zip(["sinks"], sinks)), **words)

    (o, lse), back = jax.vjp(jax.jit(attend), *operands, *sinks)
    grads = drawn(*o.shape), drawn(*lse.shape, dtype=jnp.float32)
    check_attention_gradients(back(grads), reference.attention_gradients(*map(wide, (*operands, *grads)), **case[-1]), case)
with kit.refused("packed sequences, sinks, dropout and caches are not supported under jax.vmap"):
    jax.vmap(lambda q: pb.attention(q, k, v, sinks=jnp.zeros(2)))(q[None])
with kit.refused("dropout_seed is None, but dropout is above 0"):
    pb.attention(q, k, v, dropout=0.1)
summed = jax.grad(lambda q, k, v: pb.attention(q, k, v, causal=True).astype(jnp.float32).sum(), (0, 1, 2))
exact = list(reference.attention_gradients(*map(wide, (q, k, v)), np.ones(q.shape), causal=True))
check_attention_gradients(jax.vmap(summed)(*(x[:, None] for x in (q, k, v))), [x[:, None] for x in exact], "vmap")
check_attention_gradients(jax.jit(jax.shard_map(summed, mesh=mesh, in_specs=(by_heads,) * 3, out_specs=(by_heads,) * 3))(q, k, v), exact, "heads")
check_attention_gradients(jax.grad(jax.checkpoint(lambda q, k, v: pb.attention(q, k, v, causal=True).astype(jnp.float32).sum()),
                                   (0, 1, 2))(q, k, v), exact, "remat")
of_lse = jax.vmap(jax.grad(lambda q, k, v: pb.attention(q, k, v, return_lse=True)[1].sum()))(*(x[:, None] for x in (q, k, v)))
check(of_lse[:, 0], next(reference.attention_gradients(*map(wide, (q, k, v)), np.zeros(q.shape), lse_grad=np.ones((3, 2, 40)))), 2**-6, "lse alone")
flat = [x.reshape(-1, 2, 64) for x in (q, k, v)]
check_attention_gradients(jax.grad(lambda *x: packed(*x).astype(jnp.float32).sum(), (0, 1, 2))(*flat),
                          [x.reshape(-1, 2, 64) for x in reference.attention_gradients(*map(wide, (q, k, v)), np.ones(q.shape))], "packed")
for function, text in ((lambda: pb.attention(q, k, v, out=q), "out: JAX's arrays cannot be written"),
                       (lambda: pb.attention(q, k, v[:, :20]), "V: [3, 20, 2, 64]")):
    with kit.refused(text):
        function()

# Tests loaded kernels of any kind.
path = f"{sys.argv[1]}/saxpy"
x, y = drawn(1000, dtype=jnp.float32), drawn(1000, dtype=jnp.float32)
saxpy = pb.load(path, updates=["y"], device="emulator")


def twice(x, y):
    return saxpy(x=x, y=saxpy(x=x, y=y, alpha=2.0, count=x.size), alpha=3.0, count=x.size)


before = wide(y)
check(saxpy(x=x, y=y, alpha=2.0, count=x.size, device="emulator"), 2 * wide(x) + before, 1e-6, "where the arrays are")
for function in (twice, jax.jit(twice)):
    check(function(x, y), 5 * wide(x) + before, 1e-6, "saxpy")
check(jax.vmap(twice)(jnp.stack([x, y]), jnp.stack([y, x])), [5 * wide(x) + before, 5 * before + wide(x)], 1e-6, "saxpy")
kit.check(np.array_equal(wide(y), before), "JAX's arrays are not written")
tma = pb.load(f"{sys.argv[1]}/saxpy_tma", outputs={"y": lambda given: given["X"].shape}, device="emulator")
X, Y = drawn(8, 32, dtype=jnp.float32), drawn(8, 32, dtype=jnp.float32)
check(jax.jit(lambda X, Y: tma(X=X, Y=Y, alpha=3.0) + 1)(X, Y), 3 * wide(X) + wide(Y) + 1, 1e-6, "saxpy_tma")
by_rows = jax.shard_map(lambda x, y: saxpy(x=x, y=y, alpha=2.0, count=x.size), mesh=mesh, in_specs=(P("x"), P("x")), out_specs=P("x"))
check(jax.jit(by_rows)(x, y), 2 * wide(x) + before, 1e-6, "saxpy on two devices")
# Tests tensors in a struct, one that the kernel updates and one that the call allocates.
scaled = pb.load(struct_kernel.files(), updates=["p.to"], outputs={"y": "p.x"}, device="emulator")


def of_struct(x, to):
    return scaled((32,), p=dict(x=x, n=1000, s=2.0, to=to), bias=1.0)


for function in (of_struct, jax.jit(of_struct)):
    d, to = function(x, jnp.zeros(1000, jnp.float32))
    check(d, 2 * wide(x) + 1, 1e-6, "a struct")
    check(to, np.full(1000, 2.0), 0, "a struct")
with kit.refused("parameter 'p': 's' is missing"):
    scaled((32,), p=dict(x=x, n=1000, to=y), bias=1.0)
with kit.refused("parameter 'p.x' takes a pointer of f32, but the argument is an array of int32"):
    scaled((32,), p=dict(x=x.astype(jnp.int32), n=1000, s=2.0, to=y), bias=1.0)
with kit.refused("JAX must know what it changes"):
    pb.load(path, device="emulator")(x=x, y=y, alpha=2.0, count=1000)
# Tests traced scalars, which are read when the call runs. They may have any type that represents them, be in a struct, and differ for each
# batch and each device.
traced = jax.jit(lambda alpha, count: saxpy(x=x, y=y, alpha=alpha, count=count))
for alpha, count in ((2.0, 1000), (2, np.uint8(200)), (jnp.bfloat16(-0.5), np.int16(300)), (np.float16(0.25), True)):
    check(traced(alpha, count), before + np.where(np.arange(1000) < int(count), float(alpha), 0) * wide(x), 1e-6, alpha, count)
check(jax.vmap(lambda alpha: saxpy(x=x, y=y, alpha=alpha, count=1000))(jnp.array([2.0, 3.0])), [2 * wide(x) + before, 3 * wide(x) + before],
      1e-6, "a scalar of each")
check(jax.jit(lambda s, bias, n: scaled((32,), p=dict(x=x, n=n, s=s, to=y), bias=bias))(3.0, 1, 1000)[0], 3 * wide(x) + 1, 1e-6,
      "traced scalars of a struct")
by_rows = jax.shard_map(lambda x, y, alpha: saxpy(x=x, y=y, alpha=alpha[0], count=x.size), mesh=mesh, in_specs=(P("x"),) * 3, out_specs=P("x"))
check(jax.jit(by_rows)(x, y, jnp.array([2.0, -1.0])), before + np.where(np.arange(1000) < 500, 2, -1) * wide(x), 1e-6, "of two devices")
with kit.refused("parameter 'count' has type u32, but the integer -1 was given: it does not fit", kind=Exception):
    jax.block_until_ready(traced(2.0, -1))
for words, text in ((dict(count=2.0), "parameter 'count' has type u32, but a traced float32 was given"),
                    (dict(alpha=2j), "parameter 'alpha' has type f32, but a traced complex64 was given")):
    with kit.refused(text):
        traced(**{**dict(alpha=2.0, count=1000), **words})
with kit.refused("its grid is traced"):
    jax.jit(lambda grid: saxpy(grid, x=x, y=y, alpha=2.0, count=1000))(3)
# Checks that an error is reported when a call is traced, before XLA runs it.
for words, text in ((dict(x=x.astype(jnp.int32)),
                     "parameter 'x' takes a pointer of f32, but the argument is an array of int32: pass x.astype('float32')"),
                    (dict(y=y.astype(jnp.bfloat16)), "parameter 'y' takes a pointer of f32, but the argument is an array of bfloat16"),
                    (dict(x=[1.0]), "parameter 'x': it is <class 'list'>, but the other tensors are JAX's"),
                    (dict(x=None), "parameter 'x': it is <class "
                                                                                                   "'NoneType'>"),
                    (dict(count=-1), "parameter 'count' has type u32, but the integer -1 was given"),
                    (dict(count=1 << 70), "it does not fit"),
                    (dict(grid=0), "a grid of (0, 1, 1)"), (dict(grid=(1, 1 << 16)), "a grid of (1, 65536, 1)"), (dict(grid=1.5), "a grid of (1.5, 1, 1)")):
    with kit.refused(text):
        jax.eval_shape(lambda: (lambda grid=None, **given: saxpy(grid, **given))(**{**dict(x=x, y=y, alpha=2.0, count=1000), **words}))
with kit.refused("parameter 'X' needs an array of 2 dimensions, but the argument has 3"):
    jax.eval_shape(lambda: tma(X=X[None], Y=Y, alpha=3.0))
with kit.refused("parameter 'y' takes a pointer of f32, but the argument is an array of float16"):
    jax.eval_shape(lambda: pb.load(f"{sys.argv[1]}/saxpy_tma", outputs={"y": ((8, 32), "f16")}, device="emulator")(X=X, Y=Y, alpha=3.0))
check(saxpy(y=y, x=np.ones(1000), alpha=2.0, count=1000), before + 2, 1e-6, "numpy's float64 is float32 in JAX")
with kit.refused("query_offsets: it is <class 'list'>, but the other tensors are JAX's"):
    pb.attention(*(q[0],) * 3, query_offsets=[0, 3], key_offsets=[0, 3], max_queries=3, max_keys=3)
kit.end()

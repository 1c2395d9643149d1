"""Tests products of JAX arrays on the CPU, through the same XLA targets as on a GPU: jit, grad, vmap and shard_map, compared with jnp."""
import jax_cpu  # noqa: F401
import jax
import jax.export
import jax.numpy as jnp
import numpy as np

import kit
import ptxbuilder as pb
import reference
from jax_kit import check, check_beside, drawn, product_of, random, wide
from ptxbuilder._common import ACTIVATIONS
from ptxbuilder._jax.product import _FUNCTIONS


def turned(x, is_turned):
    return x.swapaxes(-1, -2) if is_turned else x


for shapes in (((64, 64), (64, 64)), ((33, 20), (20, 41)), ((3, 17, 24), (3, 24, 40)), ((3, 17, 24), (24, 40)),
               ((2, 1, 9, 24), (3, 24, 8)), ((24, 8), (2, 8, 16)), ((0, 8), (8, 8))):
    a, b = (drawn(*shape) for shape in shapes)
    for function in (pb.matmul, jax.jit(pb.matmul)):
        check(function(a, b), np.matmul(wide(a), wide(b)), 2**-8, shapes)
for dtype, words in ((jnp.float16, {}), (jnp.float32, {"tf32": True}), (jnp.float8_e4m3fn, {}), (jnp.float8_e5m2, {"precise": True})):
    for turn_a in (False, True):
        for turn_b in (False, True):
            a, b = drawn(*((48, 20) if turn_a else (20, 48)), dtype=dtype), drawn(*((40, 48) if turn_b else (48, 40)), dtype=dtype)
            check(pb.matmul(a, b, transpose_a=turn_a, transpose_b=turn_b, **words),
                  turned(wide(a), turn_a) @ turned(wide(b), turn_b), 2**-8, dtype, turn_a, turn_b)

# Tests gradients of every operand.
activations = reference.activations(jnp)
kit.check(set(activations) == set(ACTIVATIONS) == set(_FUNCTIONS), activations, ACTIVATIONS, _FUNCTIONS)
for i, name in enumerate(activations):
    for turn_a in (False, True):
        turn_b = turn_a == (i % 2 == 0)  # every combination of two of these properties occurs
        a, b = drawn(*((72, 24) if turn_a else (24, 72))), drawn(*((40, 72) if turn_b else (72, 40)))
        operands = (a, b, drawn(24, 40), drawn(40))
        weight = wide(drawn(24, 40)).astype(np.float32)

        def ours(a, b, c, bias):
            d = pb.matmul(a, b, c=c, bias=bias, alpha=0.5, beta=2.0, activation=name, transpose_a=turn_a, transpose_b=turn_b)
            return (d.astype(jnp.float32) * weight).sum()

        # The expected values come from the chain rule, because XLA would have to compile a gradient for each case.
        p, q, *added = turned(wide(a), turn_a), turned(wide(b), turn_b), *map(wide, operands[2:])
        of_sum = weight * reference.slope(name, 0.5 * p @ q + 2 * added[0] + added[1])
        expected = turned(0.5 * of_sum @ q.T, turn_a), turned(0.5 * p.T @ of_sum, turn_b), 2 * of_sum, of_sum.sum(0)
        got = jax.jit(jax.grad(ours, (0, 1, 2, 3)))(*operands)
        for x, y, operand in zip(got, expected, "a b c bias".split()):
            kit.check(x.dtype == jnp.bfloat16)
            check(x, y, 2**-7, turn_a, turn_b, name, operand)

# Tests vmap of either operand and of both, along any dimension, inside another vmap, and before and after grad.
for in_a, in_b, a, b in ((0, None, (3, 24, 72), (72, 40)), (None, 0, (24, 72), (3, 72, 40)), (0, 0, (3, 24, 72), (3, 72, 40)),
                         (1, 2, (24, 3, 72), (72, 40, 3)), (None, 0, (2, 24, 72), (3, 72, 40)), (0, None, (3, 24, 72), (2, 72, 40))):
    a, b = drawn(*a), drawn(*b)
    check(jax.vmap(pb.matmul, (in_a, in_b))(a, b), jax.vmap(jnp.matmul, (in_a, in_b))(wide(a), wide(b)), 2**-8, in_a, in_b)
a, b = drawn(2, 3, 24, 72), drawn(3, 72, 40)
check(jax.jit(jax.vmap(jax.vmap(pb.matmul), (0, None)))(a, b), wide(a) @ wide(b), 2**-8, "vmap of vmap")
bias, c = drawn(3, 40), drawn(3, 24, 40)
for map_c in (0, None):
    check(jax.vmap(lambda a, b, bias, c: pb.matmul(a, b, bias=bias, c=c, beta=2.0), (0, None, 0, map_c))(
        a[0], b[0], bias, c if map_c == 0 else c[0]), wide(a[0]) @ wide(b[0]) + wide(bias)[:, None] +
        2 * wide(c if map_c == 0 else c[0]), 2**-7, "a bias of each")


def total(product):
    return lambda a, b: product(a, b).astype(jnp.float32).sum()


for transform in (lambda f: jax.vmap(jax.grad(total(f)), (0, None))(a[0], b[0]),
                  lambda f: jax.grad(lambda b: total(jax.vmap(f, (0, None)))(a[0], b))(b[0]),
                  lambda f: jax.grad(lambda b: total(f)(a[0], b))(b[0])):
    check(transform(pb.matmul), jax.jit(lambda: transform(lambda a, b: (a.astype(jnp.float32) @ b.astype(jnp.float32))))(), 2**-7)

# Tests forward mode for every operand against finite differences in float64. It must agree with reverse mode, and neither mode may compute
# an unnecessary product.
def dot(x, y):
    return sum((wide(p) * wide(q)).sum() for p, q in zip(x, y))


host_activations = reference.activations(np)
for i, name in enumerate(host_activations):
    turn_a, turn_b = i % 2 == 0, i % 4 > 1
    operands = tuple(drawn(*shape, dtype=jnp.float16) for shape in ((72, 24) if turn_a else (24, 72), (40, 72) if turn_b else (72, 40),
                                                                    (24, 40), (40,)))
    tangents = tuple(drawn(*x.shape, dtype=jnp.float16) for x in operands)

    def ours(a, b, c, bias):
        return pb.matmul(a, b, c=c, bias=bias, alpha=0.5, beta=2.0, activation=name, transpose_a=turn_a, transpose_b=turn_b)

    def wide_product(step):
        a, b, c, bias = (wide(x) + step * wide(t) for x, t in zip(operands, tangents))
        return np.asarray(host_activations[name](0.5 * turned(a, turn_a) @ turned(b, turn_b) + 2 * c + bias))

    d, linear = jax.linearize(ours, *operands)
    moved = linear(*tangents)
    check(d, wide_product(0), 2**-9, name, "next to its tangent")
    check(moved, (wide_product(1e-6) - wide_product(-1e-6)) / 2e-6, 2**-8, name, turn_a, turn_b, "its tangent")
    weight = drawn(24, 40, dtype=jnp.float16)
    back = jax.linear_transpose(linear, *operands)(weight)
    scale = np.linalg.norm(wide(moved)) * np.linalg.norm(wide(weight))
    kit.check(abs(dot(back, tangents) - dot([weight], [moved])) < 2**-8 * scale, name, "the way back is the transpose")
a, b = drawn(2, 24, 72), drawn(72, 40)
da, db = drawn(2, 24, 72), drawn(72, 40)
_, moved = jax.vmap(lambda a, da: jax.jvp(pb.matmul, (a, b), (da, db)))(a, da)
check(moved, wide(da) @ wide(b) + wide(a) @ wide(db), 2**-7, "vmap of jvp")
_, moved = jax.jvp(jax.vmap(pb.matmul, (0, None)), (a, b), (da, db))
check(moved, wide(da) @ wide(b) + wide(a) @ wide(db), 2**-7, "jvp of vmap")
_, linear = jax.linearize(pb.matmul, a, b)
(to_a, to_b), = (jax.vmap(jax.linear_transpose(linear, a, b))(jnp.stack([drawn(2, 24, 40)] * 2)),)
kit.check(to_a.shape == (2, *a.shape) and to_b.shape == (2, *b.shape), "vmap of a transpose")
for function, count in ((lambda a, b: pb.matmul(a, b, activation="relu"), 2), (lambda a, b: pb.matmul(a, b, bias=b[0], scale_a=jnp.ones(1)), 2)):
    for transform in (jax.grad(lambda a: function(a, b).astype(jnp.float32).sum()), lambda a: jax.jvp(lambda a: function(a, b), (a,), (a,))):
        kit.check(str(jax.make_jaxpr(transform)(a[0])).count("= ptxbuilder_matmul[") == count, function, "computes what nobody asked for")
# Tests second derivatives: a Hessian, forward over reverse, and the gradient of a gradient.
w, x = drawn(6, 4, dtype=jnp.float32) / 4, drawn(5, 6, dtype=jnp.float32)


def energy(product):
    return lambda w: (product(product(x, w), w.T) ** 2).sum()


def silu(x):
    return x * jax.nn.sigmoid(x)


ours, theirs = energy(lambda x, y: pb.matmul(x, y, tf32=True, activation="silu")), energy(lambda x, y: silu(x @ y))
for transform in (jax.hessian, lambda f: jax.grad(lambda w: (jax.grad(f)(w) ** 2).sum())):
    check(jax.jit(transform(ours))(w), jax.jit(transform(theirs))(w), 2**-7, transform)

# Tests two devices. First, each holds some rows of A; then each holds some columns of A and rows of B, and the products are summed.
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
P = jax.sharding.PartitionSpec
a, b = drawn(32, 64), drawn(64, 48)
for product, in_specs, out_specs in ((pb.matmul, (P("x", None), P()), P("x", None)),
                                     (lambda a, b: jax.lax.psum(pb.matmul(a, b, out_dtype="f32"), "x"),
                                      (P(None, "x"), P("x", None)), P())):
    sharded = jax.shard_map(product, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
    check(jax.jit(sharded)(a, b), wide(a) @ wide(b), 2**-8, in_specs)
    for x, y in zip(jax.grad(lambda a, b: sharded(a, b).astype(jnp.float32).sum(), (0, 1))(a, b),
                    jax.jit(jax.grad(lambda a, b: (a.astype(jnp.float32) @ b.astype(jnp.float32)).sum(), (0, 1)))(a, b)):
        check(x, y, 2**-7, in_specs, "gradients")

for words, text in ((dict(out=a), "out: JAX's arrays cannot be written"), (dict(device="cuda"), "device: JAX's arrays"),
                    (dict(device="cpu"), "use 'emulator', or 'cuda'"),
                    (dict(activation="tanh"), "activation 'tanh' is not one of"), (dict(c=a), "C: its shape is (32, 64)"),
                    (dict(bias=b), "but must be bf16 if D is bf16, of [48]"),
                    (dict(bias=b[0].astype(jnp.float32)), "bias: it is [48] of f32, but must be bf16"),
                    (dict(beta=1.0), "beta is 1, but C is NULL"), (dict(out_dtype=jnp.int8), "D of s8 from A of bf16")):
    with kit.refused(text):
        pb.matmul(a, b, **words)
for function in (lambda: pb.matmul(a, b, device="emulator"), jax.jit(lambda: pb.matmul(a, b, device="emulator"))):
    check(function(), wide(a) @ wide(b), 2**-8, "where the arrays are")
with kit.refused("B must have 48 rows"):
    pb.matmul(b, b)
with kit.refused("A and B: they have 1 and 2 dimensions"):
    pb.matmul(a[0], b)
with kit.refused("set `tf32` to allow it"):
    pb.matmul(a.astype(jnp.float32), b.astype(jnp.float32))
with kit.refused("beta: it is traced"):
    jax.jit(lambda beta: pb.matmul(a, b, c=a @ b, beta=beta))(2.0)
a8, b8 = a.astype(jnp.float8_e4m3fn), b.astype(jnp.float8_e4m3fn)
for transform in (lambda f: jax.grad(f)(a8), lambda f: jax.jvp(f, (a8,), (a8,))):
    with kit.refused("have no gradients"):
        transform(lambda a: pb.matmul(a, b8, out_dtype="f32").sum())
check(jax.grad(lambda s: pb.matmul(a8, b8, scale_a=s, out_dtype="f32").sum())(jnp.ones(32)), (wide(a8) @ wide(b8)).sum(1), 1e-5,
      "the gradient of 8 bits' scales")

# Tests the other arguments, traced or not, with A and B plain and transposed. The amax is a second result.
check_beside(pb)
for case in reference.PRODUCTS:
    tensors, wide_ones, words, has_amax = product_of(case)
    if "8" in case[2] + case[3] or 0 in case[0]:
        continue
    weight = wide(drawn(*pb.matmul(**tensors, **words).shape)).astype(np.float32)

    def ours(tensors):
        return (pb.matmul(**tensors, **words).astype(jnp.float32) * weight).sum()

    def theirs(tensors):
        t = {name: x.astype(jnp.float32) for name, x in tensors.items()}
        f = activations[words.get("activation")]
        x, _ = reference.with_operands(t, words.get("alpha", 1.0), words.get("beta", 1.0))
        if words.get("gate"):
            return (f(x[..., 0::2]) * x[..., 1::2] * weight).sum()
        return ((x * jax.grad(lambda z: f(z).sum())(t["slope_of"]) if "slope_of" in t else f(x)) * weight).sum()

    got, expected = jax.jit(jax.grad(ours))(tensors), jax.jit(jax.grad(theirs))(tensors)
    for name in tensors:
        kit.check(got[name].dtype == tensors[name].dtype)
        check(got[name], expected[name], 2**-6 if got[name].size > 1 else 2**-4, case, name)
    tangents = {name: jnp.asarray(random.standard_normal(x.shape).astype(x.dtype)) for name, x in tensors.items()}
    moved = float(jax.jit(lambda: jax.jvp(ours, (tensors,), (tangents,))[1])())
    scale = sum(np.linalg.norm(wide(expected[name])) * np.linalg.norm(wide(tangents[name])) for name in tensors)
    kit.check(abs(moved - dot(*zip(*((expected[name], tangents[name]) for name in tensors)))) < 2**-7 * scale, case, "jvp")
    for more in (dict(amax=True), dict(scale_result=jnp.ones(1)), dict(out_dtype="e4m3")):
        if "out_dtype" in more and {"bias", "c", "slope_of"} & set(tensors):
            continue  # these tensors have a different type if D is e4m3
        with kit.refused("not supported if a gradient of the product is requested"):
            jax.grad(lambda a: jnp.sum(jax.tree.leaves(pb.matmul(**{**tensors, **words, "a": a, **more}))[0].astype(jnp.float32)))(tensors["a"])
rows, columns = jnp.asarray(random.standard_normal(32), jnp.float32), jnp.asarray(random.standard_normal(48), jnp.float32)
gated = dict(activation="silu", gate=True, scale_b=columns)
d, amax = jax.vmap(lambda a, rows: pb.matmul(a, b, scale_a=rows, amax=True, **gated))(jnp.stack([a, -a]), jnp.stack([rows, 2 * rows]))
for i, x in enumerate((pb.matmul(a, b, scale_a=rows, amax=True, **gated), pb.matmul(-a, b, scale_a=2 * rows, amax=True, **gated))):
    check(d[i], x[0], 2**-8, "vmap")
    check(amax[i], x[1], 1e-5, "vmap's amax")
kit.check(pb.matmul(a, b, amax=jnp.full(1, 1e9, jnp.float32))[1] == 1e9, "a greater amax stays")
kit.check(isinstance(pb.matmul(a, b, amax=False), jax.Array), "no amax")
check(jax.jit(lambda alpha: pb.matmul(a, b, alpha=alpha))(2), 2 * wide(a) @ wide(b), 2**-8, "alpha is an integer that is traced")
for activation in (None, "relu", "gelu"):
    with kit.refused("out_dtype of float8_e4m3fn: not supported if a gradient of the product is requested"):
        jax.grad(lambda a: pb.matmul(a, b, activation=activation, out_dtype="e4m3").astype(jnp.float32).sum())(a)
for words in (dict(alpha="2"), dict(c=jnp.zeros((a.shape[0], b.shape[1]), b.dtype), beta="1"), dict(alpha="2", scale_a=rows)):
    with kit.refused("is a str; it must be a number"):
        pb.matmul(a, b, **words)
check(jax.jit(lambda alpha: pb.matmul(a, b, alpha=alpha))(2.0), 2 * wide(a) @ wide(b), 2**-8, "alpha is traced")
sharded = jax.shard_map(lambda a, rows: pb.matmul(a, b, scale_a=rows, **gated), mesh=mesh, in_specs=(P("x"), P("x")), out_specs=P("x"))
check(jax.jit(sharded)(a, rows), pb.matmul(a, b, scale_a=rows, **gated), 0, "scales on two devices")
for words, text in ((dict(scale_a=columns), "scale_a: its shape is (48,); it must be (32,) or (32, 1), or have one element"),
                    (dict(gate=True), "gate needs an activation"), (dict(scale_result=rows), "scale_result: its shape is (32,)"),
                    (dict(alpha=rows), "alpha: its shape is (32,)"), (dict(amax=rows), "amax: its shape is (32,)"),
                    (dict(slope_of=a, activation="silu"), "slope_of: its shape is (32, 64)"),
                    (dict(scale_a=rows, bias=columns), "of f32, but must be bf16 if D is bf16")):
    with kit.refused(text):
        pb.matmul(a, b, **words)
for words, text in ((dict(b=[[1.0]]), "B: it is <class 'list'>, but the other tensors are JAX's"), (dict(b=None), "B: it is <class 'NoneType'>"),
                    (dict(bias=[1.0]), "bias: it is <class 'list'>, but"),
                    (dict(scale_a="x"), "scale_a: it is <class 'str'>, but the other tensors are JAX's"),
                    (dict(alpha=None), "alpha: None is a NoneType")):
    with kit.refused(text):
        pb.matmul(**{"a": a, "b": b, **words})
# Tests groups as in jax.lax.ragged_dot, their gradients, and groups of k.
ends = jnp.asarray(reference.ENDS)
sizes = jnp.diff(ends, prepend=0)
x, y = (jnp.asarray(random.standard_normal(shape), jnp.bfloat16) for shape in ((reference.ALL, 72), (5, 72, 56)))
grad = jnp.asarray(random.standard_normal((reference.ALL, 56)), jnp.bfloat16)
for way in (pb.ragged_dot, jax.jit(pb.ragged_dot)):
    d, back = jax.vjp(lambda x, y: way(x, y, sizes), x, y)
    check(d, reference.grouped(wide(x), wide(y), reference.ENDS), 2**-7, "ragged_dot")
    for got, exact in zip(back(grad), reference.grouped_gradients(wide(x), wide(y), reference.ENDS, wide(grad))):
        check(got, exact, 2**-7, "gradients of ragged_dot")
check(jax.jit(pb.grouped_mm)(x.T, grad, ends), reference.grouped(wide(x).T, wide(grad), reference.ENDS), 2**-7, "groups of k")
check(pb.grouped_mm(x, y, ends, jnp.ones((5, 56), jnp.bfloat16))[:120], 1 + reference.grouped(wide(x), wide(y), reference.ENDS)[:120], 2**-7,
      "a bias of groups")
rows, few = jnp.asarray(reference.GATHERED), jnp.asarray(random.standard_normal((reference.ROWS_OF_A, 72)), jnp.bfloat16)
taken = reference.gathered(wide(few), reference.GATHERED)
for way in (pb.grouped_mm, jax.jit(pb.grouped_mm)):
    d, back = jax.vjp(lambda x, y: way(x, y, ends, a_rows=rows), few, y)
    check(d, reference.grouped(taken, wide(y), reference.ENDS), 2**-7, "gathered rows")
    of_rows, of_y = reference.grouped_gradients(taken, wide(y), reference.ENDS, wide(grad))
    for got, exact in zip(back(grad), (reference.scattered(reference.GATHERED, of_rows, len(few)), of_y)):
        check(got, exact, 2**-7, "gradients of gathered rows")
places = jnp.asarray(reference.PLACES)
d, back = jax.vjp(lambda x, y: pb.grouped_mm(x, y, ends, a_rows=rows, d_rows=places), few, y)
check(d[places], reference.grouped(taken, wide(y), reference.ENDS), 2**-7, "scattered rows")
of_rows, of_y = reference.grouped_gradients(taken, wide(y), reference.ENDS, wide(grad)[reference.PLACES])
for got, exact in zip(back(grad), (reference.scattered(reference.GATHERED, of_rows, len(few)), of_y)):
    check(got, exact, 2**-7, "gradients of scattered rows")
matrices, order = [y[i] for i in range(5)], [3, 1, 4, 4, 0]
with jax.enable_x64():
    addresses = jnp.asarray([matrices[i].unsafe_buffer_pointer() for i in order])
    for way in (pb.grouped_mm, jax.jit(pb.grouped_mm)):
        d, back = jax.vjp(lambda x: way(x, matrices[1], ends, b_addresses=addresses), x)
        check(d, reference.grouped(wide(x), wide(y)[order], reference.ENDS), 2**-7, "addresses")
        of_x, _ = reference.grouped_gradients(wide(x), wide(y)[order], reference.ENDS, wide(grad))
        check(*back(grad), of_x, 2**-7, "gradients with addresses")
counts = jnp.asarray([3, 0, 40, 7, 26], jnp.int32)
counted = np.arange(reference.ALL) % 26 < np.asarray(counts).repeat(26)
for way in (pb.matmul, jax.jit(pb.matmul)):
    exact = (wide(x).reshape(5, 26, 72) @ wide(y)).reshape(-1, 56)
    check(np.asarray(way(x, y, counts=counts))[counted], exact[counted], 2**-7, "counted rows")
with kit.refused("counts: not supported if a gradient of the product is requested"):
    jax.grad(lambda x: pb.matmul(x, y, counts=counts, out_dtype="f32").sum())(x)
begin = jnp.asarray(random.standard_normal((reference.ROWS_OF_A, 56)), jnp.bfloat16)
weights = jnp.asarray(random.uniform(0.5, 2, reference.ALL), jnp.float32)
plain = reference.grouped(wide(x), wide(y), reference.ENDS)
for way in (pb.matmul, jax.jit(pb.matmul)):
    def added(x, y, c, weights):
        return way(x, y, c=c, offs=ends, add_to_rows=rows, scale_a=weights)

    exact = wide(begin) + reference.scattered(reference.GATHERED, plain * np.asarray(weights)[:, None], reference.ROWS_OF_A)
    check(added(x, y, begin, weights), exact, 2**-6, "added rows")
    check(added(x, y, begin, weights), exact, 2**-6, "added rows, whose C has stayed as it was")
    d, back = jax.vjp(added, x, y, begin, weights)
    check(d, exact, 2**-6, "added rows that JAX adds")
    of_d = grad[:reference.ROWS_OF_A]
    of_product = reference.gathered(wide(of_d), reference.GATHERED)
    expected = (*reference.grouped_gradients(wide(x), wide(y), reference.ENDS, of_product * np.asarray(weights)[:, None]), wide(of_d),
                (of_product * plain).sum(1))
    for got, exact in zip(back(of_d), expected):
        check(got, exact, 2**-6, "gradients of added rows")
check(pb.matmul(x, y[0], c=begin, add_to_rows=rows),
      wide(begin) + reference.scattered(reference.GATHERED, wide(x) @ wide(y[0]), reference.ROWS_OF_A), 2**-6, "added rows of one matrix")
with kit.refused("bias with offs: not supported if a gradient of the product is requested"):
    jax.vjp(lambda x: pb.matmul(x, y[0], c=begin, add_to_rows=rows, scale_a=weights, bias=jnp.ones(56, jnp.bfloat16)), x)
with kit.refused("add_to_rows: neither out nor C is given"):
    pb.matmul(x, y[0], add_to_rows=rows)
d, back = jax.vjp(lambda x, y: pb.matmul(x, y, a_rows=rows), few, y[0])
check(d, taken @ wide(y[0]), 2**-7, "gathered rows of one matrix")
for got, exact in zip(back(grad), (reference.scattered(reference.GATHERED, wide(grad) @ wide(y[0]).T, len(few)), taken.T @ wide(grad))):
    check(got, exact, 2**-7, "gradients of gathered rows of one matrix")
check(pb.matmul(few, y[0], bias=jnp.ones(56, jnp.bfloat16), a_rows=rows), 1 + taken @ wide(y[0]), 2**-7, "gathered rows and a bias")
with kit.refused("a_rows: (1, 130) of int32; it must be [m] of int32"):
    pb.grouped_mm(few, y, ends, a_rows=rows[None])
with kit.refused("precision and group_offset: they must be None"):
    pb.ragged_dot(x, y, sizes, precision="highest")

# Tests block scales.
x, y = (jnp.asarray(random.standard_normal(shape), jnp.float8_e4m3fn) for shape in ((64, 384), (384, 144)))
of_x, of_y = (jnp.asarray(random.uniform(0.5, 2, shape), jnp.float32) for shape in ((3, 64), (2, 3)))
exact = reference.in_blocks(wide(x), wide(y), np.asarray(of_x), np.asarray(of_y))
for way in (pb.matmul, jax.jit(pb.matmul, static_argnames="out_dtype")):
    check(way(x, y, scale_a_1x128=of_x, scale_b_128x128=of_y, out_dtype="f32"), exact, 2**-9, "blocks")
check(pb.scaled_mm(x, y, of_x.T, "BlockWise1x128", of_y.T, "BlockWise128x128"), exact, 2**-7, "scaled_mm")
of_rows = jnp.asarray(random.uniform(0.5, 2, (3, reference.ALL)), jnp.float32)
exact = reference.in_blocks(reference.gathered(wide(x)[:reference.ROWS_OF_A], reference.GATHERED), wide(y), np.asarray(of_rows), np.asarray(of_y))
check(pb.matmul(x[:reference.ROWS_OF_A], y, a_rows=rows, scale_a_1x128=of_rows, scale_b_128x128=of_y, out_dtype="f32"), exact, 2**-9,
      "gathered rows with scales of blocks")
with kit.refused("under jax.vmap"):
    jax.vmap(lambda x: pb.matmul(x, y, scale_a_1x128=of_x, scale_b_128x128=of_y))(x[None])

# Tests sparse matrices.
w = jnp.asarray(reference.with_zeros(random, random.standard_normal((144, 200))), jnp.bfloat16)
x = jnp.asarray(random.standard_normal((64, 200)), jnp.bfloat16)
s = pb.compress_2_4(w)
kit.check((wide(pb.decompress_2_4(s)) == wide(w)).all(), "compress_2_4 and back")
for way in (pb.matmul, jax.jit(pb.matmul, static_argnames="transpose_b")):
    check(way(x, s, transpose_b=True), wide(x) @ wide(w).T, 2**-7, "a sparse B")
    check(way(s, x, transpose_b=True), wide(w) @ wide(x).T, 2**-7, "a sparse A")
check(pb.matmul(x, s, transpose_b=True, d_rows=jnp.arange(64, dtype=jnp.int32)), wide(x) @ wide(w).T, 2**-7, "a sparse B and scattered "
                                                                                                "rows")
with kit.refused("b_metadata: not supported if a gradient of the product is requested"):
    jax.grad(lambda x: pb.matmul(x, s, transpose_b=True, out_dtype="f32").sum())(x)
with kit.refused("under jax.vmap"):
    jax.vmap(lambda x: pb.matmul(x, s, transpose_b=True))(x[None])

symbolic = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n, 64"), jnp.bfloat16)
with kit.refused("has symbols, but an operation is compiled for numbers"):
    jax.export.export(jax.jit(lambda a: pb.matmul(a, b)))(symbolic)

# Tests gradients of f16 operands when the result is f32 or bf16 and the incoming gradient is above or below the range of f16.
for name in ("f32", "bf16"):
    for size in (1e6, 1e-7):
        a, b = (drawn(*shape, dtype=jnp.float16) * jnp.float16(1e-3 if size > 1 else 1e2) for shape in ((24, 16), (16, 40)))
        weight = jnp.asarray(size * wide(drawn(24, 40)), {"f32": jnp.float32, "bf16": jnp.bfloat16}[name])
        p, q, w = wide(a), wide(b), wide(weight)
        for found in (jax.vjp(lambda a, b: pb.matmul(a, b, out_dtype=name), a, b)[1](weight),
                      jax.jit(lambda a, b, weight: jax.vjp(lambda a, b: pb.matmul(a, b, out_dtype=name), a, b)[1](weight))(a, b, weight)):
            check(found[0], w @ q.T, 2**-9, name, size)
            check(found[1], p.T @ w, 2**-9, name, size)
        in_groups = jax.vjp(lambda a, b: pb.ragged_dot(a, b, jnp.array([10, 14], jnp.int32), preferred_element_type=weight.dtype), a,
                            jnp.stack([b, b]))[1](weight)
        check(in_groups[0], w @ q.T, 2**-9, name, size, "groups")
        check(in_groups[1], np.stack([p[:10].T @ w[:10], p[10:].T @ w[10:]]), 2**-9, name, size, "groups")
kit.end()

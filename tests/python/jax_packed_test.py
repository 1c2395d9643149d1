"""Tests packed weights with JAX arrays on the CPU: packed and unpacked, multiplied and differentiated, compared with float64, and refused
calls."""
import jax_cpu  # noqa: F401
import jax
import jax.numpy as jnp
import numpy as np

import kit
import ptxbuilder as pb
import reference
from jax_kit import check, drawn, random, wide
from packed_kit import plain

activations = reference.activations(np)
CASES = [("int4", 72, 200, 32, np.float16, None), ("uint4", 130, 96, 64, np.float32, "relu"), ("uint4", 8, 140, 0, np.float32, "silu"),
         ("int8", 40, 264, 128, jnp.bfloat16, "gelu"), ("int8", 70, 72, 0, np.float32, "relu_squared")]
for *form, activation in CASES:
    type, n, k, group, _ = form
    (w, s, z), exact = plain(random, *form)
    packed = pb.pack_weights(*(None if x is None else jnp.asarray(x) for x in (w, s, z)), type=type, group=group)
    back = pb.unpack_weights(packed)
    kit.check(isinstance(packed.data, jax.Array) and packed.data.dtype == jnp.uint8 and packed.shape == (k, n), form)
    kit.check(np.array_equal(back[0], w) and np.array_equal(wide(back[1]), wide(s)) and (z is None or np.array_equal(back[2], z)), form)
    a, c, bias, grad = drawn(2, 3, k), drawn(2, 3, n), drawn(n), drawn(2, 3, n)

    def product(a, packed, c, bias):
        return pb.packed_mm(a, packed, bias, c, alpha=0.5, beta=2.0, activation=activation)

    x = 0.5 * wide(a) @ exact.T + 2 * wide(c) + wide(bias)
    dx = wide(grad) * reference.slope(activation, x)
    for way in (product, jax.jit(product)):
        check(way(a, packed, c, bias), activations[activation](x), 2**-8, form, activation)
    d, back = jax.jit(lambda *given: jax.vjp(lambda a, c, bias: product(a, packed, c, bias), *given))(a, c, bias)
    check(d, activations[activation](x), 2**-7, form, activation, "next to its gradients")
    for name, got, exactly in zip(("A", "C", "bias"), back(grad), (0.5 * dx @ exact, 2 * dx, dx.sum((0, 1)))):
        kit.check(got.dtype == jnp.bfloat16)
        check(got, exactly, 2**-6, form, activation, "the gradient of", name)

# Tests types: weights of 8-bit floats, and rows of f16, whose range is smaller than that of the scales.
w = np.asarray(random.standard_normal((72, 136)), jnp.float8_e4m3fn)
for group, size in ((64, 1e6), (0, 1e-6), (128, 1.0)):
    s = (size * random.uniform(0.5, 2, (72, -(-136 // group) if group else 1))).astype(np.float32)
    exact = wide(w) * s.astype(float)[:, np.arange(136) // group if group else np.zeros(136, int)]
    packed, a = pb.pack_weights(jnp.asarray(w), jnp.asarray(s), group=group), drawn(5, 136, dtype=jnp.float16)
    d, back = jax.vjp(lambda a: pb.packed_mm(a, packed, out_dtype="f32"), a)
    grad = jnp.asarray(wide(drawn(5, 72)) / size, jnp.float32)
    check(d, wide(a) @ exact.T, 1e-5, group, "e4m3")
    check(back(grad)[0], wide(grad) @ exact, 2**-6, group, "the gradient of A of f16")
    check(pb.packed_mm(a[0], packed, out_dtype="f32"), wide(a[0]) @ exact.T, 1e-5, group, "one row")

# Some experts have no rows, and some rows belong to no expert.
ends, index = np.array([0, 5, 5, 12], np.int32), np.searchsorted([0, 5, 5, 12], np.arange(15), side="right")
for *form, activation in CASES[:2] + CASES[4:]:
    type, n, k, group, _ = form
    each = [plain(random, *form) for _ in ends]
    given = (None if x[0] is None else jnp.asarray(np.stack(x)) for x in zip(*(given for given, _ in each)))
    experts = pb.pack_weights(*given, type=type, group=group)
    exact_of_rows = np.stack([numbers for _, numbers in each] + [np.zeros((n, k))])[index]
    a, c, bias, grad = drawn(15, k), drawn(15, n), drawn(4, n), drawn(15, n)

    def of_experts(a, experts, c, bias, offs):
        return pb.packed_mm(a, experts, bias, c, alpha=0.5, beta=2.0, activation=activation, offs=offs)

    x = 0.5 * np.einsum("mk,mnk->mn", wide(a), exact_of_rows) + 2 * wide(c) + np.concatenate([wide(bias), np.zeros((1, n))])[index]
    dx = wide(grad) * reference.slope(activation, x)
    for way in (of_experts, jax.jit(of_experts)):
        check(way(a, experts, c, bias, jnp.asarray(ends)), activations[activation](x), 2**-7, form, activation, "experts")
        d, back = jax.vjp(lambda a, c, bias: way(a, experts, c, bias, jnp.asarray(ends)), a, c, bias)
        of_bias = np.zeros((5, n))
        np.add.at(of_bias, index, dx)
        for name, got, exactly in zip(("A", "C", "bias"), back(grad),
                                      (0.5 * np.einsum("mn,mnk->mk", dx, exact_of_rows), 2 * dx, of_bias[:4])):
            check(got, exactly, 2**-6, form, activation, "the gradient of", name, "of experts")
    few, rows = a[:6], jnp.asarray(np.arange(15) * 5 % 8 - 1, jnp.int32)  # some are rows that A does not have
    exact_of_few = np.einsum("mk,mnk->mn", reference.gathered(wide(few), np.asarray(rows)), exact_of_rows)
    of_few = reference.scattered(np.asarray(rows), np.einsum("mn,mnk->mk", wide(grad), exact_of_rows), 6)
    for way in (pb.packed_mm, jax.jit(pb.packed_mm)):
        d, back = jax.vjp(lambda few: way(few, experts, offs=jnp.asarray(ends), a_rows=rows), few)
        check(d, exact_of_few, 2**-7, form, "gathered rows")
        check(*back(grad), of_few, 2**-6, form, "the gradient of gathered rows")
with kit.refused("offs of packed weights is not supported under jax.vmap"):
    jax.vmap(lambda a: pb.packed_mm(a, experts, offs=jnp.asarray(ends)))(a[None])

# Tests vmap of rows and of their addends, before and after grad.
a, c, bias = drawn(4, 3, 136), drawn(4, 3, 72), drawn(4, 72)
exact = wide(a) @ wide(exact.T)
for mapped, more in (((0, None, None), lambda c, bias: bias[0] + 2 * c[0]), ((0, 0, None), lambda c, bias: bias[0] + 2 * c),
                     ((0, 0, 0), lambda c, bias: bias[:, None] + 2 * c), ((0, None, 0), lambda c, bias: bias[:, None] + 2 * c[0])):
    given = [x if axis == 0 else x[0] for x, axis in zip((a, c, bias), mapped)]
    got = jax.vmap(lambda a, c, bias: pb.packed_mm(a, packed, bias, c, beta=2.0), mapped)(*given)
    check(got, exact + more(wide(c), wide(bias)), 2**-7, "vmap", mapped)
by_row = np.ones((4, 3, 72)) @ (wide(w) * wide(s)[:, np.arange(136) // 128])
check(jax.vmap(jax.grad(lambda a: pb.packed_mm(a, packed, out_dtype="f32").sum()))(a), by_row, 2**-6, "vmap of grad")

symbols = jnp.asarray(w), jnp.asarray(s)
for text, call in {
        "scale_b of packed weights": lambda: jax.grad(lambda s: pb.packed_mm(a[0], pb.pack_weights(symbols[0], jnp.ones((72, 1)))._replace(
            scale_b=s)).astype(jnp.float32).sum())(jnp.ones(72)),
        "it is traced, but weights are packed": lambda: jax.jit(pb.pack_weights)(*symbols),
        "jax.vmap does not support packed weights": lambda: jax.vmap(lambda b: pb.packed_mm(a[0], b))(jax.tree.map(lambda x: x[None],
                                                                                                                   packed)),
        "alpha: it is of type DynamicJaxprTracer": lambda: jax.jit(lambda alpha: pb.packed_mm(a, packed, alpha=alpha))(2.0),
        "out_dtype of float8_e4m3fn": lambda: jax.grad(lambda a: pb.packed_mm(a, packed, out_dtype="e4m3").astype(jnp.float32).sum())(a),
        "out: JAX's arrays cannot be written": lambda: pb.packed_mm(a, packed, out=a),
        "A's last dimension must be 136": lambda: pb.packed_mm(a[..., :8], packed),
        "C: its shape is (3, 72)": lambda: pb.packed_mm(a, packed, c=c[0])}.items():
    with kit.refused(text):
        call()
kit.end()

"""A JAX layer of experts with our products, forward and backward, under jax.jit. A router chooses k experts for each token. The results are
compared with separate products.

The program runs on a GPU if there is one, and then prints its time and the time with jax.lax.ragged_dot; otherwise products run on the
emulator.
"""
import functools
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

import ptxbuilder as pb

on_gpu = jax.default_backend() == "gpu"


def probabilities(x, router):
    return jax.nn.softmax(jnp.matmul(x.astype(jnp.float32), router.astype(jnp.float32), precision="highest"))


def layer(x, router, up, down, k, grouped, chosen=None):
    """Returns the weighted sum of the chosen experts' results. x is [tokens, d], router [d, experts], up [experts, d, 2 f] and down
    [experts, f, d]. The first product reads each row of x in place. The second writes the results of a token to consecutive rows, which are
    summed in a fixed order, so that a step is bitwise reproducible. If probabilities are nearly equal, another precision may choose other
    experts; to compare two precisions, pass `chosen`."""
    all_weights = probabilities(x, router)
    chosen = jax.lax.top_k(all_weights, k)[1] if chosen is None else chosen
    weight = jnp.take_along_axis(all_weights, chosen, 1)
    weight = weight / weight.sum(-1, keepdims=True)
    order = jnp.argsort(chosen.ravel(), stable=True)  # rows by expert
    sizes = jnp.bincount(chosen.ravel(), length=router.shape[1]).astype(jnp.int32)
    gate, value = jnp.split(grouped(x, up, sizes, a_rows=order // k), 2, -1)
    rows = grouped(jax.nn.silu(gate) * value, down, sizes, d_rows=order)
    return (rows.reshape(*chosen.shape, -1) * weight[:, :, None].astype(rows.dtype)).sum(1)


def ours(a, b, sizes, **rows):
    return pb.grouped_mm(a, b, jnp.cumsum(sizes, dtype=jnp.int32), **{word: x.astype(jnp.int32) for word, x in rows.items()})


def by_copies(product, a, b, sizes, a_rows=None, d_rows=None):
    y = product(a if a_rows is None else a[a_rows], b, sizes)
    return y if d_rows is None else jnp.zeros_like(y).at[d_rows].set(y)


def theirs(a, b, sizes, **rows):
    return by_copies(jax.lax.ragged_dot, a, b, sizes, **rows)


def each_row(a, b, sizes):
    expert = jnp.repeat(jnp.arange(len(sizes)), sizes, total_repeat_length=len(a))
    return jnp.einsum("td,tdf->tf", a, b[expert])


def one_by_one(a, b, sizes, **rows):
    return by_copies(each_row, a, b, sizes, **rows)


@functools.partial(jax.jit, static_argnums=(2, 3))
def step(given, grad, k, grouped, chosen=None):
    y, back = jax.vjp(lambda *x: layer(*x, k, grouped, chosen), *given)
    return y, *back(grad)


def operands(tokens, d, f, experts):
    random = np.random.default_rng()
    shapes = (tokens, d), (d, experts), (experts, d, 2 * f), (experts, f, d)
    return [jnp.asarray(random.standard_normal(shape) / shape[-2]**0.5 ** (i > 0), jnp.bfloat16) for i, shape in enumerate(shapes)]


given = operands(40, 64, 32, 5)
grad = jnp.asarray(np.random.default_rng().standard_normal(given[0].shape), jnp.bfloat16)
chosen = jax.lax.top_k(probabilities(*given[:2]), 2)[1]
found = step(given, grad, 2, ours, chosen)
right = step([x.astype(jnp.float32) for x in given], grad.astype(jnp.float32), 2, one_by_one, chosen)
for name, a, b in zip(("y", "of x", "of the router", "of up", "of down"), found, right):
    error = float(jnp.linalg.norm((a - b).ravel()) / jnp.linalg.norm(b.ravel()))
    print(f"{name}: off by {error:.4f}")
    assert error < 0.02, f"{name} is wrong"

if on_gpu:
    given = operands(4096, 2048, 1024, 32)
    grad = given[0]

    def milliseconds(grouped):
        times = []
        for _ in range(20):
            begin = time.perf_counter()
            jax.block_until_ready(step(given, grad, 2, grouped))
            times.append(1e3 * (time.perf_counter() - begin))
        return statistics.median(times[5:])

    print(f"a step: {milliseconds(ours):.3f} ms, by jax.lax.ragged_dot {milliseconds(theirs):.3f} ms")

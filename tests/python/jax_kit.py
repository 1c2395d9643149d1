"""What the tests of JAX share, on the CPU and on a GPU: arrays that are drawn, and their comparison in float64."""
import jax.numpy as jnp
import kit
import numpy as np

random = np.random.default_rng(7)


def drawn(*shape, dtype=jnp.bfloat16):
    return jnp.asarray(random.standard_normal(shape), dtype)


def wide(x):
    return np.asarray(x).astype(np.float64)


def check(got, expected, bound, *words):
    got, expected = wide(got), wide(expected)
    if kit.check(got.shape == expected.shape, *words, got.shape, expected.shape):
        error = np.linalg.norm(got - expected) / max(np.linalg.norm(expected), 1e-30)
        kit.check(error <= bound, *words, f"off by {error:.2e}, more than {bound:.2e}")

"""Holds helpers that the tests of JAX on the CPU and on a GPU share: random arrays, and comparison in float64."""
import jax
import jax.numpy as jnp
import kit
import numpy as np
import reference

random = np.random.default_rng(7)


def drawn(*shape, dtype=jnp.bfloat16):
    # NumPy converts the values, because XLA would compile a conversion for each shape.
    return jnp.asarray(random.standard_normal(shape).astype(dtype))


def wide(x):
    return np.asarray(x).astype(np.float64)


def check(got, expected, bound, *words):
    got, expected = wide(got), wide(expected)
    if kit.check(got.shape == expected.shape, *words, got.shape, expected.shape):
        error = np.linalg.norm(got - expected) / max(np.linalg.norm(expected), 1e-30)
        kit.check(error <= bound, *words, f"off by {error:.2e}, more than {bound:.2e}")


def product_of(case):
    """Returns a case of reference.PRODUCTS: arrays, the same numbers in float64, arguments, and whether the case has an amax."""
    drawn_case, words = reference.drawn_product(case, random)
    tensors = {name: jnp.asarray(x.astype(jnp.dtype(kind))) for name, (x, kind) in drawn_case.items()}
    return tensors, {name: wide(x) for name, x in tensors.items()}, words, "amax" in case[4]


def check_beside(pb):
    """Tests every case directly, and under jax.jit with A and B transposed."""
    for case in reference.PRODUCTS:
        tensors, wide_ones, words, has_amax = product_of(case)
        more = {"amax": True} if has_amax else {}
        turned = {**tensors, **{name: jnp.asarray(np.asarray(tensors[name]).swapaxes(-1, -2)) for name in "ab"}}
        for result in (pb.matmul(**tensors, **words, **more),
                       jax.jit(lambda given: pb.matmul(**given, **words, **more, transpose_a=True, transpose_b=True))(turned)):
            d, amax = result if has_amax else (result, None)
            kit.check(str(d.dtype) == words["out_dtype"])
            problem = reference.wrong_product(wide(d), None if amax is None else float(amax), wide_ones, words)
            kit.check(not problem, case, problem)


def with_arrays(words):
    """Returns the arguments with numpy arrays replaced by JAX arrays."""
    return {name: jax.numpy.asarray(x) if isinstance(x, np.ndarray) else x for name, x in words.items()}

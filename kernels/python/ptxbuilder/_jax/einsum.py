"""Contractions of JAX arrays. These arrays have no gaps, so JAX makes dimensions adjacent, and matmul() computes the product and its
derivatives.
"""
import math

import jax.numpy as jnp

from .._einsum import shape_of, text_of
from .._product import Operands, Options
from .ffi import check_arrays
from .product import matmul


def einsum(letters, a, b, out, words):
    check_arrays({"A": a, "B": b}, out=out)
    if out is not None:
        raise ValueError("out: JAX's arrays cannot be written: leave it out")
    of_a, of_b, of_d = letters
    shape = shape_of(letters, a.shape, b.shape)
    for which, own in (("A", of_a), ("B", of_b), ("the result", of_d)):
        for letter in own:
            if own.count(letter) > 1:
                raise ValueError(f"einsum: {letter!r} is twice in {which} of {text_of(letters)!r}; take its diagonal first")
    extents = dict(zip(of_a, a.shape))
    for letter, extent in zip(of_b, b.shape):
        if extents.setdefault(letter, extent) != extent:
            raise ValueError(f"einsum: {letter!r} of {text_of(letters)!r} has {extent} elements in B, but {extents[letter]} in A")
    for which, own, other in (("A", of_a, of_b), ("B", of_b, of_a)):
        for letter in own:
            if letter not in other and letter not in of_d:
                raise ValueError(f"einsum: {letter!r} of {text_of(letters)!r} has {extents[letter]} elements and is only in {which}; sum "
                                 "over it first")
    batch, m = ([x for x in of_d if (x in of_b) == is_both and x in of_a] for is_both in (True, False))
    n, k = [x for x in of_d if x not in of_a], [x for x in of_a if x in of_b and x not in of_d]

    def sized(names):
        return math.prod(extents[x] for x in names)

    def folded(x, own, *groups):
        order = [letter for group in groups for letter in group]
        return x.transpose([own.index(letter) for letter in order]).reshape([sized(group) for group in groups])

    options = Options(words.alpha, 0.0, None, words.out_dtype, False, True, words.precise, words.tf32, False, words.device)
    d = matmul(folded(a, of_a, batch, m, k), folded(b, of_b, batch, n, k), None, Operands(), options)
    order = [*batch, *m, *n]
    return jnp.reshape(d, [extents[x] for x in order]).transpose([order.index(x) for x in of_d]).reshape(shape)

"""What stands beside a product's operands: scales, the amax, the inputs of a slope, and whether it gates."""
import math
from collections import namedtuple

from ._common import name_of

# `alpha` is a number, or a tensor as the others are; None where there is none.
Beside = namedtuple("Beside", "alpha, scale_a, scale_b, scale_result, amax, slope_of, gate")

NO_GRADIENT = ("{}: a product whose gradient is asked for has none: leave it out, or call it where none is asked for (under "
               "torch.no_grad(), or of jax.lax.stop_gradient())")


def check_beside(activation, c, gate, slope_of):
    """What goes together with a gate and with a slope."""
    if (gate or slope_of is not None) and activation is None:
        raise ValueError(f"{'gate' if gate else 'slope_of'}: activation is None; name the one that it is of")
    if gate and slope_of is not None:
        raise ValueError("gate and slope_of: one product is a gate or the way back, not both")
    if gate and c is not None:
        raise ValueError("gate: with C, whose columns would be two for each of D; add it afterwards")


def halved(shape):
    """That of a gate, from the product's."""
    *others, columns = shape
    if columns % 2:
        raise ValueError(f"gate: B has {columns} columns; they come in pairs")
    return (*others, columns // 2)


def check_float32(name, x):
    if not hasattr(x, "dtype"):
        raise ValueError(f"{name}: {x!r} is no tensor; it has to be one of float32")
    if name_of(x.dtype) != "float32":
        raise ValueError(f"{name}: it is of {name_of(x.dtype)}; it has to be of float32")


def one(name, x):
    """A tensor of one element; None of None."""
    if x is None:
        return None
    check_float32(name, x)
    if math.prod(x.shape) != 1:
        raise ValueError(f"{name}: its shape is {tuple(x.shape)}; it has one element")
    return x


def of_lines(name, x, lines, with_one):
    """A scale of A's rows or B's columns as their shape `lines`, of which `with_one` has one dimension more."""
    check_float32(name, x)
    if tuple(x.shape) not in (tuple(lines), tuple(with_one)):
        raise ValueError(f"{name}: its shape is {tuple(x.shape)}; it is {tuple(lines)}, {tuple(with_one)} or of one element")
    return x.reshape(lines)


def factors(beside, rows, columns):
    """Those of one element, alpha's first, and the scales of rows and of columns; `rows` is A's shape without k, and
    `columns` B's."""
    ones = [] if beside.alpha is None or isinstance(beside.alpha, (int, float)) else [one("alpha", beside.alpha)]
    scales = []
    for name, x, lines, with_one in (("scale_a", beside.scale_a, rows, (*rows, 1)),
                                     ("scale_b", beside.scale_b, columns, (*columns[:-1], 1, columns[-1]))):
        if x is not None:
            check_float32(name, x)
        if x is not None and math.prod(x.shape) == 1:
            ones.append(one(name, x))
            x = None
        scales.append(None if x is None else of_lines(name, x, lines, with_one))
    return ones, *scales


def laid(kit, beside, rows, columns, folded, shape):
    """Alpha as a number; the tensors as the extension takes them beside a product that is folded, (alpha, scale of rows, of columns,
    scale_result, amax); and the inputs of a slope."""
    *batch, m, n = shape
    ones, scale_a, scale_b = factors(beside, tuple(rows), tuple(columns))
    alpha = ones[0].reshape(1) if ones else None
    for x in ones[1:]:
        alpha = alpha * x.reshape(1)
    is_one = len(folded) == 2  # all rows of all batches
    if scale_a is not None:
        scale_a = kit.compact(kit.broadcast_to(scale_a, (*batch, m)).reshape(folded[:-1]))
    if scale_b is not None:
        wide = scale_b.reshape(n) if is_one else kit.broadcast_to(scale_b, (*batch, n)).reshape(folded[0], n)
        scale_b = kit.compact(wide)
    slope_of = beside.slope_of
    if slope_of is not None:
        if tuple(slope_of.shape) != tuple(shape):
            raise ValueError(f"slope_of: its shape is {tuple(slope_of.shape)}, and that of the product is {shape}")
        slope_of = slope_of.reshape(folded)
    number = beside.alpha if isinstance(beside.alpha, (int, float)) else 1.0
    return number, (alpha, scale_a, scale_b, one("scale_result", beside.scale_result), one("amax", beside.amax)), slope_of

"""Contractions over named dimensions for the tensors of any framework."""
import functools
import math

from . import _ext
from ._common import CODES, check_flags, check_number, device_of, door_of, name_of, output_of, warn_of_work

KEPT = 4096  # number of forms of calls to store


def einsum(subscripts, a, b, *, alpha=1.0, out=None, out_dtype=None, precise=False, tf32=False, device=None):
    """Contracts two tensors over named dimensions, like numpy.einsum and torch.einsum: einsum("mbk,nbk->mnb", a, b).

    A letter names a dimension, and dimensions with the same letter must have the same extent. The product is summed over letters that A and
    B have and the result does not have; letters that all three have are batches. As with torch.einsum, the memory order of a new result may
    differ from the order of its dimensions. Without "->", the result has the letters that occur once, in alphabetical order. Letters may be
    in any order, and strides may have any value. Dimensions are merged into the dimensions of a matrix product if their strides allow it,
    and otherwise become dimensions of the tensor map. A tensor that the hardware cannot read in place is copied once; einsum_explained()
    names it. A letter that only one tensor has, or that a tensor has twice, is rejected, and so is "...".

    matmul() describes the types, `alpha` (here a number), `out_dtype`, `precise`, `tf32` and `device`. `out` is written and returned; JAX
    does not support it. The result is differentiable in A and B. JAX arrays have no gaps, so for them JAX makes dimensions adjacent, and
    matmul() computes the product. If a letter breaks a rule, raises a ValueError that names both.
    """
    check_number("alpha", alpha)
    check_flags(precise=precise, tf32=tf32)
    return door_of(a).einsum(parsed(subscripts), a, b, out, Words(float(alpha), out_dtype, precise, tf32, device))


class Words:
    """All arguments of a call except its tensors."""

    def __init__(self, alpha, out_dtype, precise, tf32, device):
        self.alpha, self.out_dtype, self.precise, self.tf32, self.device = alpha, out_dtype, precise, tf32, device

    def flags(self):
        return _ext.TF32 * bool(self.tf32) | _ext.PRECISE * bool(self.precise)

    def type_of(self, a, out):
        """Returns the name of the result's type."""
        if self.out_dtype is not None:
            return name_of(self.out_dtype)
        return output_of(name_of(a.dtype)) if out is None else name_of(out.dtype)


def einsum_explained(subscripts, a, b, *, out_dtype=None, tf32=False, device=None):
    """Returns a line that describes which letters are rows, columns, depth and batches of the product that einsum() computes, how tiles
    cover them, and which tensor is copied and why. Accepts PyTorch tensors and NumPy arrays, and assumes that `out` is not given."""
    letters, words = parsed(subscripts), Words(1.0, out_dtype, False, tf32, device)
    number = device_of(device)
    if number is None:
        number = getattr(getattr(a, "device", None), "index", None)
    of_a, of_b = _described(a, 1 << 44), _described(b, 2 << 44)
    shape, lying = shape_of(letters, a.shape, b.shape), []
    order = order_of(letters, of_a[4], of_b[4])
    axes = made(order, shape, lambda extents: lying.extend(extents), lambda _, axes: axes) or range(len(shape))
    strides = tuple(math.prod(lying[axis + 1:]) for axis in axes)
    d = (3 << 44, *CODES[words.type_of(a, None)], shape, strides, 0, 0, False)
    return _ext.contraction_explained(_ext.EMULATOR if number is None else number, text_of(letters), of_a, of_b, d, 1.0,
                                      words.flags())


def _described(x, address):
    """Returns a tensor in the extension's form that has no memory but the same address modulo 16."""
    if hasattr(x, "data_ptr"):
        place, strides = x.data_ptr(), x.stride()
    else:
        place, strides = x.ctypes.data, tuple(stride // x.itemsize for stride in x.strides)
    return (address + place % 16, *CODES[name_of(x.dtype)], tuple(x.shape), tuple(strides), 0, 0, False)


def parsed(subscripts):
    """Returns the letters of A, of B and of the result."""
    if not isinstance(subscripts, str):
        raise ValueError(f"subscripts: {subscripts!r} is not a string")
    text = subscripts.replace(" ", "")
    operands, arrow, result = text.partition("->")
    a, comma, b = operands.partition(",")
    if not comma:
        raise ValueError(f"subscripts: {subscripts!r} names one operand; it must name two, such as 'mk,nk->mn'")
    together = a + b + result
    if not (together.isascii() and together.isalpha()):
        for which, letter in ((which, letter) for which, letters in (("A", a), ("B", b), ("the result", result)) for letter in letters):
            if not (letter.isascii() and letter.isalpha()):
                raise ValueError(f"subscripts: {letter!r} of {which} in {subscripts!r}; a dimension must be a letter, and there must be "
                                 "two operands")
    if not arrow:
        result = "".join(sorted(letter for letter in set(a + b) if (a + b).count(letter) == 1))
    return a, b, result


def text_of(letters):
    a, b, d = letters
    return f"{a},{b}->{d}"


def shape_of(letters, of_a, of_b):
    """Returns the shape of the result. Rejects letters without an extent; the library itself reports all other errors in the operands."""
    extents = {**dict(zip(letters[1], of_b)), **dict(zip(letters[0], of_a))}
    for letter in letters[2]:
        if letter not in extents:
            raise ValueError(f"subscripts: {letter!r} of the result is in neither operand of {text_of(letters)!r}")
    for which, own, shape in (("A", letters[0], of_a), ("B", letters[1], of_b)):
        if len(own) != len(shape):
            raise ValueError(f"{which}: {own!r} of {text_of(letters)!r} names {len(own)} dimensions, but {which} has {len(shape)}")
    return tuple(extents[letter] for letter in letters[2])


def made(order, shape, empty, permuted):
    """Creates a result whose memory has an order that order_of() returned. `empty` creates a tensor with given extents, and `permuted`
    permutes its dimensions."""
    result = empty(tuple([shape[axis] for axis in order[0]]))
    return result if order[1] is None else permuted(result, order[1])


def order_of(letters, of_a, of_b):
    """Returns the dimensions of the result in the order in which the product stores them: batches, then rows and columns in the order of
    the operands' strides. The second value is the position of each dimension in this order, or None if the order is that of the
    dimensions."""
    a, b, d = letters
    strides = {**dict(zip(b, of_b)), **dict(zip(a, of_a))}

    def group(letter):
        return 0 if letter in a and letter in b else 2 if (letter in a) == (d[-1] in a and d[-1] not in b) else 1

    order = sorted(d, key=lambda letter: (group(letter), -strides[letter]))
    axes = None if order == list(d) else tuple(order.index(letter) for letter in d)
    return tuple(d.index(letter) for letter in order), axes


@functools.lru_cache(maxsize=KEPT)
def _result_of(letters, shape_a, shape_b, of_a, of_b):
    """Returns the shape of a new result and the order of its memory."""
    return shape_of(letters, shape_a, shape_b), order_of(letters, of_a, of_b)


def run(kit, letters, a, b, out, words, stream=None):
    """Computes one contraction of tensors with any strides; `kit` has the framework's functions that create tensors and pass them."""
    (shape, order), name = _result_of(letters, a.shape, b.shape, kit.strides_of(a), kit.strides_of(b)), words.type_of(a, out)
    if out is None:
        out = made(order, shape, lambda lying: kit.empty(a, lying, name), kit.permuted)
    elif tuple(out.shape) != shape:
        raise ValueError(f"D: its shape is {tuple(out.shape)}, but that of {text_of(letters)!r} is {shape}")
    elif name_of(out.dtype) != name:
        raise ValueError(f"D: its type is {name_of(out.dtype)}, but out_dtype is {name}")
    device = device_of(words.device)
    if device == _ext.EMULATOR:
        extents = {**dict(zip(letters[0], a.shape)), **dict(zip(letters[1], b.shape))}
        warn_of_work(math.prod(extents.values()))
    _ext.contraction(text_of(letters), kit.tensor(a), kit.tensor(b), kit.tensor(out), words.alpha, words.flags(), device, stream)
    return out


def gradients(product, letters, a, b, grad, needs):
    """Returns the gradients of A and B, or None for a gradient that is not needed. product(letters, x, y, like) computes each gradient,
    which is possible because every letter of A is also in B or in the result."""
    of_a, of_b, of_d = letters
    return (product((of_d, of_b, of_a), grad, b, a) if needs[0] else None, product((of_a, of_d, of_b), a, grad, b) if needs[1] else None)

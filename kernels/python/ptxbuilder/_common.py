"""Code for all frameworks, which handles names of types and devices, and products with several batch dimensions."""
import math
import sys
import warnings

from . import _ext

# The keys are the names that PyTorch, NumPy and JAX share; the values are DLPack's codes and numbers of bits.
CODES = {
    "int8": (0, 8), "int16": (0, 16), "int32": (0, 32), "int64": (0, 64),
    "uint8": (1, 8), "uint16": (1, 16), "uint32": (1, 32), "uint64": (1, 64),
    "float16": (2, 16), "float32": (2, 32), "float64": (2, 64), "bfloat16": (4, 16),
    "float8_e4m3fn": (10, 8), "float8_e5m2": (12, 8),
}
# The keys are ptxbuilder's own names, as in sidecars.
NAMES = {
    "s8": "int8", "s16": "int16", "s32": "int32", "s64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16",
    "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "tf32": "float32",
}
ACTIVATIONS = {None if word == "none" else word: number for word, number in _ext.ACTIVATIONS.items()}


def name_of(dtype):
    """Returns the name of a type: "bfloat16" for torch.bfloat16, jnp.bfloat16, NumPy's dtype or "bf16"."""
    if isinstance(dtype, str):
        name = NAMES.get(dtype, dtype)
    elif type(dtype).__module__ == "torch":
        name = str(dtype).removeprefix("torch.")
    else:
        import numpy

        try:
            name = numpy.dtype(dtype).name
        except TypeError:
            name = None
    if name not in CODES:
        known = ", ".join(f"{full} ({short})" for short, full in NAMES.items() if short != "tf32")
        raise ValueError(f"{dtype} is not supported; the type must be one of {known}")
    return name


def check_kind(kinds, framework, give, required, **optional):
    """Rejects operands that are not tensors of the first operand's framework. The operands are indexed by name; optional operands may be
    None."""
    for name, x in {**required, **optional}.items():
        if type(x).__name__ == "MaskedArray":  # NumPy's masked array; nothing here reads its mask
            raise ValueError(f"{name}: it is a masked array, but kernels ignore masks: pass x.filled(0), or x.data")
        if not isinstance(x, kinds) and (x is not None or name in required):
            raise ValueError(f"{name}: it is {type(x)}, but the other tensors are {framework}'s: pass {give}")


def check_number(name, x):
    """Rejects strings, which float() would accept, and values that float() does not accept, with an error that explains why."""
    if not isinstance(x, (int, float)) and (isinstance(x, (str, bytes)) or not hasattr(x, "__float__")):
        raise ValueError(f"{name}: {x!r} is a {type(x).__name__}; it must be a number")


def is_whole(x):
    """Returns whether x is an integer of Python or of a framework, and not a bool."""
    return type(x) is int or not isinstance(x, bool) and hasattr(x, "__index__")


def check_flags(**flags):
    for name, value in flags.items():
        if value not in (False, True):
            raise ValueError(f"{name}: {value!r} is not one of True and False")


def output_of(name):
    """Returns the name of the default result type of a product, given the name of the operands' type."""
    if name.startswith("float8"):
        return "bfloat16"
    return "int32" if name in ("int8", "uint8") else name


def no_activation(name):
    return ValueError(f"activation {name!r} is not one of {', '.join(repr(word) for word in ACTIVATIONS if word)} and None")


def activation_of(name):
    try:
        return ACTIVATIONS[name]
    except (KeyError, TypeError):
        raise no_activation(name) from None


def device_of(device):
    """Returns the number of a device that is given as "emulator", "cuda", "cuda:1" or 1; None for None."""
    if device is None or (isinstance(device, int) and not isinstance(device, bool) and device >= 0):
        return device
    name = str(device)
    if name == "emulator":
        return _ext.EMULATOR
    kind, _, number = name.partition(":")
    if kind == "cuda" and (number.isdigit() or number == "" and ":" not in name):
        return int(number or 0)
    hint = "; for tensors on the CPU use 'emulator', or 'cuda', which copies them to a GPU and back" if kind == "cpu" else ""
    raise ValueError(f"device {device!r} is not one of 'emulator', 'cuda', 'cuda:1' and a GPU's number{hint}")


def warn_of_work(multiply_adds):
    """Warns about work that will take the emulator more than about five minutes, and that Ctrl-C can stop."""
    if multiply_adds > 1 << 37:
        warnings.warn(f"{multiply_adds:.1e} multiply-adds take about {multiply_adds / 4e8 / 60:.0f} minutes on the emulator: Ctrl-C ends "
                      f"the call unless it is JAX's; a GPU takes less than a second", RuntimeWarning, stacklevel=2)


def host_tensor(x):
    """Converts a NumPy array to the extension's form."""
    if not hasattr(x, "ctypes"):
        raise ValueError(f"it is {type(x)}, but the others are numpy arrays: pass numpy.asarray(x)")
    if not x.dtype.isnative:
        raise ValueError(f"the byte order of {x.dtype.str} is not that of this machine: pass x.astype({name_of(x.dtype)!r})")
    size = x.dtype.itemsize
    if any(stride % size for stride in x.strides):
        raise ValueError(f"its strides, {x.strides} bytes, must be multiples of its elements' {size}")
    strides = tuple(stride // size for stride in x.strides) if x.size else None  # NumPy's strides of empty arrays are 0
    return (x.ctypes.data, *CODES[name_of(x.dtype)], x.shape, strides, 1, 0, not x.flags.writeable)


def check_offsets(name, offsets, rows, most, longest):
    """Rejects wrong offsets of packed sequences, because they would make the kernel read beyond a tensor. `offsets` are Python numbers."""
    lengths = [behind - at for at, behind in zip(offsets, offsets[1:])]
    if not lengths or offsets[0] != 0 or offsets[-1] != rows or min(lengths) < 0:
        raise ValueError(f"{name}: {_shortened(offsets)}; they must begin at 0, must not decrease, and must end at the {rows} rows of the "
                         "tensor")
    if max(lengths) > longest:
        raise ValueError(f"{name}: a sequence has {max(lengths)} rows, but {most} is {longest}")


def _shortened(numbers):
    return str(numbers) if len(numbers) <= 8 else f"[{', '.join(map(str, numbers[:4]))}, .., {', '.join(map(str, numbers[-3:]))}]"


def untouched(*tensors):
    """Returns a compact tensor in the extension's form for each (shape, type's name), and None for None. The tensors have no memory."""
    return [None if x is None else (index + 1 << 44, *CODES[x[1]], x[0], None, 0, 0, False)  # addresses are 16 TiB apart
            for index, x in enumerate(tensors)]


def fold(broadcast_shapes, broadcast_to, a, b, shares=(1, 1)):
    """Converts operands of any rank to matrices or batches of matrices. Returns (a, b, the folded shape, the shape of the product).

    If all batches of A share a matrix B, the result is one product with more rows; otherwise each batch is multiplied by its own B.
    `shares` are the ratios of the length of k to the number of elements that A and B store along k.
    """
    if a.ndim < 2 or b.ndim < 2:
        raise ValueError(f"A and B: they have {a.ndim} and {b.ndim} dimensions; each must have 2, after those of batches")
    (m, k), (k_of_b, n) = a.shape[-2:], b.shape[-2:]
    whole = k * shares[0]
    if whole != k_of_b * shares[1]:
        raise ValueError(f"B: {k_of_b * shares[1]} x {n}, but A is {m} x {whole}; B must have {whole} rows, as many as A has columns")
    try:
        batch = tuple(broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    except (RuntimeError, ValueError):
        raise ValueError(f"B: its batches {tuple(b.shape[:-2])} do not match A's {tuple(a.shape[:-2])}") from None
    shape = (*batch, m, n)
    if a.ndim == b.ndim <= 3 and a.shape[:-2] == b.shape[:-2]:
        return a, b, shape, shape
    count = math.prod(batch)
    if math.prod(b.shape[:-2]) == 1 and tuple(a.shape[:-2]) == batch:
        folded = (count * m, n)
        a, b = a.reshape(count * m, k), b.reshape(k_of_b, n)
    else:
        folded = (count, m, n)
        a = broadcast_to(a, (*batch, m, k)).reshape(count, m, k)
        b = broadcast_to(b, (*batch, k_of_b, n)).reshape(count, k_of_b, n)
    return a, b, folded, shape


doors = []  # (type of tensors, module for these tensors) for each framework that has been used


def door_of(x):
    """Returns the module for tensors of x's type."""
    for kind, door in doors:  # torch.compile cannot trace a dict that is indexed by types
        if isinstance(x, kind):
            return door
    return _open_door(x)


def _open_door(x):
    torch, jax, numpy, cupy = (sys.modules.get(name) for name in ("torch", "jax", "numpy", "cupy"))
    if torch is not None and isinstance(x, torch.Tensor):
        from . import _torch as door
        doors.append((torch.Tensor, door))
    elif jax is not None and isinstance(x, jax.Array):
        from . import _jax as door
        doors.append((jax.Array, door))
    elif numpy is not None and isinstance(x, numpy.ndarray):
        from . import _numpy as door
        doors.append((numpy.ndarray, door))
    elif cupy is not None and isinstance(x, cupy.ndarray):
        from . import _cupy as door
        doors.append((cupy.ndarray, door))
    else:
        raise ValueError(f"{type(x)} is not a tensor of PyTorch, JAX, numpy or CuPy")
    return door


def as_they_lie(call, compact, *operands):
    """Returns the result of `call` for the operands. If the library rejects their layouts, calls it again with copies without gaps."""
    try:
        return call(*operands)
    except ValueError as error:
        copies = [None if x is None else compact(x) for x in operands]
        if all(x is y for x, y in zip(copies, operands)):
            raise
        try:
            return call(*copies)
        except ValueError as second:
            raise second from error if str(second) != str(error) else None

"""Launches any kernel on JAX arrays, traced or not."""
import jax
import jax.numpy as jnp
import numpy

from .. import _ext
from .._common import CODES, NAMES, name_of
from .._kernel import scalar_of
from .ffi import alike, check_arrays, refuse_device, struct_like


def _check(name, parameter, x):
    """Rejects arguments at trace time that the library would reject when XLA runs the call."""
    kind, dtype, rank = parameter["kind"].replace("_", " "), parameter["dtype"], len(parameter.get("box", x.shape))
    if name_of(jnp.result_type(x)) != NAMES[dtype]:  # JAX converts NumPy's float64 to float32
        raise ValueError(f"parameter '{name}' takes a {kind} of {dtype}, but the argument is an array of {x.dtype}: pass "
                         f"x.astype({NAMES[dtype]!r})")
    if len(x.shape) != rank:
        raise ValueError(f"parameter '{name}' needs an array of {rank} dimensions, but the argument has {len(x.shape)}")


def _check_integer(name, dtype, value):
    code, bits = CODES[NAMES[dtype]]
    least, most = (0, 2**bits - 1) if code == 1 else (-2**(bits - 1), 2**(bits - 1) - 1)
    if not least <= value <= most:
        raise ValueError(f"parameter '{name}' has type {dtype}, but the integer {value} was given: it does not fit")


def _traced_scalar(name, dtype, value):
    """Returns a scalar that is known only when the call runs, in the extension's form: (kind, an array without dimensions)."""
    scalar_of(name, dtype, 0)  # reports what is wrong
    kind, given = NAMES[dtype], value.dtype
    is_integer = jnp.issubdtype(given, jnp.integer) or given == bool
    if not (is_integer or "float" in kind and jnp.issubdtype(given, jnp.floating)):
        raise ValueError(f"parameter '{name}' has type {dtype}, but a traced {given} was given")
    if "float" not in kind:
        return (_ext.XLA_BITS_AT if kind == given == "uint64" else _ext.XLA_INTEGER_AT), value
    if kind == "float64" and not jax.config.jax_enable_x64:
        raise ValueError(f"parameter '{name}' has type {dtype}, which a traced scalar can only have with jax_enable_x64")
    return _ext.XLA_BITS_AT, value.astype(kind)


def _check_grid(kernel, grid):
    if any(isinstance(x, jax.core.Tracer) for x in grid):
        raise ValueError(f"kernel '{kernel.name}': its grid is traced, but must be known when the kernel is traced")
    if not all(hasattr(x, "__index__") and 1 <= x <= most for x, most in zip(grid, (2**31 - 1, 65535, 65535))):
        raise ValueError(f"kernel '{kernel.name}': a grid of {grid}; x must be an integer from 1 to 2147483647, y and z from 1 to 65535")


def call(kernel, grid, arguments, first, device):
    refuse_device(device)
    if not kernel.is_pure:
        raise ValueError(f"kernel '{kernel.name}': JAX must know what it changes: pass outputs= or updates= to load()")
    operands, results, updated, aliases, target = [], [], {}, {}, "ptxbuilder_kernel"
    check_arrays({f"parameter '{name}'": x for name, _, x in kernel.tensors(arguments)})
    leaves, tree = jax.tree.flatten(arguments)
    tensors = [x for _, _, x in kernel.tensors(arguments)]
    places = [i for i, x in enumerate(leaves) if isinstance(x, jax.core.Tracer) or any(x is y for y in tensors)]
    for i, x in zip(places, alike(*(leaves[i] for i in places))):
        first = leaves[i] = x
    arguments = jax.tree.unflatten(tree, leaves)
    for name in kernel.outputs:
        results.append(struct_like(first, *kernel.output_of(name, arguments)))
    returned = {name: index for index, name in enumerate((*kernel.outputs, *kernel.updates))}

    def tensor(name, value, is_written):
        if name in kernel.outputs:
            return (_ext.XLA_RESULT, returned[name])
        operands.append(value)
        if name in kernel.updates:
            aliases[len(operands) - 1] = returned[name]
            return (_ext.XLA_RESULT, returned[name])
        return (_ext.XLA_ARGUMENT, len(operands) - 1)

    def scalar(name, dtype, value):
        if isinstance(value, jax.core.Tracer):
            nonlocal target
            target = "ptxbuilder_kernel_waits"
            kind, array = _traced_scalar(name, dtype, value)
            operands.append(array)
            return (kind, len(operands) - 1)
        value = scalar_of(name, dtype, value)
        if isinstance(value, bytes):
            return (_ext.XLA_BITS, int.from_bytes(value.ljust(8, b"\0"), "little", signed=True))
        _check_integer(name, dtype, value)
        return (_ext.XLA_INTEGER, value)

    def struct(fields):
        return (_ext.XLA_STRUCT, len(fields)) + sum(fields, ())

    given = kernel.replaced(arguments, {name: results[returned[name]] for name in kernel.outputs})
    for name, parameter, x in kernel.tensors(given):
        _check(name, parameter, x)
        if name in kernel.updates:
            updated[name] = struct_like(first, x.shape, x.dtype)
    results += (updated[name] for name in kernel.updates)
    words = struct(kernel.encode(given, tensor, scalar, struct))
    if grid is not None:
        _check_grid(kernel, grid)
    out = jax.ffi.ffi_call(target, results, input_output_aliases=aliases, vmap_method="sequential")(
        *operands, program=f"{kernel.path}\n{kernel.kernel or ''}\n{kernel.waived}", grid=numpy.array(grid or (), numpy.int64),
        arguments=numpy.array(words, numpy.int64))
    return out[0] if len(out) == 1 else tuple(out)

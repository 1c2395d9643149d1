"""Calls the extension's handlers through XLA's foreign function interface."""
import jax
import jax.numpy as jnp
import numpy

from .. import _ext
from .._common import check_kind, device_of, name_of

for (_target, _platform), _handler in _ext.handlers().items():
    jax.ffi.register_ffi_target(_target, _handler, platform=_platform)


def device():
    """Returns the device for which an operation is compiled when it is traced. All GPUs of a machine are assumed to be the same model."""
    return 0 if jax.default_backend() in ("gpu", "cuda") else _ext.EMULATOR


def check_arrays(required, **optional):
    """Rejects objects that are not JAX or NumPy arrays; JAX functions accept NumPy arrays, too."""
    check_kind((jax.Array, numpy.ndarray, numpy.generic), "JAX", "jax.numpy.asarray(x)", required, **optional)


def described(*operands):
    """Returns (shape, type's name) for each array, for compiling an operation; None for None."""
    for x in operands:
        if x is not None and not all(isinstance(extent, int) for extent in x.shape):
            raise ValueError(f"the shape {x.shape} has symbols, but an operation is compiled for numbers: export it for each shape")
    return [None if x is None else (x.shape, name_of(x.dtype)) for x in operands]


def refuse_device(asked):
    """Rejects a device other than the device of the arrays. On the CPU, accepts "emulator", so that code for other frameworks also works
    with JAX."""
    is_here = asked is None or (device() == _ext.EMULATOR and device_of(asked) == _ext.EMULATOR)
    if not is_here:
        raise ValueError("device: JAX's arrays are processed where they are; jax.device_put() moves them")


# An array's type contains the axes of the mesh over which the array varies under jax.shard_map. JAX 0.10 changed how the type stores them.


def _varies_over(x):
    kind = jax.typeof(x)
    return kind.manual_axis_type.varying if hasattr(kind, "manual_axis_type") else kind.vma


def _varying(x, axes):
    return jax.lax.pcast(x, axes, to="varying") if hasattr(jax.lax, "pcast") else jax.lax.pvary(x, axes)


def alike(*operands):
    """Returns the arrays, made to vary over the union of their axes, so that the gradients of arrays that did not vary are summed; None
    remains None."""
    axes = [None if x is None else frozenset(_varies_over(x)) for x in operands]
    union = frozenset().union(*(x for x in axes if x is not None))
    return [x if x is None or of == union else _varying(x, tuple(sorted(union - of))) for x, of in zip(operands, axes)]


def struct_like(x, shape, dtype):
    """Returns a ShapeDtypeStruct for a result that varies over the same axes as x."""
    kind = jax.typeof(x)
    if not hasattr(kind, "manual_axis_type"):
        words = {"vma": kind.vma}
    elif kind.manual_axis_type.varying:
        whole = jax.sharding.NamedSharding(kind.sharding.mesh, jax.sharding.PartitionSpec())
        words = {"manual_axis_type": kind.manual_axis_type, "sharding": whole}
    else:
        words = {}
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype), **words)


def ffi_call(target, results, workspace, operands, scale, numbers, aliases=None, vmap_method=None):
    """Calls a target, and returns its results without the workspace. `results` has (shape, type's name) for each result; `aliases` maps
    each operand that shares memory with a result to that result."""
    structs = [struct_like(operands[0], shape, name) for shape, name in results]
    if workspace:
        structs.append(struct_like(operands[0], (workspace,), "uint8"))
    call = jax.ffi.ffi_call(target, structs, input_output_aliases=aliases, vmap_method=vmap_method)
    return call(*operands, scale=numpy.array(scale, numpy.float32), numbers=numpy.array(numbers, numpy.int64))[:len(results)]

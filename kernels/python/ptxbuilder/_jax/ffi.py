"""Calls the extension's handlers through XLA's foreign function interface."""
import jax
import jax.numpy as jnp
import numpy

from .. import _ext
from .._common import check_kind, device_of, name_of

for (_target, _platform), _handler in _ext.handlers().items():
    jax.ffi.register_ffi_target(_target, _handler, platform=_platform)


def device():
    """Returns the device for which an operation is compiled when it is traced. All GPUs of a machine are assumed to be of the same kind."""
    return 0 if jax.default_backend() in ("gpu", "cuda") else _ext.EMULATOR


def check_arrays(required, **optional):
    """Rejects arrays other than those of JAX and NumPy; JAX accepts NumPy arrays like its own."""
    check_kind((jax.Array, numpy.ndarray, numpy.generic), "JAX", "jax.numpy.asarray(x)", required, **optional)


def described(*operands):
    """Returns (shape, type's name) of each array, which an operation is compiled for; None for None."""
    for x in operands:
        if x is not None and not all(isinstance(extent, int) for extent in x.shape):
            raise ValueError(f"the shape {x.shape} has symbols, but an operation is compiled for numbers: export it for each shape")
    return [None if x is None else (x.shape, name_of(x.dtype)) for x in operands]


def refuse_device(asked):
    """Refuses all devices except the arrays' own device. On the CPU it accepts "emulator", so that code for other frameworks' arrays works
    here, too."""
    is_here = asked is None or (device() == _ext.EMULATOR and device_of(asked) == _ext.EMULATOR)
    if not is_here:
        raise ValueError("device: JAX's arrays are processed where they are; jax.device_put() moves them")


# A type says over which axes of the mesh an array varies under jax.shard_map; JAX 0.10 changed the way in which it does.


def _varies_over(x):
    kind = jax.typeof(x)
    return kind.manual_axis_type.varying if hasattr(kind, "manual_axis_type") else kind.vma


def _varying(x, axes):
    return jax.lax.pcast(x, axes, to="varying") if hasattr(jax.lax, "pcast") else jax.lax.pvary(x, axes)


def alike(*operands):
    """Returns the arrays with the same varying axes, so that gradients of those that did not vary are summed; None remains None."""
    axes = [None if x is None else frozenset(_varies_over(x)) for x in operands]
    union = frozenset().union(*(x for x in axes if x is not None))
    return [x if x is None or of == union else _varying(x, tuple(sorted(union - of))) for x, of in zip(operands, axes)]


def struct_like(x, shape, dtype):
    """Returns the struct of a result that varies like the operand."""
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
    """Calls a target, and returns its results without the workspace. `results` are (shape, type's name) each; `aliases` says which
    operands share memory with which results."""
    structs = [struct_like(operands[0], shape, name) for shape, name in results]
    if workspace:
        structs.append(struct_like(operands[0], (workspace,), "uint8"))
    call = jax.ffi.ffi_call(target, structs, input_output_aliases=aliases, vmap_method=vmap_method)
    return call(*operands, scale=numpy.array(scale, numpy.float32), numbers=numpy.array(numbers, numpy.int64))[:len(results)]

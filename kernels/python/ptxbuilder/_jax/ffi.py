"""Calls of the extension's handlers, by XLA's foreign function interface."""
import jax
import jax.numpy as jnp
import numpy

from .. import _ext

for (_target, _platform), _handler in _ext.handlers().items():
    jax.ffi.register_ffi_target(_target, _handler, platform=_platform)


def device():
    """Where an operation is compiled when it is traced. GPUs of one machine are taken to be alike."""
    return 0 if jax.default_backend() in ("gpu", "cuda") else _ext.EMULATOR


def refuse_device(asked):
    if asked is not None:
        raise ValueError("device: JAX's arrays are worked on where they are; jax.device_put() moves them")


def ffi_call(target, results, workspace, operands, scale, numbers):
    """Results are (shape, type's name) each; the call's, without the workspace."""
    structs = [jax.ShapeDtypeStruct(shape, jnp.dtype(name)) for shape, name in results]
    if workspace:
        structs.append(jax.ShapeDtypeStruct((workspace,), jnp.uint8))
    call = jax.ffi.ffi_call(target, structs)
    return call(*operands, scale=numpy.array(scale, numpy.float32), numbers=numpy.array(numbers, numpy.int64))[:len(results)]

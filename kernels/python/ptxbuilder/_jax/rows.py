"""Operations on rows of JAX arrays."""
import functools

import jax
import jax.numpy as jnp
import numpy

from .. import _rows
from .ffi import alike, check_arrays, described, refuse_device, struct_like
from .ffi import device as traced_device


def _call(operation, given, numbers, wanted, extents=()):
    """Returns a tuple of the requested results, or of the updated tensors if the operation updates any. `given` is indexed by name."""
    names = [name for name, x in given.items() if x is not None]
    shapes = dict(zip(given, described(*given.values())))
    workspace = _rows.workspace_of(traced_device(), operation, shapes, numbers, wanted, extents)
    first = given[operation.read[0]]
    structs = [struct_like(first, shape, kind) for shape, kind in operation.results_of(shapes, wanted, extents)]
    aliases = {names.index(name): len(structs) + i for i, name in enumerate(operation.updated)}  # updated tensors are the last results
    structs += [struct_like(first, *shapes[name]) for name in operation.updated]
    made = len(structs)
    if workspace:
        structs.append(struct_like(first, (workspace,), "uint8"))
    bits = [operation.bits_of(some) for some in ((*names, *wanted), (*wanted, *operation.updated), operation.updated)]
    results = jax.ffi.ffi_call("ptxbuilder_rows", structs, input_output_aliases=aliases, vmap_method="sequential")(
        *(given[name] for name in names), operation=operation.name, scale=numpy.array(numbers, numpy.float32),
        numbers=numpy.array([len(operation.tensors), *bits], numpy.int64))
    return tuple(results[:made])


def _by_name(operation, there, given):
    """Returns a dict of the tensors that an operation reads, indexed by name. `given` has only the tensors that `there` marks as given; the
    others are None."""
    given = iter(given)
    return {name: next(given) if is_given else None for name, is_given in zip(operation.read, there)}


@functools.lru_cache(maxsize=None)
def _function(name, there, numbers):
    """Returns a function, with its derivative, that computes the operation's first result from the arrays that `there` marks as given."""
    operation = _rows.OPERATIONS[name]
    gradient, kept = operation.gradient, operation.kept
    names = [name for name, is_given in zip(operation.read, there) if is_given]

    def by_name(given):
        return _by_name(operation, there, given)

    @jax.custom_vjp
    def function(*given):
        return _call(operation, by_name(given), numbers, kept[:1])[0]

    def keep(*given):
        results = _call(operation, by_name(given), numbers, kept)
        return results[0], (given, results)

    def backward(saved, grad):
        if gradient is None:
            raise ValueError(f"{name} has no gradient")
        given, results = saved
        known = {**by_name(given), **dict(zip(kept, results)), "d" + kept[0]: grad}
        wanted = tuple(name for name in gradient.written if name[1:] in names)
        found = dict(zip(wanted, _call(gradient, {name: known[name] for name in gradient.read},
                                       tuple(gradient.numbers.values()), wanted)))
        return tuple(found.get(f"d{name}") for name in names)  # None for integers, since they have no gradients

    function.defvjp(keep, backward)
    return function


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _jitted(name, there, numbers, extents, *given):
    operation = _rows.OPERATIONS[name]
    if extents or operation.updated:  # operations of this kind have no gradient
        return _call(operation, _by_name(operation, there, alike(*given)), numbers, operation.written, extents)
    return _function(name, there, numbers)(*alike(*given))


def rows(operation, given, numbers, device, extents):
    """Returns the operation's first result, a tuple of all results if `extents` is not empty, or a tuple of the tensors that the operation
    updates."""
    refuse_device(device)
    required, optional = _rows.by_use(operation, given)
    check_arrays(required, **optional)
    there = tuple(x is not None for x in given)
    return _jitted(operation.name, there, numbers, extents, *(jnp.asarray(x) for x in given if x is not None))

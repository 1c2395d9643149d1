"""Operations on rows of PyTorch tensors, called directly in eager mode and as torch.ops.ptxbuilder.rows while PyTorch is tracing. Each
operation that updates tensors has its own PyTorch operation, such as torch.ops.ptxbuilder.append."""
import functools

import torch
from torch import library as operators

from .. import _rows
from .._common import name_of
from . import tensors
from .tensors import (DTYPES, PLACES, PLAIN, applied, check_meta, check_operands, has_transforms, is_compiling, is_dual, is_grad_enabled,
                      is_watched, is_wrapped, library, place_of, refuse_negative, requires_grad, there)

library.define("rows(str operation, Tensor?[] given, float[] numbers, str[] wanted, str? device, str[] words, int[] extents) -> Tensor[]")


def _op(operation, given, numbers, wanted, device, words, extents):
    operation = _rows.OPERATIONS[operation]
    return list(_rows.run(tensors, operation, given, tuple(numbers), tuple(wanted), there(device, given[0]),
                          extents=tuple(zip(words, extents))))


for _place in PLACES:
    library.impl("rows", _op, _place)


@operators.register_fake("ptxbuilder::rows", lib=library)
def _(operation, given, numbers, wanted, device, words, extents):
    check_meta(*given)
    operation = _rows.OPERATIONS[operation]
    described = {name: None if x is None else (x.shape, name_of(x.dtype)) for name, x in zip(operation.read, given)}
    found = operation.results_of(described, wanted, tuple(zip(words, extents)))
    return [given[0].new_empty(shape, dtype=DTYPES[kind]) for shape, kind in found]


def _define(operation):
    """Defines a PyTorch operation for an operation that updates tensors. The operation's schema marks these tensors."""
    def type_of(name):
        if name in operation.updated:
            return f"Tensor({chr(ord('a') + operation.updated.index(name))}!)"
        return "Tensor?" if operation.tensors[name]["optional"] else "Tensor"

    given = ", ".join(f"{type_of(name)} {name}" for name in operation.read)
    library.define(f"{operation.name}({given}, float[] numbers, str? device) -> ()")

    def op(*arguments):
        *given, numbers, device = arguments
        _rows.run(tensors, operation, given, tuple(numbers), (), there(device, given[0]))

    for place in PLACES:
        library.impl(operation.name, op, place)
    operators.register_fake(f"ptxbuilder::{operation.name}", lambda *arguments: check_meta(*arguments[:-2]), lib=library)


for _operation in _rows.OPERATIONS.values():
    if _operation.updated:
        _define(_operation)


def _is_traced(given):
    return is_compiling() or is_watched() or not all([x is None or type(x) in PLAIN for x in given])


def _run(operation, given, numbers, wanted, device, extents=()):
    if _is_traced(given):
        first = operation.read[0]
        return tuple(torch.ops.ptxbuilder.rows(operation.name, list(given), list(numbers), list(wanted),
                                               place_of(device, given[0], first), [word for word, _ in extents],
                                               [number for _, number in extents]))
    return _rows.run(tensors, operation, given, numbers, wanted, device, None, extents)


class _Rows(torch.autograd.Function):
    """Computes all results that are kept for the gradient; only the first result has a gradient."""

    @staticmethod
    def forward(name, numbers, device, *given):
        operation = _rows.OPERATIONS[name]
        return _run(operation, given, numbers, operation.kept, device)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.name, ctx.numbers, ctx.device, *given = inputs
        ctx.save_for_backward(*given, *output)
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, grad, *_):
        return (_gradients_once if is_grad_enabled() else _gradients)(ctx, grad)


def _gradients(ctx, grad):
    operation = _rows.OPERATIONS[ctx.name]
    if grad is None:
        return None, None, None, *(None for _ in operation.read)
    way_back = _way_back if is_compiling() else _known_way_back  # Dynamo warns about functions with a cache
    wanted, places, numbers, answers = way_back(operation, ctx.needs_input_grad[3:])
    known = (*ctx.saved_tensors, grad.contiguous())
    found = _run(operation.gradient, [known[i] for i in places], numbers, wanted, ctx.device)
    return None, None, None, *(None if i is None else found[i] for i in answers)


_gradients_once = torch.autograd.function.once_differentiable(_gradients)  # defined once, because once_differentiable() takes 5 us per call


def _way_back(operation, asks):
    """Describes the call that computes the gradient. Returns its results; the index of each of its inputs in the list of the operation's
    tensors, the kept results and the gradient of the first result; its numbers; and for each tensor of the operation, the index of its
    gradient among the results, or None.
    """
    gradient, kept = operation.gradient, operation.kept
    there = (*operation.read, *kept, "d" + kept[0])
    asked = [f"d{name}" if is_asked else None for name, is_asked in zip(operation.read, asks)]
    # The kernel writes results that are not optional even if they are not requested.
    wanted = tuple(name for name in gradient.written if name in asked or not gradient.tensors[name]["optional"])
    # If a result and an input have the same name, the name means the result.
    places = tuple(len(there) - 1 - there[::-1].index(name) for name in gradient.read)
    return wanted, places, tuple(gradient.numbers.values()), tuple(None if name is None else wanted.index(name) for name in asked)


_known_way_back = functools.lru_cache(maxsize=256)(_way_back)


def _update(operation, given, numbers, device):
    updated = dict(zip(operation.read, given))
    updated = {name: updated[name] for name in operation.updated}
    if is_wrapped(*given):
        raise ValueError(f"{operation.name} is not supported under torch.func: call it outside, on whole tensors with all batches")
    if _is_traced(given):
        getattr(torch.ops.ptxbuilder, operation.name)(*given, list(numbers), place_of(device, given[0], operation.read[0]))
        return
    refuse_negative(**updated)
    _rows.run(tensors, operation, given, numbers, (), device)
    torch.autograd.graph.increment_version(updated.values())


@tensors.named("ptxbuilder::rows")
def rows(operation, given, numbers, device, extents):
    """Returns the operation's first result, or a tuple of all results if `extents` is not empty; returns None for an operation that updates
    tensors."""
    if is_compiling():
        _check(operation, given)
    try:
        asks, gradient = requires_grad(*given), operation.gradient
        if asks and not gradient:
            raise ValueError(f"{operation.name} has no gradient, but an argument requires one: call it under torch.no_grad()")
        if operation.updated:
            return _update(operation, given, numbers, device)
        if gradient and (asks or (not is_compiling() and (has_transforms() is not None or is_dual()))):
            return applied(_Rows, operation.name, numbers, device, *given)[0]
        found = _run(operation, given, numbers, _rows.wanted_of(operation, extents), device, extents)
        return found if extents else found[0]
    except Exception:
        if not is_compiling():
            _check(operation, given)
        raise


def _check(operation, given):
    required, optional = _rows.by_use(operation, given)
    check_operands(required, **optional)

"""Runs kernels on PyTorch tensors, directly in eager mode and as torch.ops.ptxbuilder.launch while PyTorch is tracing."""
import torch
from torch import library as operators

from .._common import NAMES
from .._kernel import by_handle
from .tensors import (DTYPES, PLACES, PLAIN, check_meta, check_operands, is_compiling, is_tracing, is_watched, is_wrapped, library,
                      named, place_of, refuse_negative, requires_grad, tensor, there)


def _leaves(kernel, arguments):
    """Sorts the arguments into the operation's lists: read, written, reals, integers. A struct is replaced with its fields.
    """
    read, written, reals, integers = [], [], [], []

    def leaf(parameter, value, owner):
        name = owner + parameter["name"]
        if parameter["kind"] == "struct":
            for field in parameter["fields"]:
                leaf(field, value[field["name"]], name + ".")
        elif name in kernel.kinds:
            (written if kernel.is_written(name) else read).append(value)
        elif "float" in NAMES[parameter["dtype"]]:
            reals.append(value)
        else:
            integers.append(value)

    for parameter in kernel.parameters:
        leaf(parameter, arguments[parameter["name"]], "")
    return read, written, reals, integers


def _arguments(kernel, read, written, reals, integers):
    """Assembles the arguments from the lists; the inverse of _leaves()."""
    read, written, reals, integers = map(iter, (read, written, reals, integers))

    def one(parameter, owner):
        name = owner + parameter["name"]
        if parameter["kind"] == "struct":
            return {field["name"]: one(field, name + ".") for field in parameter["fields"]}
        if name in kernel.kinds:
            return next(written if kernel.is_written(name) else read)
        return next(reals if "float" in NAMES[parameter["dtype"]] else integers)

    return {p["name"]: one(p, "") for p in kernel.parameters}


library.define("launch(str kernel, Tensor[] read, Tensor(a!)[] written, Scalar[] reals, SymInt[] integers, SymInt[]? grid, "
               "str? device) -> ()")


def _run(kernel, grid, arguments, written, device):
    for x in written:
        refuse_negative(**{f"kernel '{kernel.name}'": x})
    kernel.run(grid, arguments, tensor, device)


def _op(handle, read, written, reals, integers, grid, device):
    kernel = by_handle(handle)
    place = there(device, (*written, *read)[0])
    _run(kernel, None if grid is None else tuple(grid), _arguments(kernel, read, written, reals, integers), written, place)


for _place in PLACES:
    library.impl("launch", _op, _place)


@operators.register_fake("ptxbuilder::launch", lib=library)
def _(handle, read, written, reals, integers, grid, device):
    check_meta(*read, *written)


def _check(kernel, arguments):
    given = {f"parameter '{name}'": x for name, _, x in kernel.tensors(arguments)}
    check_operands(given)
    if is_wrapped(*given.values()):
        raise ValueError(f"kernel '{kernel.name}' is not supported under torch.func: call it outside, on whole tensors with all batches")


@named("ptxbuilder::launch")
def call(kernel, grid, arguments, first, device):
    is_traced = is_compiling()
    if is_traced:
        _check(kernel, arguments)
    try:
        arguments = kernel.with_outputs(arguments, lambda shape, dtype: first.new_empty(
            shape, dtype=DTYPES[dtype] if isinstance(dtype, str) else dtype))
        read, written, reals, integers = _leaves(kernel, arguments)
        tensors = [x for x in read + written if isinstance(x, torch.Tensor)]
        if requires_grad(*tensors):
            raise ValueError(f"kernel '{kernel.name}' has no gradient, but an argument requires one: call it under torch.no_grad(), or "
                             "inside a torch.autograd.Function")
        if not is_traced and is_tracing():
            raise ValueError(f"kernel '{kernel.name}' is not supported under torch.jit.trace, which cannot handle lists of numbers: use "
                             f"torch.compile or torch.export")
        if is_traced or is_watched() or not all(type(x) in PLAIN for x in tensors):
            torch.ops.ptxbuilder.launch(kernel.handle, read, written, [float(x) for x in reals], integers,
                                        None if grid is None else list(grid), place_of(device, first, f"kernel '{kernel.name}'"))
        else:
            _run(kernel, grid, arguments, written, device)
    except Exception:
        if not is_traced:
            _check(kernel, arguments)
        raise
    return kernel.results(arguments)

"""Turns any kernel that has a sidecar into a function on tensors."""
import functools
import hashlib
import inspect
import json
import keyword
import math
import os
import struct

from . import _ext
from ._common import NAMES, device_of, door_of

_SCALARS = {"float16": "<e", "float64": "<d", "float32": "<f"}
# The entries of a sidecar on which a launch depends. The other entries describe the compiler's results.
_OF_LAUNCH = ("kernel", "parameters", "threads", "block", "cluster", "dynamic_shared_bytes", "grid")

_loaded = {}  # kernels indexed by handle, stored for the lifetime of the process


def by_handle(handle):
    """Returns the kernel with the handle that a compiled graph contains."""
    kernel = _loaded.get(handle)
    if kernel is None:
        raise ValueError(f"kernel '{handle}' is not loaded in this process: load() the same files first, with the same outputs and "
                         f"updates; loaded are: {', '.join(_loaded) or 'none'}")
    return kernel


@functools.lru_cache(maxsize=None)  # cached, since the extension also reads a file only once
def _digest_of(path):
    """Returns the digest of the kernel's code. For an LLVM IR module, this is the digest of the module. Otherwise it is the digest of the
    PTX, since each version of ptxas produces a different cubin from it, or of the cubin if there is no PTX."""
    stem, ending = os.path.splitext(path)
    stem = stem if ending in (".cubin", ".ptx", ".json") else path
    image = next(x for x in (path if ending in (".ll", ".bc") else stem + ".ptx", stem + ".cubin") if os.path.exists(x))
    with open(image, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def load(path, kernel=None, *, outputs=None, updates=(), device="auto", waive=()):
    """Loads a kernel from the path of its cubin or PTX. The sidecar must be in the same folder; `kernel` chooses one of several kernels. An
    LLVM IR module, kernel.ll or kernel.bc, is compiled for the device and needs no sidecar; `waive` names reports of ptxas to accept, such
    as ["spills", "C7510"].

    Call the result with the grid, which is up to three numbers or None for the sidecar's rule, and pass the parameters by name: tensors for
    pointers and tensor maps, numbers for scalars, and a dict for a struct. A tensor for a pointer must have no gaps, since its strides are
    not passed to the kernel.

        saxpy = load("saxpy.cubin", updates=["y"])
        y = saxpy(x=x, y=y, alpha=2.0, count=n)

    `outputs` maps parameters that the call allocates to rules for their shapes. A rule is the name of a tensor with the same shape, a
    shape, or a function that receives the call's arguments as a dict and returns a shape or (shape, type); the default type is that in the
    sidecar. `updates` names tensors that the kernel changes: in place, except in JAX, where they become new arrays because arrays cannot be
    written. The name of a field of a struct is, for example, "p.x". The call returns the outputs and then the updates: a single tensor as
    it is, or several as a tuple. If both arguments are omitted, every tensor is assumed to be changed in place, and JAX rejects the kernel.

    The kernel is loaded on `device`, and on another device when it is first called there; "auto" is a GPU if there is one, else the
    emulator. When a kernel is unpickled, for instance in the workers of a DataLoader, it is loaded again from its path and these arguments.
    Rules that are functions must then be functions that pickle can find by name, not lambdas.
    """
    return Kernel(path, kernel, outputs or {}, tuple(updates), device, ",".join([waive] if isinstance(waive, str) else waive))


class Kernel:
    """A kernel that load() has loaded. Call it with a grid, and with its parameters by name, as load() describes."""

    def __init__(self, path, kernel, outputs, updates, device, waived):
        self.path = os.path.abspath(os.fspath(path))
        self.kernel, self.waived = kernel, waived
        self.loaded_by = self.path, kernel, outputs, updates, device, waived
        if device is None or device == "auto":
            try:
                _ext.open(0)
                device = 0
            except RuntimeError:  # there is no GPU
                device = _ext.EMULATOR
        self.program, text = _ext.program(self.path, kernel, device_of(device) if device != _ext.EMULATOR else device, waived)
        self.sidecar = json.loads(text)
        self.name = self.sidecar["kernel"]
        self.parameters = self.sidecar["parameters"]
        self.names = [parameter["name"] for parameter in self.parameters]
        self.kinds = dict(_tensors_in(self.parameters))
        for word, given in (("outputs", outputs), ("updates", updates)):
            for path in given:
                if path not in self.kinds:
                    raise ValueError(f"{word}: kernel '{self.name}' has no tensor '{path}'; it has {', '.join(self.kinds) or 'none'}")
        self.outputs, self.updates = dict(outputs), updates
        self.__doc__, self.__signature__ = self._described()
        self.is_pure = bool(outputs or updates)  # whether the kernel declares what it changes
        self.handle = self._handle()
        _loaded.setdefault(self.handle, self)

    def _handle(self):
        """Returns the name that compiled graphs use for the kernel, in this process and in others. Two kernels have the same name if they
        have the same code, are launched in the same way and change the same tensors."""
        of_launch = {word: self.sidecar.get(word) for word in _OF_LAUNCH}
        known = [_digest_of(self.path), of_launch, [path for path in self.kinds if self.is_written(path)]]
        return f"{self.name}:{hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:32]}"

    def _described(self):
        """Returns the text and the signature for help() and inspect, from the sidecar."""
        def lines(parameters, indent):
            for p in parameters:
                kind = p["kind"].replace("_", " ") + (f" of {p['dtype']}" if "dtype" in p else "")
                yield f"{indent}{p['name']}: {kind}" + (f", {p['meaning']}" if p.get("meaning") else "")
                yield from lines(p.get("fields", ()), indent + "    ")

        words = [f"Kernel '{self.name}' of {self.path}.", "", *lines(self.parameters, "")]
        for verb, names in (("allocates", self.outputs), ("changes", self.updates)):
            words += [f"It {verb} {', '.join(names)}."] * bool(names)
        kinds = inspect.Parameter
        given = [name for name in self.names if name not in self.outputs and name.isidentifier() and not keyword.iskeyword(name)]
        return "\n".join(words), inspect.Signature([
            kinds("grid", kinds.POSITIONAL_ONLY, default=None), *(kinds(name, kinds.KEYWORD_ONLY) for name in given if name != "device"),
            kinds("device", kinds.KEYWORD_ONLY, default=None)])

    def __reduce__(self):
        return Kernel, self.loaded_by  # unpickling loads the kernel again

    def __deepcopy__(self, memo):
        return self  # the copy of a function is the function itself, too

    def __repr__(self):
        words = (f"{p['name']}: {p['kind']}" + (f" of {p['dtype']}" if "dtype" in p else "") for p in self.parameters)
        return f"<kernel {self.name}({', '.join(words)}) of {self.path}>"

    def __call__(self, grid=None, /, *, device=None, **arguments):
        """Queues one launch on the current stream of the tensors' framework; matmul() describes `device`."""
        self.check(self.parameters, arguments)
        if grid is not None:
            grid = (grid,) if is_number(grid) or not hasattr(grid, "__len__") else tuple(grid)
            if not 1 <= len(grid) <= 3:
                raise ValueError(f"kernel '{self.name}': a grid of {len(grid)} numbers; it must have one to three")
            grid = (*grid, 1, 1)[:3]
        values = _values(arguments)
        first = next((x for x in values if getattr(x, "ndim", 0) > 0), None)
        if first is None:
            first = next((x for x in values if hasattr(x, "dtype")), None)
        if first is None:
            raise ValueError(f"kernel '{self.name}': at least one argument must be a tensor, which determines the framework")
        return door_of(first).call(self, grid, arguments, first, device)

    # ---- Functions for the frameworks' modules ----

    def check(self, parameters, given, owner=""):
        """Rejects arguments if a parameter, or a field of a struct, is missing or unknown, or if the value of a scalar is not a number."""
        whose = f"parameter '{owner[:-1]}'" if owner else f"kernel '{self.name}'"
        taken = [parameter["name"] for parameter in parameters if owner + parameter["name"] not in self.outputs]
        for name in given:
            if name not in taken:
                raise ValueError(f"{whose} was given '{name}', but takes {', '.join(taken)}")
        for parameter in parameters:
            name = parameter["name"]
            if name not in taken:
                continue
            if name not in given:
                raise ValueError(f"{whose}: '{name}' is missing")
            value = given[name]
            if parameter["kind"] == "struct":
                if not isinstance(value, dict):
                    fields = ", ".join(field["name"] for field in parameter["fields"])
                    raise ValueError(f"parameter '{owner}{name}' needs a dict of its fields, {fields}, but the argument is {value!r}")
                self.check(parameter["fields"], value, f"{owner}{name}.")
            elif parameter["kind"] == "scalar" and not is_number(value):
                raise ValueError(f"parameter '{owner}{name}' has type {parameter['dtype']}, but the argument is {value!r}")

    def output_of(self, path, arguments):
        """Returns the shape of an output and the name of its type."""
        rule = self.outputs[path]
        if isinstance(rule, str):
            of = dict((name, x) for name, _, x in self.tensors(arguments)).get(rule)
            if of is None:
                raise ValueError(f"outputs: '{path}' has the shape of '{rule}', but kernel '{self.name}' was not given '{rule}'")
            rule = tuple(of.shape)
        elif callable(rule):
            rule = rule(arguments)
        dtype = None
        if len(rule) == 2 and isinstance(rule[0], (tuple, list)):
            rule, dtype = rule
        if dtype is None:
            dtype = self.kinds[path]["dtype"]
        return tuple(rule), NAMES.get(dtype, dtype)

    def replaced(self, arguments, by_path):
        """Returns a copy of the arguments in which the arguments at some paths are replaced."""
        def of(given, owner):
            replaced = {name: of(x, f"{owner}{name}.") if isinstance(x, dict) else x for name, x in given.items()}
            return {**replaced, **{path[len(owner):]: x for path, x in by_path.items()
                                   if path.startswith(owner) and "." not in path[len(owner):]}}

        return of(arguments, "")

    def with_outputs(self, arguments, make):
        """Returns the arguments together with the outputs, which make(shape, type's name) creates."""
        return self.replaced(arguments, {path: make(*self.output_of(path, arguments)) for path in self.outputs})

    def tensors(self, arguments):
        """Returns (name, parameter, value) of each given argument, including fields of structs."""
        return [(path, self.kinds[path], x) for path in self.kinds if (x := _at(arguments, path, _nothing)) is not _nothing]

    def results(self, arguments):
        """Returns the result of a call, which consists of its outputs and updates, selected from all its arguments."""
        results = tuple(_at(arguments, path) for path in (*self.outputs, *self.updates))
        return results[0] if len(results) == 1 else results or None

    def is_written(self, path):
        return not self.is_pure or path in self.outputs or path in self.updates

    def encode(self, arguments, tensor, scalar, struct):
        """Calls `tensor(name, value, is_written)`, `scalar(name, type, value)` or `struct(results for its fields)` for each parameter, in
        the kernel's order, and returns the results. The arguments must have passed check(), and must include the outputs."""
        def one(parameter, value, owner):
            name = owner + parameter["name"]
            if parameter["kind"] == "scalar":
                return scalar(name, parameter["dtype"], value)
            if parameter["kind"] == "struct":
                return struct([one(field, value[field["name"]], name + ".") for field in parameter["fields"]])
            if not hasattr(value, "shape"):
                raise ValueError(f"parameter '{name}' must be a tensor, but the argument is {value!r}")
            if parameter["kind"] == "pointer" and has_gaps(value):
                raise ValueError(f"parameter '{name}' is a pointer, so that the kernel does not know strides, but the argument is a tensor "
                                 "with gaps, or with its dimensions in a different order: make it contiguous")
            return tensor(name, value, self.is_written(name))

        return [one(parameter, arguments[parameter["name"]], "") for parameter in self.parameters]

    def run(self, grid, arguments, tensor, device, stream=None):
        """Launches the kernel, which changes tensors in place; `tensor` converts a tensor to the extension's form."""
        encoded = self.encode(arguments, lambda name, x, is_written: (name, tensor(x), is_written), scalar_of,
                              lambda fields: ("struct", tuple(fields)))
        _ext.launch(self.program, grid, tuple(encoded), device_of(device), stream)


_nothing = object()


def _tensors_in(parameters, owner=""):
    """Yields (name, parameter) for each tensor. The name of a field of a struct is, for example, "p.x"."""
    for parameter in parameters:
        if parameter["kind"] == "struct":
            yield from _tensors_in(parameter["fields"], owner + parameter["name"] + ".")
        elif parameter["kind"] != "scalar":
            yield owner + parameter["name"], parameter


def _values(arguments):
    """Returns the values of all arguments. A struct is replaced with the values of its fields."""
    values = []
    for x in arguments.values():
        values += _values(x) if isinstance(x, dict) else [x]
    return values


def _at(arguments, path, otherwise=None):
    for name in path.split("."):
        if name not in arguments:
            return otherwise
        arguments = arguments[name]
    return arguments


def is_number(x):
    """Returns whether x is a Python number, or a tensor without dimensions, which may be traced."""
    return isinstance(x, (int, float)) or getattr(x, "shape", None) == ()


def has_gaps(x):
    """Returns whether the elements are not contiguous in C order. JAX arrays are always contiguous."""
    return not (x.is_contiguous() if hasattr(x, "is_contiguous") else x.flags.c_contiguous if hasattr(x, "flags") else True)


def scalar_of(name, dtype, value):
    """Converts a number to the extension's form, which is an integer or the bits of a float."""
    if hasattr(value, "shape") and value.shape == ():
        value = value.item()  # a NumPy scalar, or a tensor without dimensions
    kind = NAMES[dtype]
    if kind == "bfloat16":
        bits, = struct.unpack("<I", struct.pack("<f", value))
        if not math.isnan(value):
            bits += 0x7fff + (bits >> 16 & 1)  # to nearest, ties to even
        return struct.pack("<H", bits >> 16)
    if kind in _SCALARS:
        try:
            return struct.pack(_SCALARS[kind], value)
        except OverflowError:
            raise ValueError(f"parameter '{name}' has type {dtype}, which cannot hold the argument {value}") from None
    if kind.startswith("float8"):
        raise ValueError(f"parameter '{name}' has type {dtype}, which only tensors can have")
    if isinstance(value, float):
        raise ValueError(f"parameter '{name}' has type {dtype}, but the argument is {value}")
    if kind == "uint64" and 0 <= value < 1 << 64:
        return struct.pack("<Q", value)
    return value

"""Functions for all operations on PyTorch tensors."""
import ctypes
import functools
import os
import sys

import torch
from torch import library as operators
from torch.autograd import forward_ad, profiler

from .._common import CODES, check_kind, name_of, output_of

if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    raise ImportError(f"ptxbuilder needs PyTorch 2.10 or newer, but this version is {torch.__version__}")

library = operators.Library("ptxbuilder", "FRAGMENT")  # must be kept, because the operations are removed with the Library object
PLACES = ("CPU", "CUDA")
PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
DTYPES = {name: getattr(torch, name) for name in CODES if hasattr(torch, name)}

is_compiling = torch.compiler.is_dynamo_compiling
is_grad_enabled = torch.is_grad_enabled
mode_count = torch._C._len_torch_dispatch_stack
is_tracing = torch._C._is_tracing  # whether torch.jit.trace is active; faster than torch.jit.is_tracing()
has_transforms = torch._C._functorch.peek_interpreter_stack  # returns None if torch.func is not active
unwrap_if_dead = torch._C._functorch.unwrap_if_dead  # unwraps a tensor whose torch.func transform has ended

IS_ALLOCATED = True  # whether the extension can allocate results in the framework's memory
broadcast_shapes, broadcast_to = torch.broadcast_shapes, torch.broadcast_to


def tensor(x):
    return x.resolve_neg()  # the extension does not support PyTorch's negative views


def check_operands(required, **optional):
    """Rejects objects that are not PyTorch tensors, and tensors without strided memory. If nothing is traced, it is called only after a
    call has failed, to find the reason, so that other calls take no time for it."""
    check_kind(torch.Tensor, "PyTorch", "torch.from_dlpack(x), or torch.tensor(x) for numbers", required, **optional)
    for name, x in {**required, **optional}.items():
        if x is None:
            continue
        if x.is_nested:
            raise ValueError(f"{name}: the parts of a nested tensor do not share strides: pass x.to_padded_tensor(0.0), or pass packed "
                             "sequences to pb.attention(), x.values() and x.offsets().int()")
        if x.layout != torch.strided:
            raise ValueError(f"{name}: its layout is {x.layout}, but it must be strided: pass x.to_dense()")
        if x.is_quantized:
            raise ValueError(f"{name}: the scale of a quantized tensor, of {x.dtype}, would be ignored: pass x.dequantize(), or "
                             "x.int_repr() and scale the result")
        if x.device.type == "meta":
            raise ValueError(f"{name}: a meta tensor has no memory: pass one on a GPU, or on the CPU with a device; a FakeTensorMode "
                             "computes results from shapes only")


def check_meta(*tensors):
    """Checks the tensors of an operation that computes only a shape. PyTorch may request this because one tensor is a meta tensor; then all
    tensors must be meta tensors."""
    if len({x.device.type == "meta" for x in tensors if x is not None}) > 1:
        raise ValueError("a meta tensor, which has no memory, was given together with tensors that have memory: put all on one device")


NO_OUT = ("out: a given result has no gradient, and cannot be batched by torch.func.vmap: leave it out, or call under torch.no_grad() and "
          "outside of vmap")
NO_BATCH = "{} is not supported under torch.func.vmap: leave it out, or call outside of vmap, since A and B may have batch dimensions"


def is_wrapped(*tensors):
    """Returns whether torch.func has wrapped one of the tensors, such as a batch of its vmap."""
    return (not is_compiling() and has_transforms() is not None
            and any(x is not None and torch._C._functorch.is_functorch_wrapped_tensor(x) for x in tensors))


def is_vmapped():
    transforms = None if is_compiling() else has_transforms()
    return transforms is not None and transforms.key() == torch._C._functorch.TransformType.Vmap


def refuse_negative(**tensors):
    """Rejects tensors that would be written but are negative views, whose memory has the opposite sign."""
    for name, x in tensors.items():
        if isinstance(x, torch.Tensor) and x.is_neg():
            raise ValueError(f"{name}: it is a view whose sign PyTorch keeps outside of its memory, which cannot be written: pass a "
                             "different tensor")


def compact(x):
    return x.contiguous()


def copy(x):
    return x.clone(memory_format=torch.contiguous_format)


def sparse(make, *matrix):
    """Calls a function of _sparse.py with a matrix on the host, and moves the results to the matrix's device."""
    check_operands(dict(enumerate(matrix)))
    refuse_gradient("a sparse matrix", **{f"operand {i}": x for i, x in enumerate(matrix)})
    place = matrix[0].device
    return tuple(x.to(place) for x in make(_kit, *(x.detach().cpu() for x in matrix)))


def is_on_host(x):
    return x.device.type == "cpu"


def empty(like, shape, name):
    dtype = DTYPES[name]
    if like.shape == shape and like.dtype == dtype and like.is_contiguous():
        return torch.empty_like(like)  # takes half the time of new_empty()
    return like.new_empty(shape, dtype=dtype)


def strides_of(x):
    return x.stride()


element_strides_of = strides_of


def permuted(x, axes):
    return x.permute(axes)


def view(out, shape):
    refuse_negative(out=out)
    try:
        return out.view(shape)
    except RuntimeError:
        raise ValueError(f"D: its batches, of shape {tuple(out.shape)} and strides {out.stride()}, must follow each other without "
                         "gaps") from None


def dtype_of(dtype):
    return dtype if dtype is None or isinstance(dtype, torch.dtype) else DTYPES[name_of(dtype)]


def is_watched():
    """Returns whether a dispatch mode or torch.jit.trace must record the call."""
    return mode_count() > 0 or is_tracing()


def named(name):
    """Returns a decorator that runs a function in a profiler range of this name if torch.profiler is active."""
    def by(function):
        @functools.wraps(function)
        def call(*arguments):
            if is_compiling() or not profiler._is_profiler_enabled:
                return function(*arguments)
            with profiler.record_function(name):
                return function(*arguments)

        return call

    return by


def tracing_state():
    """Returns the address of the C++ function that is_tracing() calls; 0 if this version of PyTorch does not have the function. The
    function returns the address of torch.jit.trace's state. The extension calls it directly, because calling is_tracing() would add 100 ns
    to each product."""
    try:
        library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))
        return ctypes.cast(library._ZN5torch3jit6tracer15getTracingStateEv, ctypes.c_void_p).value
    except (OSError, AttributeError):
        return 0


def autocast_of(x):
    """Returns the type to which torch.autocast converts f32 on the tensor's device; None if autocast is off."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if kind in ("cpu", "cuda") and torch.is_autocast_enabled(kind) else None


def narrowed(x, dtype):
    """Converts a tensor like torch.autocast, but only from f32, since the user has chosen types with fewer bits explicitly."""
    return x.to(dtype) if isinstance(x, torch.Tensor) and x.dtype == torch.float32 else x


def factor_of(grad, dtype):
    """Returns (factor, unit) for an incoming gradient: the factor has type `dtype`, and times the unit it is the gradient. The unit is
    None, or a power of two that brings bf16 or f32 numbers into the range of f16."""
    if dtype != torch.float16 or grad.dtype == dtype or grad.numel() == 0:
        return grad.to(dtype), None
    most = grad.detach().abs().amax().float()
    # If an element is infinite or NaN, the unit is 1, so that no element changes.
    unit = torch.exp2(torch.log2(most).floor().nan_to_num(14, posinf=14).clamp(-100, 127) - 14)
    return (grad / unit).to(dtype), unit


def in_unit(product, unit, dtype):
    """Returns product(dtype) times the unit that factor_of() returned, rounded once."""
    return product(dtype) if unit is None else (product(torch.float32) * unit).to(dtype)


def is_plain(x):
    return x is None or type(x) in PLAIN


def requires_grad(*tensors):
    return is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in tensors)  # an argument may be another object than a tensor


def refuse_gradient(which, **operands):
    """Rejects operands that require a gradient, because they would silently get none."""
    for name, x in operands.items():
        if requires_grad(x):
            raise ValueError(f"{which} has no gradient in {name}: detach it, x.detach(), or call under torch.no_grad()")


def is_dual():
    """Returns whether forward derivatives are being computed. An autograd function without forward derivatives rejects them, and any other
    call would silently omit them."""
    return forward_ad._current_level >= 0


def applied(function, *values):
    """Calls function.apply(). If nothing is traced or transformed, calls its C++ base class directly, because the Python code of apply()
    inspects the signature of forward() each time, which takes twice as long as everything else."""
    if is_compiling() or has_transforms() is not None:
        return function.apply(*values)
    return super(torch.autograd.Function, function).apply(*[unwrap_if_dead(x) if isinstance(x, torch.Tensor) else x for x in values])


def place_of(device, first, name):
    """Returns the device in the form that PyTorch operations accept. For tensors on the CPU, the device must be given."""
    if device is None and first.device.type == "cpu":
        raise ValueError(f'{name}: its memory is on the CPU: move it to a GPU, or pass device="emulator" to run there')
    return device if device is None else str(device)


def there(device, first):
    """Returns the device for an operation that PyTorch has dispatched to the tensors' device. On the CPU, the default is the emulator."""
    return "emulator" if device is None and not first.is_cuda else device


_kit = sys.modules[__name__]

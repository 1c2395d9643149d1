"""What operations on PyTorch's tensors share."""
import torch
from torch import library as operators

from .._common import CODES, name_of, output_of

if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    raise ImportError(f"ptxbuilder needs PyTorch 2.10 or newer, and this is {torch.__version__}")

library = operators.Library("ptxbuilder", "FRAGMENT")  # the operations go with it
PLACES = ("CPU", "CUDA")
PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
DTYPES = {name: getattr(torch, name) for name in CODES if hasattr(torch, name)}

is_compiling = torch.compiler.is_dynamo_compiling
is_grad_enabled = torch.is_grad_enabled
has_modes = torch._C._len_torch_dispatch_stack
has_transforms = torch._C._functorch.peek_interpreter_stack  # torch.func; None for none

IS_ALLOCATED = True  # whether the extension makes results, in the framework's memory
broadcast_shapes, broadcast_to = torch.broadcast_shapes, torch.broadcast_to


def tensor(x):
    return x.resolve_neg()  # the extension takes what lies in memory


def check_kind(**arrays):
    for name, x in arrays.items():
        if hasattr(x, "dtype") and not isinstance(x, torch.Tensor):
            raise ValueError(f"{name}: {type(x)} beside tensors of PyTorch's: give torch.from_dlpack(x)")


def refuse_negative(**tensors):
    """Of tensors that are written, those whose memory has the other sign."""
    for name, x in tensors.items():
        if isinstance(x, torch.Tensor) and x.is_neg():
            raise ValueError(f"{name}: a view whose sign PyTorch keeps beside its memory, and it is written: give another")


def compact(x):
    return x.contiguous()


def empty(like, shape, name):
    return like.new_empty(shape, dtype=DTYPES[name])


def view(out, shape):
    refuse_negative(out=out)
    try:
        return out.view(shape)
    except RuntimeError:
        raise ValueError(f"D: its batches, of shape {tuple(out.shape)} and strides {out.stride()}, are not one behind the "
                         "other") from None


def dtype_of(dtype):
    return dtype if dtype is None or isinstance(dtype, torch.dtype) else DTYPES[name_of(dtype)]


def is_plain(x):
    return x is None or type(x) in PLAIN


def requires_grad(*tensors):
    return is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)


def place_of(device, first, name):
    """As an operation of PyTorch's takes it: of tensors on the CPU it has to be said."""
    if device is None and first.device.type == "cpu":
        raise ValueError(f'{name}: its memory is on the CPU: move it to a GPU, or say device="emulator" to run there')
    return device if device is None else str(device)


def there(device, first):
    """Of an operation that PyTorch has brought to the tensors' place, by which the emulator may go without saying."""
    return "emulator" if device is None and not first.is_cuda else device

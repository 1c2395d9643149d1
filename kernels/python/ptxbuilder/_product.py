"""The product, for whichever framework its operands are of."""
from . import _ext
from ._ext import eager_product  # a name of this module is found sooner than one of _ext, and each call looks it up
from ._common import CODES, activation_of, as_they_lie, device_of, door_of, fold, name_of, output_of, untouched

def is_traced():
    """Whether torch.compile is at work, which does not see into the extension. PyTorch's function, once there is PyTorch."""
    return True


# Not by keyword alone: Python looks the default of each such argument up in a dict, 0.2 to 0.3 us a call.
def matmul(a, b, bias=None, c=None, alpha=1.0, beta=None, activation=None, out=None, out_dtype=None, transpose_a=False,
           transpose_b=False, precise=False, tf32=False, device=None):
    """D = activation(alpha A B + beta C + bias), rounded once, as a tensor of A's framework.

    A is [.., m, k] and B [.., k, n], or their transposes; batches are broadcast. Both of f16, bf16, f32 (rounded to tf32
    on the tensor cores, which `tf32` has to allow), int8 or uint8, or of e4m3fn and e5m2 in any combination. D has `out_dtype`,
    a type of the framework's or a name as "f32": f16, bf16 or f32, and of integers int32; unless said, the operands' own,
    bf16 for 8-bit floats. C is [.., m, n] and
    bias [n], of D's type; beta is 1 where C is given. `activation` is "relu", "gelu" (by tanh) or "silu". `precise`
    promotes sums of 8-bit floats to f32 every 128 of k.

    On the framework's current stream and its GPU. Operands on the CPU need a device: "emulator", or "cuda" to copy them
    there and back. `out` is written and returned; JAX has none. Differentiable in A, B, C and bias.
    Raises ValueError that names the operand and the rule.
    """
    if not is_traced():
        d = eager_product(a, b, out, bias, c, alpha, beta, activation, out_dtype, transpose_a, transpose_b, precise, tf32,
                          device, False)
        if d is not NotImplemented:
            return d
    return door_of(a).matmul(a, b, out, bias, c, alpha, (1.0 if c is not None else 0.0) if beta is None else beta, activation,
                             out_dtype, transpose_a, transpose_b, precise, tf32, device)


def run(kit, a, b, out, bias, c, alpha, beta, activation, out_dtype, precise, tf32, device, stream=None):
    """One product of tensors of any rank and of any strides; `kit` says how tensors are made and passed.

    What the library refuses as it lies is copied, so that it lies along k, and tried once more.
    """
    a, b, c, folded, shape = fold(kit.broadcast_shapes, kit.broadcast_to, a, b, c)
    name = name_of(a.dtype if out_dtype is None and out is None else out_dtype or out.dtype)
    if out_dtype is None and out is None:
        name = output_of(name)
    if out is None:
        out = kit.empty(a, folded, name)
        result = out
    else:
        if tuple(out.shape) != shape:
            raise ValueError(f"D: its shape is {tuple(out.shape)}, and that of the product is {shape}")
        if out_dtype is not None and name_of(out.dtype) != name:
            raise ValueError(f"D: its type is {name_of(out.dtype)}, but out_dtype is {name}")
        result = kit.view(out, folded)
    flags = _ext.TF32 * bool(tf32) | _ext.PRECISE * bool(precise)
    values = float(alpha), float(beta), activation_of(activation), flags, 0, device_of(device), stream
    tensor = kit.tensor
    given, bias = tensor(result), None if bias is None else tensor(bias)

    def call(a, b_turned, c):
        _ext.product(tensor(a), tensor(b_turned.swapaxes(-1, -2)), given, None if c is None else tensor(c), bias, *values)

    as_they_lie(call, kit.compact, a, b.swapaxes(-1, -2), c)  # of B a copy lies along k, as some types have to
    return result.reshape(shape) if out is result and folded != shape else out


def workspace_of(device, a, b, d, c, bias, alpha, beta, activation, flags):
    """The bytes that a product of compact tensors, each (shape, type's name), takes; it is compiled."""
    tensors = untouched(a, b, d, c, bias)
    return _ext.product_workspace(device, *tensors, float(alpha), float(beta), activation_of(activation), flags)

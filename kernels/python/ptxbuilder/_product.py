"""The product, for whichever framework its operands are of."""
from . import _ext
from ._ext import eager_product  # a name of this module is found sooner than one of _ext, and each call looks it up
from ._beside import Beside, check_beside, halved, laid
from ._common import activation_of, as_they_lie, check_flags, check_number, device_of, door_of, fold, name_of, output_of, untouched

def is_traced():
    """Whether torch.compile is at work, which does not see into the extension. PyTorch's function, once there is PyTorch."""
    return True


# Not by keyword alone: Python looks the default of each such argument up in a dict, 0.2 to 0.3 us a call.
def matmul(a, b, bias=None, c=None, alpha=1.0, beta=None, activation=None, out=None, out_dtype=None, transpose_a=False,
           transpose_b=False, precise=False, tf32=False, device=None, scale_a=None, scale_b=None, scale_result=None, amax=None,
           slope_of=None, gate=False):
    """D = activation(alpha A B + beta C + bias), rounded once, as a tensor of A's framework.

    A is [.., m, k] and B [.., k, n], or their transposes; batches are broadcast. Both of f16, bf16, f32 (rounded to tf32
    on the tensor cores, which `tf32` has to allow), int8 or uint8, or of e4m3fn and e5m2 in any combination. D has `out_dtype`,
    a type of the framework's or a name as "f32": f16, bf16, f32, e4m3fn or e5m2, and of integers int32; unless said, the
    operands' own, bf16 for 8-bit floats. C is [.., m, n] and bias [n], of D's type, or bf16 where that has 8 bits; beta is 1
    where C is given. `activation` is "relu", "gelu" (by tanh) or "silu". `precise` promotes sums of 8-bit floats to f32 every
    128 of k.

    Scales are float32 in the device's memory, as those of torch._scaled_mm. `scale_a` multiplies the rows of A, [.., m] or
    [.., m, 1], and `scale_b` the columns of B, [.., n] or [.., 1, n]; or all of it, where it has one element. `alpha` may be
    a tensor of one element too. D is multiplied by `scale_result`, of one element, before it is rounded, and of 8 bits clamped.
    `amax`, of one element, becomes the greatest |D| before `scale_result` and unrounded, where it is less: set it to 0 first.
    JAX's arrays are not written: with amax=True, or an array, matmul() returns (D, amax), and with amax=False D alone.

    With `gate`, D[.., j] = activation(x[.., 2 j]) x[.., 2 j + 1] of x = alpha A B + bias: half as many columns. With `slope_of`,
    [.., m, n] of C's type, D = x activation'(slope_of): the way back through an activation.

    On the framework's current stream and its GPU. Operands on the CPU need a device: "emulator", or "cuda" to copy them
    there and back. `out` is written and returned; JAX has none. Differentiable in A, B, C, bias, `alpha`, `scale_a`, `scale_b`
    and `slope_of`: then what stands behind the sum is the framework's, and `amax`, `scale_result` and D of 8 bits are refused.
    Raises ValueError that names the operand and the rule.
    """
    if not is_traced():
        # Without those that are not there, each of which would cost.
        if scale_a is None and scale_b is None and scale_result is None and amax is None and slope_of is None and not gate:
            d = eager_product(a, b, out, bias, c, alpha, beta, activation, out_dtype, transpose_a, transpose_b, precise, tf32,
                              device, False)
        else:
            d = eager_product(a, b, out, bias, c, alpha, beta, activation, out_dtype, transpose_a, transpose_b, precise, tf32,
                              device, False, scale_a, scale_b, scale_result, amax, slope_of, gate)
        if d is not NotImplemented:
            return d
    if beta is None:
        beta = 1.0 if c is not None else 0.0
    check_number("alpha", alpha)
    check_number("beta", beta)
    check_flags(transpose_a=transpose_a, transpose_b=transpose_b, precise=precise, tf32=tf32, gate=gate)
    values = (activation, out_dtype, transpose_a, transpose_b, precise, tf32, device)
    beside = Beside(alpha, scale_a, scale_b, scale_result, amax, slope_of, gate)
    if gate or not isinstance(alpha, (int, float)) or any(x is not None for x in beside[1:-1]):
        check_beside(activation, c, gate, slope_of)
        return door_of(a).matmul_beside(a, b, out, bias, c, beta, *values, beside)
    return door_of(a).matmul(a, b, out, bias, c, alpha, beta, *values)


def run(kit, a, b, out, bias, c, alpha, beta, activation, out_dtype, precise, tf32, device, stream=None, beside=None):
    """One product of tensors of any rank and of any strides; `kit` says how tensors are made and passed.

    What the library refuses as it lies is copied, so that it lies along k, and tried once more.
    """
    lines = (a.shape[:-1], (*b.shape[:-2], *b.shape[-1:]))
    a, b, c, folded, shape = fold(kit.broadcast_shapes, kit.broadcast_to, a, b, c)
    alpha, besides, slope_of = (alpha, (), None) if beside is None else laid(kit, beside, *lines, folded, shape)
    if beside is not None and beside.gate:
        folded, shape = halved(folded), halved(shape)
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
    flags = _ext.TF32 * bool(tf32) | _ext.PRECISE * bool(precise) | _ext.GATE * bool(beside and beside.gate)
    values = float(alpha), float(beta), activation_of(activation), flags, 0, device_of(device), stream
    given, *rest = (None if x is None else kit.tensor(x) for x in (result, bias, *besides))
    bias, besides = rest[0], rest[1:]

    def call(a, b_turned, c, slope_of):
        a, b, c, slope_of = (None if x is None else kit.tensor(x) for x in (a, b_turned.swapaxes(-1, -2), c, slope_of))
        _ext.product(a, b, given, c, bias, *values, *besides, *((slope_of,) if besides else ()))

    as_they_lie(call, kit.compact, a, b.swapaxes(-1, -2), c, slope_of)  # of B a copy lies along k, as some types have to
    return result.reshape(shape) if out is result and folded != shape else out


def workspace_of(device, a, b, d, c, bias, alpha, beta, activation, flags, beside=()):
    """The bytes that a product of compact tensors, each (shape, type's name), takes; it is compiled."""
    a, b, d, c, bias, *beside = untouched(a, b, d, c, bias, *beside)
    return _ext.product_workspace(device, a, b, d, c, bias, float(alpha), float(beta), activation_of(activation), flags, *beside)

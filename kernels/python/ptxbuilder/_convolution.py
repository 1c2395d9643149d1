"""Convolutions of images for the tensors of any framework."""
import math

from . import _ext, _product
from ._common import activation_of, check_flags, device_of, door_of, name_of, output_of, untouched, warn_of_work

RESULTS = {"y": 0, "x": 1, "w": 2}  # ptxb_convolution_result


def conv2d(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1, *, activation=None, out_dtype=None, precise=False, tf32=False,
           device=None):
    """Convolves images like torch.nn.functional.conv2d: x is [images, channels, lines, pixels], w is [filters, channels of a group, lines,
    pixels], and the result is [images, filters, lines, pixels], plus a bias for each filter.

    If tensors have channels last in memory (torch.channels_last; with NumPy, views of arrays whose channels are last), the hardware loads
    the pixels under windows in place. Other tensors are copied once, and the result has channels last. JAX arrays are always stored in the
    order of their dimensions; under jax.jit, a copy is omitted if it follows or precedes a transposition from or to channels last.

    `stride`, `padding` and `dilation` are one number, or one number for lines and one for pixels; padding may be "same" or "valid". Strides
    are 1 to 8. matmul() describes `activation`, the types, `out_dtype`, `precise`, `tf32` and `device`. The result is differentiable in x,
    w and the bias, if these are f16 or bf16. If a tensor breaks a rule, raises a ValueError that names both.
    """
    if not _product.is_traced():
        y = _ext.eager_convolution(x, w, bias, stride, padding, dilation, groups, activation, out_dtype, precise, tf32, device)
        if y is not NotImplemented:
            return y
    check_flags(precise=precise, tf32=tf32)
    activation_of(activation)
    door = door_of(x)
    if not hasattr(door, "conv2d"):
        raise ValueError(f"x: {type(x)}; it must be a tensor of PyTorch, JAX or numpy")
    for name, tensor in (("x", x), ("w", w)):
        if len(tensor.shape) != 4:
            raise ValueError(f"{name}: its shape is {tuple(tensor.shape)}; it must have 4 dimensions, the second for channels")
    words = Words(windows_of(tuple(w.shape[2:]), stride, padding, dilation), groups, activation, out_dtype, precise, tf32, device)
    return door.conv2d(x, w, bias, words)


class Words:
    """All arguments of a call except its tensors. `windows` holds the steps, the zeros before, the zeros after and the spreads, each for
    lines and for pixels."""

    def __init__(self, windows, groups, activation=None, out_dtype=None, precise=False, tf32=False, device=None):
        if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
            raise ValueError(f"groups: {groups!r}; it must be an integer of at least 1")
        self.windows, self.groups, self.activation = windows, groups, activation
        self.out_dtype, self.precise, self.tf32, self.device = out_dtype, precise, tf32, device

    def flags(self):
        return _ext.TF32 * bool(self.tf32) | _ext.PRECISE * bool(self.precise)

    def type_of(self, x):
        return output_of(name_of(x.dtype)) if self.out_dtype is None else name_of(self.out_dtype)

    def shape_of(self, x, w):
        """Returns the shape of the result. The library checks that the channels match."""
        step, before, behind, spread = (self.windows[at:at + 2] for at in (0, 2, 4, 6))
        lines_and_pixels = []
        for d in (0, 1):
            room = x[2 + d] + before[d] + behind[d] - spread[d] * (w[2 + d] - 1) - 1
            if room < 0:
                raise ValueError(f"x: {x[2 + d]} {('lines', 'pixels')[d]} with {before[d]} and {behind[d]} of padding are fewer than the "
                                 f"{spread[d] * (w[2 + d] - 1) + 1} of a filter")
            lines_and_pixels.append(room // step[d] + 1)
        return (x[0], w[0], *lines_and_pixels)

    def check_gradient(self, x, w):
        """Rejects windows for which the library would reject the gradient of x. For each position between two windows, that gradient uses
        windows of the result with reversed taps. The hardware restricts where these windows begin, at most 128 pixels before the result,
        and where they end."""
        y = self.shape_of(x, w)
        for d in (0, 1):
            step, before, spread, pixels, taps = *(self.windows[at + d] for at in (0, 2, 6)), x[2 + d], w[2 + d]
            common = math.gcd(step, spread)
            for at in range(min(step, pixels)):
                tap = next((tap for tap in range(min(step // common, taps)) if (at + before - tap * spread) % step == 0), None)
                if tap is None:
                    continue
                reach = (taps - tap - 1) // (step // common) * (spread // common)
                first = (at + before - tap * spread) // step - reach
                behind = first + (pixels - at + step - 1) // step - y[2 + d]
                if reach > 255 or first < -128 or not -128 <= behind < 128:
                    raise ValueError(f"x: the windows of its gradient begin {-first} {('lines', 'pixels')[d]} before the result, end "
                                     f"{behind} after it and reach {reach}; for the hardware, they must begin at most 128 before it, end "
                                     "-128 to 127 after it and reach at most 255: pass x.detach()")


def _pair(name, value, least):
    pair = (value, value) if isinstance(value, int) else tuple(value) if isinstance(value, (tuple, list)) else ()
    if len(pair) == 1:
        pair *= 2
    if len(pair) != 2 or any(isinstance(one, bool) or not isinstance(one, int) or one < least for one in pair):
        raise ValueError(f"{name}: {value!r}; it must be an integer of at least {least}, or two, along lines and along pixels")
    return pair


def windows_of(taps, stride, padding, dilation):
    step, spread = _pair("stride", stride, 1), _pair("dilation", dilation, 1)
    if padding == "valid":
        padding = 0
    if padding == "same":
        if step != (1, 1):
            raise ValueError(f"padding: 'same' needs a stride of 1, not {stride!r}, with which the result has fewer pixels: pass numbers")
        all_of = [reach * (count - 1) for reach, count in zip(spread, taps)]
        before, behind = tuple(one // 2 for one in all_of), tuple(one - one // 2 for one in all_of)
    elif isinstance(padding, str):
        raise ValueError(f"padding: {padding!r} is not one of 'same' and 'valid'")
    else:
        before = behind = _pair("padding", padding, 0)
    return (*step, *before, *behind, *spread)


def _last(kit, x):
    """Returns the tensor as [images, lines, pixels, channels]."""
    return kit.permuted(x, (0, 2, 3, 1))


def _lying(kit, x):
    """Returns the tensor as _last() does, and copies it if the hardware cannot access it in place."""
    last = _last(kit, x)
    *outer, channel = zip(last.shape, kit.element_strides_of(last))
    lies = channel[0] == 1 or channel[1] == 1
    return last if lies and all(extent == 1 or stride >= channel[0] for extent, stride in outer) else kit.compact(last)


def _made(kit, like, shape, name):
    """Returns a new tensor of this shape, with channels last in memory."""
    n, c, h, w = shape
    return kit.permuted(kit.empty(like, (n, h, w, c), name), (0, 3, 1, 2))


def run(kit, x, w, bias, words, stream=None):
    """Computes one convolution; `kit` has the framework's functions that create tensors and pass them."""
    y = _made(kit, x, words.shape_of(x.shape, w.shape), words.type_of(x))
    if bias is not None and tuple(bias.shape) != (w.shape[0],):
        raise ValueError(f"bias: its shape is {tuple(bias.shape)}, but there are {w.shape[0]} filters")
    if 0 in y.shape:
        return y
    _call(kit, _lying(kit, x), _lying(kit, w), _last(kit, y), None if bias is None else kit.compact(bias), "y", words, stream)
    return y


def run_gradient(kit, result, x, w, grad, shape, name, words, stream=None):
    """Computes the gradient of x or of w, depending on `result`, with the given shape and type. The tensor whose gradient is computed is
    not read."""
    made = _made(kit, grad, shape, name)
    if 0 in shape or 0 in grad.shape:
        return made.zero_()
    x, w = (_last(kit, made) if which == result else _lying(kit, given) for which, given in (("x", x), ("w", w)))
    _call(kit, x, w, kit.compact(_last(kit, grad)), None, result, words, stream)
    return made


def workspace_of(device, x, w, y, bias, result, words):
    """Compiles a convolution of compact tensors with channels last, each given as (shape, type's name), and returns the size of its
    workspace in bytes.
    """
    x, w, y, bias = untouched(x, w, y, bias)
    return _ext.convolution_workspace(device, x, w, y, bias, RESULTS[result], activation_of(words.activation),
                                      (*words.windows, words.groups), words.flags())


def _call(kit, x, w, y, bias, result, words, stream):
    device = device_of(words.device)
    if device == _ext.EMULATOR:
        warn_of_work(math.prod(y.shape) * math.prod(w.shape[1:]))
    _ext.convolution(kit.tensor(x), kit.tensor(w), kit.tensor(y), None if bias is None else kit.tensor(bias), RESULTS[result],
                     activation_of(words.activation), (*words.windows, words.groups), words.flags(), device, stream)

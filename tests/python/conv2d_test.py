"""Tests convolutions of images on the emulator against sums of numpy products: windows, memory formats and types, refused calls, and
PyTorch's gradients."""
import importlib.util
import itertools

import kit

kit.use("numpy", "ml_dtypes")
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

import ptxbuilder as pb  # noqa: E402
from ptxbuilder._convolution import windows_of  # noqa: E402

random = np.random.default_rng(1)


def drawn(shape, dtype=ml_dtypes.bfloat16):
    """Returns integers, with channels last in memory."""
    n, c, h, w = shape
    return random.integers(-3, 4, (n, h, w, c)).astype(dtype).transpose(0, 3, 1, 2)


def expected(x, w, bias=None, stride=(1, 1), before=(0, 0), behind=(0, 0), dilation=(1, 1), groups=1):
    x, w = x.astype(np.float64), w.astype(np.float64)
    x = np.pad(x, ((0, 0), (0, 0), (before[0], behind[0]), (before[1], behind[1])))
    p, q = ((x.shape[2 + d] - dilation[d] * (w.shape[2 + d] - 1) - 1) // stride[d] + 1 for d in (0, 1))
    y = np.zeros((x.shape[0], w.shape[0], p, q))
    channels, filters = w.shape[1], w.shape[0] // groups
    for g, r, s in itertools.product(range(groups), range(w.shape[2]), range(w.shape[3])):
        pixels = x[:, g * channels:(g + 1) * channels, r * dilation[0]:, s * dilation[1]:][:, :, ::stride[0], ::stride[1]][:, :, :p, :q]
        y[:, g * filters:(g + 1) * filters] += np.einsum("ncpq,kc->nkpq", pixels, w[g * filters:(g + 1) * filters, :, r, s])
    return y if bias is None else y + bias.astype(np.float64)[:, None, None]


def refused(word, *arguments, **words):
    try:
        pb.conv2d(*arguments, **{"device": "emulator", **words})
    except ValueError as error:
        kit.check(word in str(error), f"{word!r} is not in: {error}")
    else:
        kit.check(False, f"not refused: {word}")


for of_x, of_w, words, by_side in (
        ((2, 16, 7, 9), (24, 16, 3, 3), {"padding": 1}, {"before": (1, 1), "behind": (1, 1)}),
        ((1, 24, 8, 8), (8, 24, 1, 1), {}, {}),
        ((2, 8, 9, 6), (8, 8, 1, 1), {"stride": 2}, {"stride": (2, 2)}),
        ((1, 3, 11, 12), (16, 3, 7, 5), {"stride": (2, 1), "padding": (3, 2)}, {"stride": (2, 1), "before": (3, 2), "behind": (3, 2)}),
        ((1, 8, 7, 6), (8, 8, 2, 3), {"padding": "same", "dilation": (1, 2)}, {"before": (0, 2), "behind": (1, 2), "dilation": (1, 2)}),
        ((1, 32, 5, 5), (16, 16, 3, 3), {"padding": "valid", "groups": 2}, {"groups": 2})):
    x, w, bias = drawn(of_x), drawn(of_w), random.integers(-3, 4, of_w[0]).astype(np.float32)
    y = pb.conv2d(x, w, bias, out_dtype="f32", device="emulator", **words)
    kit.check(np.array_equal(y, expected(x, w, bias, **by_side)), of_x, of_w, words)
    kit.check(y.strides[1] == y.itemsize, "channels are last")
# Other memory formats are copied, whereas views of larger tensors are not. The activation is applied last.
x, w = drawn((2, 24, 6, 7)), drawn((8, 16, 3, 3))
wide = np.ascontiguousarray(x)[:, 4:20]
kit.check(np.array_equal(pb.conv2d(wide, np.ascontiguousarray(w), out_dtype="f32", device="emulator"), expected(wide, w)), "channels first")
part = x[:, 8:, 1:, ::2]
y = pb.conv2d(part, w, activation="relu", out_dtype="f32", device="emulator")
kit.check(np.array_equal(y, np.maximum(expected(part, w), 0)), "a view")
half = pb.conv2d(x.astype(np.float16)[:, :16], w.astype(np.float16), device="emulator")
kit.check(half.dtype == np.float16 and np.array_equal(half, expected(x[:, :16], w).astype(np.float16)), "f16")

x = x[:, :16]
refused("x: its shape is (16, 6, 7); it must have 4 dimensions", x[0], w)
refused("filters of 16 channels for 1 groups of x's 24", drawn((2, 24, 6, 7)), w)
refused("x: 2 lines with 0 and 0 of padding are fewer than the 3 of a filter", x[:, :, :2], w)
refused("stride: 0; it must be an integer of at least 1", x, w, stride=0)
refused("along h, the step is 9", x, w, stride=9, padding=4)
refused("padding: 'same' needs a stride of 1, not 2", x, w, stride=2, padding="same")
refused("padding: 'full' is not one of", x, w, padding="full")
refused("groups: 0", x, w, groups=0)
refused("bias: its shape is (7,), but there are 8 filters", x, w, np.zeros(7, ml_dtypes.bfloat16))
refused("bias: it is f32 in 1 dimensions, but must have one dimension of 8 contiguous bf16", x, w, np.zeros(8, np.float32))
refused("activation 'tanh'", x, w, activation="tanh")
refused("set `tf32`", x.astype(np.float32), w.astype(np.float32))

if importlib.util.find_spec("torch"):
    import torch

    def tensors(*shapes):
        return (torch.from_numpy(random.standard_normal(shape)).bfloat16().requires_grad_() for shape in shapes)

    for of_x, of_w, words in (((2, 16, 7, 6), (8, 16, 3, 3), {"padding": 1, "activation": "gelu"}),
                              ((2, 16, 9, 8), (8, 8, 3, 2), {"stride": (2, 3), "padding": (1, 0), "groups": 2}),
                              ((1, 8, 6, 6), (8, 8, 1, 1), {"stride": 2, "activation": "relu"}),
                              ((1, 8, 9, 9), (16, 8, 3, 3), {"dilation": 2, "padding": 2})):
        x, w, bias = tensors(of_x, of_w, of_w[:1])
        y = pb.conv2d(x, w, bias, device="emulator", **words)
        activation = {None: lambda z: z, "relu": torch.relu, "gelu": lambda z: torch.nn.functional.gelu(z, approximate="tanh")}
        numbers = {name: value for name, value in words.items() if name != "activation"}
        wanted = activation[words.get("activation")](torch.nn.functional.conv2d(x.double(), w.double(), bias.double(), **numbers))
        kit.check(torch.allclose(y.double(), wanted, rtol=2e-2, atol=1e-1), words)
        kit.check(y.is_contiguous(memory_format=torch.channels_last), "channels are last")
        grad = torch.from_numpy(random.standard_normal(tuple(y.shape))).bfloat16()
        found, right = (torch.autograd.grad(of, (x, w, bias), grad.to(of.dtype)) for of in (y, wanted))
        for name, one, other in zip(("x", "w", "bias"), found, right):
            close = torch.allclose(one.double(), other.double(), rtol=2e-2, atol=2e-2 * other.abs().max().item())
            kit.check(one.shape == other.shape and close, words, "gradient of", name)

    x, w = tensors((1, 8, 6, 6), (8, 8, 3, 3))
    compiled = torch.compile(lambda x, w: pb.conv2d(x, w, padding=1, device="emulator"), backend="aot_eager", fullgraph=True)
    y, same = compiled(x, w), pb.conv2d(x, w, padding=1, device="emulator")
    kit.check(torch.equal(y, same) and y.stride() == same.stride(), "compiled")
    for one, other in zip(torch.autograd.grad(y.sum(), (x, w)), torch.autograd.grad(same.sum(), (x, w))):
        kit.check(torch.equal(one, other), "the gradient of what is compiled")
    with torch.no_grad():
        for operator, arguments in ((torch.ops.ptxbuilder.conv2d, (x, w, None, [1, 1, 1, 1, 1, 1, 1, 1])),
                                    (torch.ops.ptxbuilder.conv2d_gradient, ("x", w, same, x.shape, x.dtype, [1, 1, 1, 1, 1, 1, 1, 1], 1))):
            torch.library.opcheck(operator, arguments, {"device": "emulator"}, test_utils=("test_schema", "test_faketensor"))
        with torch.autocast("cpu", torch.bfloat16):
            kit.check(pb.conv2d(x.float(), w.float(), padding=1, device="emulator").dtype == torch.bfloat16, "autocast")
    x, w = (one.detach().half().requires_grad_() for one in (x, w))

    def of_x(x):
        return pb.conv2d(x, w, device="emulator").float().square().sum()

    right, = torch.autograd.grad(of_x(x), x)
    kit.check(torch.equal(torch.func.grad(of_x)(x.detach()), right), "torch.func.grad")
    with kit.refused("jvp", kind=NotImplementedError):  # otherwise, a tangent would be lost
        torch.func.jvp(of_x, (x.detach(),), (x.detach(),))
    # Tests second derivatives, even if the incoming gradient of the first requires none, as for a sum.
    for words in ({"padding": 1}, {"stride": 2, "padding": 1, "groups": 2}, {"dilation": 2, "padding": 2}):
        x, w = tensors((2, 16, 6, 5), (16, 16 // words.get("groups", 1), 3, 3))
        exactly = [one.detach().double().requires_grad_() for one in (x, w)]
        calls = (lambda x, w: pb.conv2d(x, w, device="emulator", **words), lambda x, w: torch.nn.functional.conv2d(x, w, **words))
        for loss in (torch.Tensor.sum, lambda y: 0.01 * y.pow(3).sum()):
            def twice(call, x, w):
                first = torch.autograd.grad(loss(call(x, w).double()), (x, w), create_graph=True)
                return torch.autograd.grad(sum(one.double().square().sum() for one in first), (x, w))

            def by_functions(call, x, w):
                first = torch.func.grad(lambda x: loss(call(x, w).double()))
                return torch.func.grad(lambda x: first(x).double().square().sum())(x)

            for one, right in zip(twice(calls[0], x, w), twice(calls[1], *exactly)):
                kit.check((one.double() - right).norm() <= 1e-2 * right.norm(), words, "second derivative")
            one, right = by_functions(calls[0], x.detach(), w.detach()), by_functions(calls[1], *(one.detach() for one in exactly))
            kit.check((one.double() - right).norm() <= 1e-2 * right.norm(), words, "torch.func.grad of torch.func.grad")
    w = w.detach().half().requires_grad_()
    none = torch.zeros(0, 8, 6, 6, dtype=torch.float16, requires_grad=True)
    of_none = torch.autograd.grad(pb.conv2d(none, w, device="emulator").float().sum(), (none, w))
    kit.check(of_none[0].shape == none.shape and not of_none[1].any(), "no images")
    # Checks that a forward call refuses exactly what its backward call would refuse.
    outcomes = set()
    for channels, pixels, taps, stride, padding in ((4, 300, 200, 1, 0), (4, 300, 200, 1, 100), (4, 300, 129, 1, 0), (4, 300, 130, 1, 0),
                                                    (4, 300, 200, 2, 0), (4, 520, 262, 2, 1), (4, 300, 290, 4, 2), (16, 40, 9, 3, 4)):
        x, w = tensors((1, channels, 1, pixels), (8, channels, 1, taps))
        y = pb.conv2d(x.detach(), w, stride=(1, stride), padding=(0, padding), device="emulator")
        kit.check(torch.autograd.grad(y.float().sum(), w)[0].isfinite().all(), "of w alone")
        words = (list(windows_of((1, taps), (1, stride), (0, padding), 1)), 1)
        try:
            torch.ops.ptxbuilder.conv2d_gradient("x", w.detach(), y.detach(), x.shape, x.dtype, *words, "emulator")
            torch.autograd.grad(pb.conv2d(x, w, stride=(1, stride), padding=(0, padding), device="emulator").float().sum(), x)
            outcomes.add("taken")
        except Exception as error:
            kit.check("for TMA, they must begin" in str(error), error)
            refused("x: the windows of its gradient begin", x, w, stride=(1, stride), padding=(0, padding))
            outcomes.add("refused")
    kit.check(outcomes == {"taken", "refused"}, outcomes)
    x, w = tensors((1, 8, 6, 6), (8, 8, 3, 3))
    refused("x of torch.float8_e4m3fn has no gradient", x.detach().to(torch.float8_e4m3fn), w.detach().to(torch.float8_e4m3fn),
            torch.zeros(8, dtype=torch.bfloat16, requires_grad=True))
kit.end()

"""Checks that tensors with unsupported properties are refused with a message, in every argument: eager, compiled and under torch.func.

  refused_test.py FOLDER   which holds saxpy.ptx and saxpy.json
"""
import sys

import kit
from torch_kit import by_compiler, check  # imported first, because it finds a PyTorch
import numpy as np
import ptxbuilder as pb
import struct_kernel
import torch

torch.manual_seed(7)
torch._dynamo.config.recompile_limit = 256
saxpy = pb.load(f"{sys.argv[1]}/saxpy", updates=["y"], device="emulator")
BF16 = torch.bfloat16
a, b, c, heads = (torch.randn(shape).to(BF16) for shape in ((16, 24), (24, 32), (16, 32), (1, 16, 2, 64)))
ones = torch.ones(100)


def product(a, b, **words):
    return pb.matmul(a, b, device="emulator", **words)


def attend(q, k, v, **words):
    return pb.attention(q, k, v, device="emulator", **words)


scaled = pb.load(struct_kernel.files(), updates=["p.to"], outputs={"y": "p.x"}, device="emulator")


def launch_struct(x, to, **words):
    return scaled((4,), p={**dict(x=x, to=to, n=100, s=2.0), **words}, bias=1.0, device="emulator")


def launch(x, y):
    return saxpy(x=x, y=y, alpha=2.0, count=100, device="emulator")


# A call for each operand of each operation, indexed by the operand's name in errors.
PLACES = {
    "A": lambda make: lambda: product(make(a), b), "B": lambda make: lambda: product(a, make(b)),
    "C": lambda make: lambda: product(a, b, c=make(c)), "bias": lambda make: lambda: product(a, b, bias=make(c[0])),
    "out": lambda make: lambda: product(a, b, out=make(c)), "scale_a": lambda make: lambda: product(a, b, scale_a=make(ones[:16])),
    "scale_b": lambda make: lambda: product(a, b, scale_b=make(ones[:32])), "alpha": lambda make: lambda: product(a, b, alpha=make(ones[:1])),
    "scale_result": lambda make: lambda: product(a, b, scale_result=make(ones[:1])),
    "amax": lambda make: lambda: product(a, b, amax=make(ones[:1])),
    "slope_of": lambda make: lambda: product(a, b, slope_of=make(c), activation="silu"),
    "Q": lambda make: lambda: attend(make(heads), heads, heads), "K": lambda make: lambda: attend(heads, make(heads), heads),
    "V": lambda make: lambda: attend(heads, heads, make(heads)),
    "out ": lambda make: lambda: attend(heads, heads, heads, out=make(heads)),
    "query_offsets": lambda make: lambda: attend(heads[0], heads[0], heads[0], query_offsets=make(ones[:2].int()),
                                                 key_offsets=ones[:2].int(), max_queries=1, max_keys=1),
    "parameter 'x'": lambda make: lambda: launch(make(ones), ones * 1), "parameter 'y'": lambda make: lambda: launch(ones, make(ones)),
    "parameter 'p.to'": lambda make: lambda: launch_struct(ones, make(ones)),
}
NESTED = "the parts of a nested tensor do not share strides: pass x.to_padded_tensor(0.0)"
for kind, make, text in (("meta", lambda x: x.to("meta"), "a meta tensor has no memory"),
                         ("sparse", lambda x: x.to_sparse(), "its layout is torch.sparse_coo, but it must be strided"),
                         ("rows", lambda x: (x if x.ndim == 2 else x.reshape(1, -1)).to_sparse_csr(), "its layout is torch.sparse_csr"),
                         ("nested", lambda x: torch.nested.nested_tensor([x, x]), NESTED),
                         ("jagged", lambda x: torch.nested.nested_tensor([x, x], layout=torch.jagged), NESTED),
                         ("quantized", lambda x: torch.quantize_per_tensor(x.float(), 0.1, 0, torch.qint8), "a quantized tensor, of "
                                                                                   "torch.qint8"),
                         ("None", lambda x: None, "it is <class 'NoneType'>, but the other tensors are PyTorch's"),
                         ("array", lambda x: x.float().numpy(), "it is <class 'numpy.ndarray'>, but the other tensors are PyTorch's"),
                         ("list", lambda x: x.tolist(),
                          "it is <class 'list'>, but the other tensors are PyTorch's: pass torch.from_dlpack(x), or torch.tensor(x)")):
    for name, place in PLACES.items():
        if kind in ("None", "array", "list") and name in ("A", "Q", "alpha", "parameter 'x'"):
            continue  # this argument determines the framework, or may be a number
        if kind == "None" and name not in ("B", "K", "parameter 'y'", "parameter 'p.to'"):
            continue
        with kit.refused(name.strip(), text):
            place(make)()
        if kind in ("meta", "jagged"):  # PyTorch's compiler refuses the other kinds
            with kit.refused(name.strip(), text, kind=Exception):
                by_compiler(place(make))()
meta = a.to("meta")
with kit.refused("a meta tensor, which has no memory, was given together with tensors that have memory"):
    torch.ops.ptxbuilder.matmul(a, b.to("meta"))
kit.check(torch.ops.ptxbuilder.matmul(meta, b.to("meta")).shape == (16, 32), "a shape alone")

# torch.func.vmap supports no given result, and only one amax, scale or clamp for all batches.
batches = torch.stack([a, -a, 2 * a])
for words, text in ((dict(amax=torch.zeros(1)), "amax is not supported under torch.func.vmap"),
                    (dict(scale_result=torch.ones(1)), "scale_result is not supported under torch.func.vmap"),
                    (dict(out_dtype="e4m3", scale_a=torch.ones(1)), "out_dtype of torch.float8_e4m3fn is not supported under "
                                                               "torch.func.vmap"),
                    (dict(out=c), "cannot be batched by torch.func.vmap"),
                    (dict(out=c, scale_a=torch.ones(1)), "cannot be batched by torch.func.vmap")):
    with kit.refused(text):
        torch.func.vmap(lambda a: product(a, b, **words))(batches)
each = torch.zeros(3, 1)
with kit.refused("amax is not supported under torch.func.vmap"):
    torch.func.vmap(lambda a, amax: product(a, b, amax=amax))(batches, each)
kit.check(not each.any(), "what is refused is not written")
with kit.refused("amax: not supported if a gradient of the product is requested"):
    torch.func.grad(lambda a: product(a, b, amax=torch.zeros(1)).float().sum())(a)
with kit.refused("kernel 'saxpy' is not supported under torch.func"):
    torch.func.vmap(launch)(torch.ones(3, 100), torch.ones(3, 100))
amax = torch.zeros(1)
product(batches, b, amax=amax)  # the greatest magnitude of all batches, as the message says
check(amax, (batches.double() @ b.double()).abs().max().reshape(1), 1e-6, "amax")

# Tests invalid numbers, flags, devices and shapes.
for words, text in ((dict(alpha=1j), "alpha: 1j is a complex; it must be a number"), (dict(alpha=[1.0]), "alpha: [1.0] is a list"),
                    (dict(alpha=None), "alpha: None is a NoneType"), (dict(c=c, beta=[1.0]), "beta: [1.0] is a list"),
                    (dict(transpose_a="no"), "transpose_a: 'no' is not one of True and False"), (dict(tf32=None), "tf32: None is not one "
                                                                                                      "of"),
                    (dict(out_dtype=3), "3 is not supported"),
                    (dict(device="cpu"), "use 'emulator', or 'cuda'"),
                    (dict(device=torch.device("cpu")), "use 'emulator', or 'cuda'"), (dict(device=True), "device True is not one of")):
    for way in (pb.matmul, by_compiler(pb.matmul)):
        if way is pb.matmul or not {"device", "out_dtype"} & set(words):
            with kit.refused(text, kind=ValueError if way is pb.matmul else Exception):
                way(a, b, **{"device": "emulator", **words})
for call in (lambda: attend(heads, heads, heads), lambda: product(a, b)):
    before = call()
    kit.check(torch.equal(call(), before), "and others still work")
check(product(a, a, transpose_b=np.bool_(True), gate=np.bool_(False)), a.double() @ a.double().T, 2**-8, "numpy's bool")
wide, narrow, offsets = torch.randn(1, 16, 2, 128).to(BF16), heads[0], torch.tensor([0, 16])
packed = dict(query_offsets=offsets, key_offsets=offsets, max_queries=16, max_keys=16)
for q, v, words, text in ((heads, wide, {},
                           "V has 128 columns (value_depth), but Q has 64; V must have at least one, and no more than Q: pass V in parts"),
                          (narrow, narrow, packed, "query_offsets: it is [2] of s64, but must have one dimension of 2 contiguous"),
                          (narrow, narrow, {**packed, "max_keys": 1.5}, "max_keys: 1.5; it must be an integer"),
                          (heads, heads, dict(scale=[1.0]), "scale: [1.0] is a list"), (heads, heads, dict(softcap=1j), "softcap: 1j is "
                                                                                                           "a complex"),
                          (heads, heads, dict(window=("a", 0)), "window: ('a', 0); it must be two integers"),
                          (heads, heads, dict(window=(1 << 63, None)), "it must be two integers"), (heads, heads, dict(device="cpu"), "is not one of 'emulator', 'cuda'")):
    with kit.refused(text):
        pb.attention(q, q, v, **{"device": "emulator", **words})
halves = [attend(heads, heads, part) for part in wide.split(64, -1)]  # the message recommends this
expected = torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2).double() for x in (heads, heads, wide))).transpose(1, 2)
check(torch.cat(halves, -1), expected, 2**-7, "V in parts")
for grid, text in (((1, 2.5), "grid: 2.5; it must have a number of CTAs"), ((1 << 32) + 1, "grid: 4294967297"), (-1, "grid: -1"), ("1", "grid: '1'")):
    with kit.refused(text):
        saxpy(grid, x=ones, y=ones * 1, alpha=2.0, count=100, device="emulator")
check(saxpy(np.int64(4), x=ones, y=ones * 1, alpha=2.0, count=100, device="emulator"), 3 * ones, 0, "numpy's integer")
for words, text in ((dict(alpha=None), "parameter 'alpha' has type f32, but the argument is None"), (dict(count=1 << 70), "does not fit in "
                                                                                                      "64 bits"),
                    (dict(x=np.ones(100, "f4")), "but the other tensors are numpy's"),
                    (dict(y=np.ones(100, "f4")), "but the other tensors are PyTorch's")):
    with kit.refused(text):
        saxpy(**{**dict(x=ones, y=ones * 1, alpha=2.0, count=100, device="emulator"), **words})
for words, text in ((dict(s=None), "parameter 'p.s' has type f32, but the argument is None"),
                    (dict(n=[3]), "parameter 'p.n' has type u32, but the argument is [3]"),
                    (dict(z=1), "parameter 'p' was given 'z', but takes x, n, s, to"),
                    (dict(s=ones), "parameter 'p.s' has type f32, but the argument is tensor(")):
    with kit.refused(text):
        launch_struct(ones, ones * 1, **words)
kit.end()

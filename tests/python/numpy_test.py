"""Tests the extension with numpy arrays on the emulator: all types, many shapes and strides, and refused calls.

  numpy_test.py FOLDER   which holds saxpy.ptx, saxpy.json and the same two files of saxpy_tma
"""
import ast
import copy
import inspect
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings

import kit

kit.use("numpy", "ml_dtypes")
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

import ptxbuilder as pb  # noqa: E402
from ptxbuilder._common import ACTIVATIONS  # noqa: E402
import reference  # noqa: E402
import struct_kernel  # noqa: E402

# Checks that matmul() has all operands of the library's table.
named = inspect.signature(pb.matmul).parameters
for row in pb._product.ROWS:
    kit.check(row.word in named and (f"`{row.word}`" in pb.matmul.__doc__ or row.label in pb.matmul.__doc__.split()), row)

# Checks that tools see the same signatures as callers do: the stub must agree with the functions.
stub = ast.parse(open(pb.__file__ + "i").read())
for name in ("matmul", "grouped_mm", "scaled_mm", "attention", "load", "warm_up"):
    told = [node.args for node in stub.body if isinstance(node, ast.FunctionDef) and node.name == name]
    is_said = {x.name: x.default is not x.empty for x in inspect.signature(getattr(pb, name)).parameters.values() if x.kind is not x.VAR_KEYWORD}
    for args in told:
        one = [arg.arg for arg in args.args + args.kwonlyargs]
        kit.check(one == list(is_said), name, one)
    needed = [len(args.args) - len(args.defaults) + args.kw_defaults.count(None) for args in told]
    kit.check(min(needed, default=-1) == list(is_said.values()).count(False), name, needed)
kit.check(pb.__version__ == ".".join(re.findall(r"#define PTXBUILDER_VERSION_\w+ (\d+)", open(f"{kit.TOP}/ptxbuilder/version.h").read())))

random = np.random.default_rng(int.from_bytes(b"ptxb", "little"))
BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
UNIT = {np.dtype(BF16): 2**-8, np.dtype(np.float16): 2**-11, np.dtype(np.float32): 2**-24}


def drawn(*shape, dtype=BF16):
    if np.dtype(dtype).kind in "iu":
        return random.integers(0, 8, shape).astype(dtype)
    return random.standard_normal(shape).astype(dtype)


def wide(x):
    return np.asarray(x).astype(np.float64)


def check_product(a, b, turn_a=False, turn_b=False, **words):
    """Compares with float64, allowing one rounding of each element to D's type."""
    d = pb.matmul(a, b, transpose_a=turn_a, transpose_b=turn_b, device="emulator", **words)
    x, y = wide(a), wide(b)
    x, y = x.swapaxes(-1, -2) if turn_a else x, y.swapaxes(-1, -2) if turn_b else y
    if a.dtype == np.float32:  # inputs are rounded to tf32
        x, y = (z.astype(np.float32).view(np.uint32) for z in (x, y))
        x, y = (((z + 0x1000) & 0xffffe000).view(np.float32).astype(np.float64) for z in (x, y))
    expected, sums = x @ y, abs(x) @ abs(y)
    loose = 2**-9 if a.dtype == np.float32 else 2**-10 if a.dtype.itemsize == 1 else 2**-18
    bound = abs(expected) * UNIT.get(d.dtype, 0) * 1.01 + sums * loose + 1e-30
    kit.check(d.shape == expected.shape, f"shape {d.shape}, expected {expected.shape}")
    kit.check(np.all(abs(wide(d) - expected) <= bound), f"{a.dtype} {a.shape} x {b.dtype} {b.shape} -> {d.dtype}: wrong by "
              f"{np.max(abs(wide(d) - expected) / bound) if d.size else 0.0:.3} of the bound")
    return d


for dtype in (BF16, np.float16):
    for shapes in (((64, 64), (64, 64)), ((33, 20), (20, 41)), ((1, 7), (7, 1)), ((0, 8), (8, 8)), ((8, 0), (0, 8)),
                   ((3, 17, 24), (3, 24, 40)), ((3, 17, 24), (24, 40)), ((2, 1, 9, 24), (3, 24, 8)), ((24, 8), (2, 8, 16)),
                   ((1, 1, 9, 16), (16, 8)), ((0, 9, 16), (16, 8)), ((2, 0, 16), (2, 16, 8)), ((2, 9, 0), (2, 0, 8))):
        check_product(*(drawn(*shape, dtype=dtype) for shape in shapes))
check_product(drawn(24, 33), drawn(40, 24), True, True)
check_product(drawn(3, 24, 33), drawn(40, 24), True, True)
for dtype in (BF16, np.float16, np.float32):
    kit.check(check_product(drawn(16, 24), drawn(24, 16), out_dtype=dtype).dtype == dtype)
kit.check(check_product(drawn(16, 24), drawn(24, 16), out_dtype="f32").dtype == np.float32)
for a_type in (E4M3, E5M2):
    for b_type in (E4M3, E5M2):
        for precise in (False, True):
            kit.check(check_product(drawn(16, 256, dtype=a_type), drawn(40, 256, dtype=b_type), turn_b=True,
                                    precise=precise).dtype == BF16)
    check_product(drawn(16, 48, dtype=a_type), drawn(48, 24, dtype=a_type), out_dtype="f32")  # A and B are copied to be contiguous along k
check_product(drawn(20, 72, dtype=np.float32), drawn(72, 40, dtype=np.float32), tf32=True)
kit.check(check_product(drawn(16, 32, dtype=np.int8), drawn(24, 32, dtype=np.int8), turn_b=True).dtype == np.int32)
kit.check(check_product(drawn(16, 32, dtype=np.uint8), drawn(32, 24, dtype=np.uint8)).dtype == np.int32)

# Tests strides: gaps, steps, negative strides, zero strides, and an offset of one element, which TMA does not support.
a, b = drawn(40, 96), drawn(96, 80)
for x, y in ((a[:, :48], b[:48]), (a[:, ::2], b[::2]), (a[::-1], b), (a, b[:, ::-1]), (a[:, 1:], b[1:]), (a[3::5], b[:, ::3]),
             (np.broadcast_to(a[:1], a.shape), b), (a, np.broadcast_to(b[:, :1], b.shape)), (a.T.copy().T, b.T.copy().T)):
    check_product(x, y)

# Tests the epilogue.
a, b, bias, c = drawn(24, 32), drawn(32, 40), drawn(40), drawn(24, 40)
z = 0.5 * wide(a) @ wide(b) + 2 * wide(c) + wide(bias)
kit.check(set(reference.ACTIVATIONS) == set(ACTIVATIONS), ACTIVATIONS)
for name, function in ((name, activation(z)) for name, activation in reference.activations(np).items()):
    d = pb.matmul(a, b, bias=bias, c=c, alpha=0.5, beta=2.0, activation=name, device="emulator")
    kit.check(np.all(abs(wide(d) - function) <= abs(function) * 2**-8 + 2e-3), name)
kit.check(np.array_equal(pb.matmul(a, b, c=c, device="emulator"), pb.matmul(a, b, c=c, beta=1.0, device="emulator")))

# Tests the other operands: scales, the amax, gates, slopes, and a D of 8 bits. A given D may have other batch strides.
for case in reference.PRODUCTS:
    drawn_case, words = reference.drawn_product(case, random)
    tensors = {name: x.astype(getattr(ml_dtypes, kind, None) or kind) for name, (x, kind) in drawn_case.items()}
    amax = np.zeros((1, 1), np.float32) if "amax" in case[4] else None
    d = pb.matmul(**tensors, **words, amax=amax, device="emulator")
    kit.check(str(d.dtype) == words["out_dtype"])
    problem = reference.wrong_product(wide(d), None if amax is None else float(amax[0, 0]),
                                      {name: wide(x) for name, x in tensors.items()}, words)
    kit.check(not problem, case, problem)
    given = np.zeros((*d.shape[:-1], d.shape[-1] + 16), d.dtype)[..., :d.shape[-1]]
    pb.matmul(**tensors, **words, amax=amax, out=given, device="emulator")
    kit.check(np.array_equal(wide(given), wide(d)), case, "out=")
a, b = drawn(24, 32), drawn(32, 40)
amax = np.full(1, 1e9, np.float32)
pb.matmul(a, b, amax=amax, device="emulator")
kit.check(amax[0] == 1e9, "a greater amax stays")
rows, columns, number = (np.ones(n, np.float32) for n in (24, 40, 1))
for words, text in ((dict(scale_a=columns), "scale_a: its shape is (40,); it must be (24,) or (24, 1), or have one element"),
                    (dict(scale_b=rows), "scale_b: its shape is (24,); it must be (40,) or (1, 40), or have one element"),
                    (dict(scale_a=rows[None]), "scale_a: its shape is (1, 24)"), (dict(scale_a=wide(rows)), "scale_a: its type is float64"),
                    (dict(scale_result=rows), "scale_result: its shape is (24,); it must have one element"),
                    (dict(alpha=rows), "alpha: its shape is (24,); it must have one element"), (dict(amax=rows), "amax: its shape is "
                                                                                                     "(24,)"),
                    (dict(amax=np.broadcast_to(number, (1,))), "amax: it is read-only"),
                    (dict(amax=0.0), "amax: it is <class 'float'>, but the other tensors are numpy's"),
                    (dict(gate=True), "gate needs an activation"), (dict(slope_of=drawn(24, 40)), "slope_of needs an activation"),
                    (dict(gate=True, activation="silu", slope_of=drawn(24, 40)), "a product is a gate or a backward pass"),
                    (dict(gate=True, activation="silu", c=drawn(24, 40)), "gate cannot be used with C"),
                    (dict(slope_of=drawn(24, 39), activation="silu"), "slope_of: its shape is (24, 39)"),
                    (dict(slope_of=drawn(24, 40, dtype=np.float16), activation="silu"), "must be bf16 if D is bf16"),
                    (dict(out_dtype="e4m3", bias=drawn(40, dtype=E4M3)), "must be bf16 if D is e4m3")):
    with kit.refused(text):
        pb.matmul(a, b, **words, device="emulator")
with kit.refused("gate: B has 39 columns; their number must be even, since they come in pairs"):
    pb.matmul(a, b[:, 1:], gate=True, activation="silu", device="emulator")
with kit.refused("D of s32 cannot be used with an epilogue"):
    pb.matmul(drawn(16, 32, dtype=np.int8), drawn(32, 24, dtype=np.int8), scale_a=np.ones(16, np.float32), device="emulator")

# Tests that a given result is written, and that nothing around it changes.
out = np.full((24, 100), 7, BF16)
kit.check(pb.matmul(a, b, out=out[:, 3:43], device="emulator").base is not None)
kit.check(np.array_equal(out[:, 3:43], pb.matmul(a, b, device="emulator")) and np.all(out[:, :3] == 7) and
          np.all(out[:, 43:] == 7))
again = c.copy()
pb.matmul(a, b, c=again, out=again, device="emulator")
kit.check(np.array_equal(again, pb.matmul(a, b, c=c, device="emulator")), "D may be C")
batches = np.zeros((2, 3, 24, 40), np.float32)
kit.check(pb.matmul(drawn(2, 3, 24, 32), b, out=batches, device="emulator") is batches and np.all(batches.any(-1)))

for swapped in (">f4", ">f2"):
    with kit.refused(f"the byte order of {swapped} is not that of this machine: pass x.astype("):
        pb.matmul(np.ones((8, 16), swapped), np.ones((16, 8), swapped[1:]), device="emulator", tf32=True)
with kit.refused("scale_a: it is <class 'float'>, but the other tensors are numpy's"):
    pb.matmul(np.ones((8, 16), "f2"), np.ones((16, 8), "f2"), device="emulator", scale_a=2.0)
with kit.refused("amax overlaps d_scale, which is read while amax is written"):
    both = np.full(1, 0.5, "f4")
    pb.matmul(np.ones((8, 16), "f2"), np.ones((16, 8), "f2"), device="emulator", scale_result=both, amax=both)
eight = np.ones((8, 16), E4M3)
kit.check(pb.matmul(eight, eight[:0], transpose_b=True, device="emulator").shape == (8, 0), "no columns of 8 bits")
kit.check(pb.matmul(eight, eight[:0].T, device="emulator").shape == (8, 0), "no columns of 8 bits, as they lie")
with kit.refused("A: its memory is on the CPU", 'device="emulator"'):
    pb.matmul(a, b)
with kit.refused("set `tf32` to allow it"):
    pb.matmul(wide(a).astype(np.float32), wide(b).astype(np.float32), device="emulator")
with kit.refused("B: 40 x 32, but A is 24 x 32; B must have 32 rows, as many as A has columns"):
    pb.matmul(a, b.T, device="emulator")
with kit.refused("A and B: they have 1 and 2 dimensions"):
    pb.matmul(a[0], b, device="emulator")
with kit.refused("A and B: they have 0 and 2 dimensions"):
    pb.matmul(np.array(1.0), b, device="emulator")
with kit.refused("B: its batches (3,) do not match A's (2,)"):
    pb.matmul(drawn(2, 4, 8), drawn(3, 8, 4), device="emulator")
with kit.refused("C: its shape is (40, 24)"):
    pb.matmul(a, b, c=c.T, device="emulator")
with kit.refused("bias: it is [39] of bf16, but must be bf16 if D is bf16, of [40]"):
    pb.matmul(a, b, bias=bias[1:], device="emulator")
with kit.refused("bias: it is [40] of f32, but must be bf16"):
    pb.matmul(a, b, bias=wide(bias).astype(np.float32), device="emulator")
with kit.refused("activation 'tanh' is not one of"):
    pb.matmul(a, b, activation="tanh", device="emulator")
with kit.refused("device 'gpu' is not one of"):
    pb.matmul(a, b, device="gpu")
with kit.refused("beta is 1, but C is NULL"):
    pb.matmul(a, b, beta=1.0, device="emulator")
kit.check(np.isnan(pb.matmul(np.full((1, 8), np.nan, np.float16), np.ones((8, 4), np.float16), activation="relu", device="emulator")).all())
with kit.refused("alpha: '2' is a str; it must be a number"):
    pb.matmul(a, b, alpha="2", device="emulator")
with kit.refused("f8 is not supported; the type must be one of int8 (s8)"):
    pb.matmul(a, b, out_dtype="f8", device="emulator")
with kit.refused("complex64 is not supported"):
    pb.matmul(a.astype(np.complex64), b, device="emulator")
with kit.refused("D: its shape is (24, 39)"):
    pb.matmul(a, b, out=c[:, 1:], device="emulator")
with kit.refused("D: its type is bfloat16, but out_dtype is float32"):
    pb.matmul(a, b, out=c, out_dtype="f32", device="emulator")
with kit.refused("D: it is read-only"):
    pb.matmul(a, b, out=np.broadcast_to(c[:1], c.shape), device="emulator")
square = drawn(16, 16)
with kit.refused("D overlaps A"):
    pb.matmul(square, drawn(16, 16), out=square, device="emulator")
with kit.refused("is not a tensor of PyTorch, JAX, numpy or CuPy"):
    pb.matmul([[1.0]], b)
pb.warm_up("matmul", [(64, 64, 64), (2, 64, 64, 64)], "bf16", device="emulator", bias=True)
pb.warm_up("matmul", [(64, 64, 64)], "e4m3", device="emulator", out_dtype="e4m3", bias=True, scale_a=True, scale_b=True, scale_result=True,
           amax=True, transpose_b=True)
pb.warm_up("matmul", [(2, 64, 64, 64)], "bf16", device="emulator", activation="silu", gate=True, alpha_tensor=True)
pb.warm_up("matmul", [(64, 64, 64)], "bf16", device="emulator", activation="silu", slope_of=True, out_dtype="e5m2", c=True)
with kit.refused("gate needs an activation"):
    pb.warm_up("matmul", [(64, 64, 64)], "bf16", device="emulator", gate=True)
with kit.refused("operation 'conv'"):
    pb.warm_up("conv", [], "bf16")

# Tests loaded kernels of any kind.
folder = sys.argv[1]
x, y = drawn(1000, dtype=np.float32), drawn(1000, dtype=np.float32)
expected = np.float32(2) * x + y  # the kernel rounds once less than this expression does; see below
saxpy = pb.load(f"{folder}/saxpy", updates=["y"], device="emulator")
result = y.copy()
kit.check(saxpy(x=x, y=result, alpha=2.0, count=1000, device="emulator") is result)
kit.check(np.allclose(result, expected, rtol=1e-6, atol=1e-6))
for grid in (32, (32,), (32, 1, 1)):
    result = y.copy()
    kit.check(pb.load(f"{folder}/saxpy", device="emulator")(grid, x=x, y=result, alpha=2, count=np.int32(999),
                                                            device="emulator") is None)
    kit.check(np.allclose(result[:999], expected[:999], rtol=1e-6, atol=1e-6) and result[999] == y[999])
for gaps in (x[::2], x.reshape(10, 100).T):
    with kit.refused("parameter 'x' is a pointer, so that the kernel does not know strides"):
        saxpy(x=gaps, y=result, alpha=2.0, count=500, device="emulator")
tma = pb.load(f"{folder}/saxpy_tma", outputs={"y": "X"}, device="emulator")
matrix = drawn(8, 32, dtype=np.float32), drawn(8, 32, dtype=np.float32)
kit.check(np.allclose(tma(X=matrix[0], Y=matrix[1], alpha=3.0, device="emulator"), 3 * matrix[0] + matrix[1], rtol=1e-5,
                      atol=1e-5))
given = dict(x=x, y=result, alpha=2.0, count=1000, device="emulator")
for wrong, text in ((dict(alpha="2"), "parameter 'alpha' has type f32, but the argument is '2'"),
                    (dict(count=1.5), "parameter 'count' has type u32, but the argument is 1.5"),
                    (dict(count=-1), "parameter 'count' has type u32, but the integer -1 was given"),
                    (dict(x=3), "parameter 'x': it is <class 'int'>, but the other tensors are numpy's: pass numpy.asarray(x)"),
                    (dict(x=x.astype(np.float64)), "it takes a pointer of f32, but one of f64 was given"),
                    (dict(z=1), "kernel 'saxpy' was given 'z', but takes x, y, alpha, count"),
                    (dict(y=np.frombuffer(bytes(4000), np.float32)), "y: it is read-only"),
                    (dict(device=None), "its memory is on the CPU")):
    with kit.refused(text):
        saxpy(**{**given, **wrong})
with kit.refused("kernel 'saxpy': 'y' is missing"):
    saxpy(x=x, alpha=2.0, count=1000)
with kit.refused("a grid of 4 numbers"):
    saxpy((1, 1, 1, 1), **given)
with kit.refused("outputs: kernel 'saxpy' has no tensor 'alpha'"):
    pb.load(f"{folder}/saxpy", outputs={"alpha": "x"}, device="emulator")
with kit.refused("nothing.json: cannot be read"):
    pb.load(f"{folder}/nothing", device="emulator")

# Tests tensors in a struct, which are treated like other tensors: they determine the framework, and outputs and updates can name them.
path, to = struct_kernel.files(), np.zeros(1000, np.float32)
scaled = pb.load(path, updates=["p.to"], outputs={"y": "p.x"}, device="emulator")
kit.check(str(inspect.signature(scaled)) == "(grid=None, /, *, p, bias, device=None)", inspect.signature(scaled))
for text in ("Kernel 'scaled' of ", "p: struct, what is scaled", "    x: pointer of f32, numbers", "It allocates y.", "It changes p.to."):
    kit.check(text in scaled.__doc__, text, scaled.__doc__)
d, given = scaled((32,), p=dict(x=x, n=1000, s=2.0, to=to), bias=1, device="emulator")
kit.check(given is to and np.all(to == 2) and np.allclose(d, 2 * x + 1, rtol=1e-6, atol=1e-6), "a struct")
other, d = pb.load(path, outputs={"p.to": (1000,), "y": lambda given: given["p"]["x"].shape}, device="emulator")(
    (32,), p=dict(x=x, n=1000, s=3.0), bias=np.float32(1), device="emulator")
kit.check(np.all(other == 3) and np.allclose(d, 3 * x + 1, rtol=1e-6, atol=1e-6), "an output in a struct")
whole = dict(x=x, n=1000, s=2.0, to=to)
read_only = np.frombuffer(bytes(4000), np.float32)
kit.check(scaled((32,), p={**whole, "x": read_only}, bias=1, device="emulator")[1] is to, "what is read may be read-only")
for p, text in (({"x": x, "n": 1000, "to": to}, "parameter 'p': 's' is missing"),
                ({**whole, "z": 1}, "parameter 'p' was given 'z', but takes x, n, s, to"),
                ((x, 1000, 2.0, to), "parameter 'p' needs a dict of its fields, x, n, s, to, but the argument is (array("),
                (x, "parameter 'p' needs a dict"),
                ({**whole, "s": "2"}, "parameter 'p.s' has type f32, but the argument is '2'"),
                ({**whole, "n": x}, "parameter 'p.n' has type u32, but the argument is array("),
                ({**whole, "n": 1.5}, "parameter 'p.n' has type u32, but the argument is 1.5"),
                ({**whole, "n": None}, "parameter 'p.n' has type u32, but the argument is None"),
                ({**whole, "x": 3}, "parameter 'p.x': it is <class 'int'>, but the other tensors are numpy's"),
                ({**whole, "x": x[::2]}, "parameter "
                                                                                                                  "'p.x' is a pointer"),
                ({**whole, "x": None, "to": None}, "at least one argument must be a tensor"),
                ({**whole, "to": read_only}, "p.to: it is read-only")):
    with kit.refused(text):
        scaled((32,), p=p, bias=1.0, device="emulator")
with kit.refused("kernel 'scaled': 'p' is missing"):
    scaled((32,), bias=1.0, device="emulator")
with kit.refused("kernel 'scaled' was given 'y', but takes p, bias"):
    scaled((32,), p=whole, y=to, bias=1.0, device="emulator")
for words, text in ((dict(updates=["p"]), "updates: kernel 'scaled' has no tensor 'p'; it has p.x, p.to, y"),
                    (dict(outputs={"p.s": "y"}), "outputs: kernel 'scaled' has no tensor 'p.s'")):
    with kit.refused(text):
        pb.load(path, **words, device="emulator")
with kit.refused("outputs: 'y' has the shape of 'p.z', but kernel 'scaled' was not given 'p.z'"):
    pb.load(path, outputs={"y": "p.z"}, device="emulator")((32,), p=whole, bias=1.0, device="emulator")

# Checks that another process loads a pickled kernel from its path and its arguments, and that a copy is the kernel itself.
code = ("import pickle, sys, numpy as np; f = pickle.load(sys.stdin.buffer); x = np.ones((8, 32), np.float32); "
        "assert (f(X=x, Y=2 * x, alpha=3.0, device='emulator') == 5).all()")
done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(tma), capture_output=True)
kit.check(done.returncode == 0, done.stderr.decode())
kit.check(copy.deepcopy({"kernel": tma})["kernel"] is tma)

# Tests operands of other frameworks, and values that are not numbers.
for words, text in ((dict(b=None), "B: it is <class 'NoneType'>, but"),
                    (dict(b=[[1.0]]), "B: it is <class 'list'>, but the other tensors are numpy's: pass numpy.asarray(x)"),
                    (dict(out=[1.0]), "out: it is <class 'list'>, but"),
                    (dict(slope_of=[1.0], activation="silu"), "slope_of: it is <class 'list'>, but"),
                    (dict(c=c, beta=1j), "beta: 1j is a complex"), (dict(out_dtype=[1]), "[1] is not supported"),
                    (dict(precise="no"), "precise: 'no' is not one of True and False"), (dict(device="cpu"), "use 'emulator', or 'cuda'")):
    with kit.refused(text):
        pb.matmul(**{"a": a, "b": b, "device": "emulator", **words})
with kit.refused("shapes: 64 is not a list of shapes; pass a list of tuples"):
    pb.warm_up("matmul", (64, 64, 64), "bf16", device="emulator")

# Tests masked arrays, because kernels do not read masks, and wrong offsets of packed sequences. Both are checked before the launch.
given = dict(x=x, y=result, alpha=2.0, count=1000, device="emulator")
masked = np.ma.array(a, mask=wide(a) > 0)
rows = drawn(40, 2, 64)
for call in (lambda: pb.matmul(masked, b, device="emulator"), lambda: pb.matmul(b, masked, device="emulator"),
             lambda: pb.matmul(a, b, c=np.ma.array(c), device="emulator"), lambda: pb.matmul(a, b, out=np.ma.array(c), device="emulator"),
             lambda: pb.attention(*(np.ma.array(rows[None]),) * 3, device="emulator"), lambda: saxpy(**{**given, "x": np.ma.array(x)})):
    with kit.refused("it is a masked array, but kernels ignore masks: pass x.filled(0)"):
        call()


def packed(queries, keys, most=20):
    q, k = np.array(queries, np.int32), np.array(keys, np.int32)
    return pb.attention(rows, rows, rows, query_offsets=q, key_offsets=k, max_queries=most, max_keys=most, device="emulator")


kit.check(packed([0, 20, 40], [0, 20, 40]).shape == rows.shape)
for queries, keys, most, text in (([1, 20, 40], [0, 20, 40], 20,
                                   "query_offsets: [1, 20, 40]; they must begin at 0, must not decrease, and must end at the 40 rows"),
                                  ([0, 30, 20, 40], [0, 20, 30, 40], 40, "query_offsets: [0, 30, 20, 40]; they must begin"),
                                  ([0, 20, 40], [0, 20, 39], 20, "key_offsets: [0, 20, 39]; they must begin"),
                                  ([0, 20, 40], [0, 20, 41], 40, "key_offsets: [0, 20, 41]; they must begin"),
                                  ([0, 20, 40], [0, 15, 40], 20, "key_offsets: a sequence has 25 rows, but max_keys is 20"),
                                  ([0, 25, 40], [0, 20, 40], 20, "query_offsets: a sequence has 25 rows, but max_queries is 20"),
                                  ([], [0, 20, 40], 20, "query_offsets: []; they must begin"), (list(range(41)), list(range(40)) + [0], 1, "[0, 1, 2, 3, .., 38, 39, 0]")):
    with kit.refused(text):
        packed(queries, keys, most)

# Checks that a module of LLVM IR is compiled when it is loaded, and that it defines its own parameters.
MODULE = """define ptx_kernel void @axpy(ptr addrspace(1) %d, ptr addrspace(1) %x, float %a) "nvvm.maxntid"="64" {
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %px = getelementptr float, ptr addrspace(1) %x, i32 %i
  %pd = getelementptr float, ptr addrspace(1) %d, i32 %i
  %vx = load float, ptr addrspace(1) %px
  %vd = load float, ptr addrspace(1) %pd
  %ax = fmul float %a, %vx
  %sum = fadd float %ax, %vd
  store float %sum, ptr addrspace(1) %pd
  ret void
}
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
"""
with tempfile.TemporaryDirectory() as modules:
    for name, text in (("axpy.ll", MODULE), ("nonsense.ll", "nonsense")):
        with open(f"{modules}/{name}", "w") as file:
            file.write(text)
    axpy = pb.load(f"{modules}/axpy.ll", updates=["d"], device="emulator")
    line, ones = np.arange(64, dtype=np.float32), np.ones(64, np.float32)
    kit.check(np.array_equal(axpy((1,), d=ones, x=line, a=2.0, device="emulator"), 2 * line + 1), "a module of LLVM's")
    for name, text, kind in (("nonsense.ll", "1:1: ", RuntimeError), ("missing.ll", "missing.ll: No such file", ValueError)):
        with kit.refused(text, kind=kind):
            pb.load(f"{modules}/{name}", device="emulator")
    waives = pickle.loads(pickle.dumps(pb.load(f"{modules}/axpy.ll", updates=["d"], device="emulator", waive=["spills", "C7510"])))
    kit.check(np.array_equal(waives((1,), d=ones, x=line, a=2.0, device="emulator"), 4 * line + 1), "a module that waives")
    for path, waived, text in ((f"{modules}/axpy.ll", ["spills", "speed"], "'speed' cannot be waived"),
                               (f"{folder}/saxpy", "spills", "only a module of LLVM IR, .ll or .bc, is compiled here and may waive spills")):
        with kit.refused(text):
            pb.load(path, device="emulator", waive=waived)
with kit.refused("cuda:63", kind=RuntimeError):  # there is no such GPU, or no driver
    pb.matmul(a, b, device="cuda:63")

# Checks that Ctrl-C ends the emulator's work, that later calls are right, and that work of several minutes first causes a warning.
def interrupted(call, text):
    """Interrupts a call that takes minutes half a second after its start, and returns the seconds that the call took."""
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    try:
        call()
        kit.check(False, text, "was not interrupted")
    except KeyboardInterrupt:
        took = time.monotonic() - begin - 0.5
        kit.check(took < 5, text, took)  # about a second on an idle machine
        print(f"{text} ended after {took:.2f} s")
    timer.join()


signal.signal(signal.SIGINT, signal.default_int_handler)
most = np.ones((8192, 8192), np.float16)
pb.warm_up("matmul", [most.shape + (8192,)], "f16", device="emulator")
pb.warm_up("attention", [((1, 8192, 16, 128),) * 2], "f16", device="emulator")
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    interrupted(lambda: pb.matmul(most, most, device="emulator"), "a product")
    interrupted(lambda: pb.attention(*(most.reshape(1, 8192, 64, 128)[:, :, :16],) * 3, device="emulator"), "an attention")
    interrupted(lambda: saxpy((1 << 30,), **given), "a kernel that was loaded")
    kit.check([str(w.message).split()[0] for w in warned] == ["5.5e+11", "2.7e+11"] and "Ctrl-C ends" in str(warned[0].message), warned)
saxpy(**given)
check_product(drawn(24, 40), drawn(40, 56))
other = threading.Thread(target=lambda: check_product(drawn(512, 2048), drawn(2048, 1024)))
other.start()
time.sleep(0.2)
interrupted(lambda: [pb.matmul(a, b, device="emulator") for _ in iter(lambda: 0, 1)], "a call after another thread's")
other.join()

# Tests forked children, even if a thread is in a call during the fork. Such a child reports this at once. A child works if its parent has
# not used a device.
def of_child(function):
    """Returns whether function() returns True within a minute in a forked child."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if function() is True else 1)
        finally:
            os._exit(2)
    for _ in range(600):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def is_refused():
    calls = (lambda: pb.matmul(a, b, device="emulator"), lambda: saxpy(**given), lambda: pb.load(f"{folder}/saxpy_tma", device="emulator"),
             lambda: pb.warm_up("matmul", [(64, 64, 64)], "f16", device="emulator"), lambda: pb.attention(*(heads,) * 3, device="emulator"))
    for call in calls:
        try:
            call()
        except ValueError as error:
            if "forked from one that had used a device" not in str(error):
                return False
        else:
            return False
    return True


given, heads, is_over = dict(x=x, y=result, alpha=2.0, count=1000, device="emulator"), drawn(1, 16, 1, 64), threading.Event()
busy = threading.Thread(target=lambda: [pb.matmul(a, b, device="emulator") for _ in iter(is_over.is_set, True)])
busy.start()
for _ in range(20):
    kit.check(of_child(is_refused) is True, "a child of a process that used the emulator")
is_over.set()
busy.join()
code = f"""
import os, numpy as np, ptxbuilder as pb
saxpy_at, ones = {folder + "/saxpy"!r}, np.ones((64, 64), "f2")
pid = os.fork()
assert (pb.matmul(ones, ones, device="emulator") == 64).all() and pb.load(saxpy_at, device="emulator")
os._exit(0) if pid == 0 else None
assert os.waitpid(pid, 0)[1] == 0
"""
done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
kit.check(done.returncode == 0, "a child of a process that has used nothing", done.stderr)

# Tests groups of rows, columns and k with any layout of the operands, and refused calls.
ends, a, of_groups = reference.ENDS, drawn(reference.ALL, 72), drawn(len(reference.ENDS), 72, 56)


def check_groups(got, exact, *words, tolerance=2**-8):
    kit.check(got.shape == exact.shape and np.abs(wide(got) - exact).max() <= tolerance * np.abs(exact).max(), "groups", *words)


for x, y in ((a, of_groups), (a, np.ascontiguousarray(of_groups.swapaxes(1, 2)).swapaxes(1, 2)), (a.T.copy().T, of_groups[:, :, 1:]),
             (of_groups.swapaxes(1, 2), a.T), (a.T, drawn(reference.ALL, 33)), (a.T.copy(), drawn(reference.ALL, 40)),
             (a.T, drawn(reference.ALL, 1)), (a[:, :1].T, drawn(reference.ALL, 8)), (a[:, :1], of_groups[:, :1])):
    check_groups(pb.grouped_mm(x, y, ends, device="emulator"), reference.grouped(wide(x), wide(y), ends), x.shape, y.shape)
bias, rows, columns = drawn(len(ends), 56), drawn(reference.ALL, dtype=np.float32), drawn(len(ends), 56, dtype=np.float32)
got = pb.matmul(a, of_groups, offs=ends, bias=bias, scale_a=rows, scale_b=columns, activation="relu", device="emulator")
group = np.minimum(np.searchsorted(ends, np.arange(reference.ALL), "right"), len(ends) - 1)
exact = rows[:, None] * columns[group] * reference.grouped(wide(a), wide(of_groups), ends) + wide(bias)[group]
exact[ends[-1]:] = 0
check_groups(got, np.maximum(exact, 0), "with all")
for call, text in ((lambda: pb.grouped_mm(a, of_groups, ends.astype(np.int64), device="emulator"),
                    "offs: (5,) of int64; it must be [groups] of int32"),
                   (lambda: pb.grouped_mm(a, of_groups[:3], ends, device="emulator"), "B: 3 matrices, but offs has the ends of 5 groups"),
                   (lambda: pb.grouped_mm(a, of_groups[:, 1:], ends, device="emulator"), "B: 71 rows, but A has 72 columns"),
                   (lambda: pb.matmul(a, of_groups, offs=ends, bias=bias[0], device="emulator"),
                    "bias: it is [56] of bf16, but must be bf16"),
                   (lambda: pb.grouped_mm(drawn(8, 64, dtype=E4M3), drawn(64, 16, dtype=E4M3), ends, device="emulator"),
                    "only 16-bit types")):
    with kit.refused(text):
        call()

# Tests gathered rows, in groups and in a single product, with any layout of A, and refused calls.
rows, few = reference.GATHERED, drawn(reference.ROWS_OF_A, 72)
for x in (few, few.T.copy().T, drawn(reference.ROWS_OF_A, 80)[:, :72], few[:, ::-1]):
    exact = reference.gathered(wide(x), rows)
    got = pb.grouped_mm(x, of_groups, ends, a_rows=rows, device="emulator")
    check_groups(got, reference.grouped(exact, wide(of_groups), ends), "gathered")
    check_groups(pb.matmul(x, of_groups[0], a_rows=rows, device="emulator"), exact @ wide(of_groups[0]), "gathered")
scale = np.arange(reference.ALL, dtype=np.float32)
exact = np.maximum(scale[:, None] * reference.gathered(wide(few), rows) @ wide(of_groups[0]), 0)
check_groups(pb.matmul(few, of_groups[0], a_rows=rows, scale_a=scale, activation="relu", device="emulator"), exact, "gathered, with scales")
for words, text in ((dict(a_rows=rows.astype(np.int64)), "a_rows: (130,) of int64; it must be [m] of int32"),
                    (dict(a_rows=rows[None]), "a_rows: (1, 130) of int32; it must be [m] of int32"),
                    (dict(a=np.stack([few, few]), a_rows=rows), "a_rows: A has 3 dimensions; it must be a matrix"),
                    (dict(b=of_groups, a_rows=rows), "B: its shape is (5, 72, 56); with a_rows and without offs it must be [72, n]"),
                    (dict(a=a.T.copy(), b=drawn(reference.ALL, 40), offs=ends, a_rows=rows), "a_rows cannot be used with k in groups"),
                    (dict(a_rows=rows, scale_a=np.ones(50, np.float32)), "scale_a: its shape is (50,); it must be (130,)")):
    with kit.refused(text):
        pb.matmul(**{"a": few, "b": of_groups[0], "device": "emulator", **words})
with kit.refused("a_rows cannot be used with groups of columns"):
    pb.grouped_mm(of_groups.swapaxes(1, 2), a.T, ends, a_rows=rows, device="emulator")

# Tests scattered rows, both in a new D and in a given D with more rows.
exact, places = reference.grouped(wide(a), wide(of_groups), ends), reference.PLACES
for words, factor in ({}, 1), (dict(d_weights=scale), scale[:, None]):
    check_groups(pb.grouped_mm(a, of_groups, ends, d_rows=places, device="emulator", **words)[places], factor * exact, "scattered")
got = np.full((200, 56), 7, a.dtype)
dropped = np.where(np.arange(reference.ALL) % 9 == 0, -1, places + 60).astype(np.int32)
pb.matmul(a, of_groups[0], d_rows=dropped, out=got, device="emulator")
check_groups(got[dropped[dropped >= 0]], (wide(a) @ wide(of_groups[0]))[dropped >= 0], "scattered into more rows")
kit.check((np.delete(got, dropped[dropped >= 0], 0) == 7).all(), "rows that are not named stay")
for words, text in ((dict(d_rows=places[1:]), "d_rows: it is [129] of s32, but must be int32"),
                    (dict(d_rows=places.astype(np.int64)), "d_rows: it is [130] of s64"),
                    (dict(b=of_groups[0][:, :51], d_rows=places), "with d_rows"), (dict(b=of_groups[0], c=exact.astype(a.dtype), d_rows=places), "d_rows cannot be used with beta C")):
    with kit.refused(text):
        pb.matmul(**{"a": a, "b": of_groups[0], "device": "emulator", **words})

# Tests groups with equal room. In each group, a counted number of first rows is computed. D is new or given; the other rows of a given D
# must not change.
counts, room = np.array([3, 0, 40, -1, 26], np.int32), reference.ALL // 5
counted = np.arange(reference.ALL) % room < counts.repeat(room)
of_each, bias = np.concatenate([wide(a[g * room:][:room]) @ wide(of_groups[g]) for g in range(5)]), drawn(5, 56)
got = pb.matmul(a, of_groups, counts=counts, bias=bias, device="emulator")
check_groups(got[counted], (of_each + wide(bias).repeat(room, 0))[counted], "counted rows")
got = np.full((reference.ALL, 56), 7, a.dtype)
pb.matmul(a, of_groups, counts=counts, out=got, device="emulator")
check_groups(got[counted], of_each[counted], "counted rows of out")
kit.check((got[~counted] == 7).all(), "rows that do not count stay")
for words, text in ((dict(counts=counts[1:].copy()), "B: 5 matrices, but counts has the rows of 4 groups"),
                    (dict(counts=counts.astype(np.int64)), "counts: (5,) of int64; it must be [groups] of int32"),
                    (dict(a=a[1:], counts=counts), "m = 129 with group_counts of 5 groups"),
                    (dict(b=of_groups[0], counts=counts), "counts: B has 2 dimensions"),
                    (dict(counts=counts, offs=ends), "group_ends and group_counts")):
    with kit.refused(text):
        pb.matmul(**{"a": a, "b": of_groups, "device": "emulator", **words})

# Each group uses the matrix at an address that is stored on the host and copied. A group without rows may have no matrix.
order = [3, 1, 4, 4, 0]
exact = reference.grouped(wide(a), wide(of_groups[order]), ends)
addresses = np.array([0 if before == end else of_groups[i].ctypes.data for i, before, end in zip(order, [0, *ends], ends)], np.int64)
kit.check(0 in addresses, "a group without rows", addresses)
check_groups(pb.grouped_mm(a, of_groups[1], ends, b_addresses=addresses, device="emulator"), exact, "addresses")
turned = np.ascontiguousarray(of_groups.swapaxes(1, 2))
addresses = np.array([turned[i].ctypes.data for i in order], np.int64)
got = pb.matmul(a[:, ::-1], turned[2], transpose_b=True, offs=ends, b_addresses=addresses, bias=bias, scale_b=columns, device="emulator")
exact = columns[group] * reference.grouped(wide(a[:, ::-1]), wide(of_groups[order]), ends) + wide(bias)[group]
check_groups(got[:ends[-1]], exact[:ends[-1]], "addresses, of transposes, with all")
exact = np.concatenate([wide(a[g * room:][:room]) @ wide(of_groups[i]) for g, i in enumerate(order)])
got = pb.matmul(a, turned[0].T, counts=counts, b_addresses=addresses, device="emulator")
check_groups(got[counted], exact[counted], "addresses, of counted rows")
for words, text in ((dict(b_addresses=addresses.astype(np.int32)), "b_addresses: (5,) of int32; it must be (5,) of int64"),
                    (dict(b_addresses=addresses[1:]), "b_addresses: (4,) of int64; it must be (5,) of int64"),
                    (dict(b=of_groups), "b_addresses: B has 3 dimensions; it must be one of the matrices, [k, n]"),
                    (dict(offs=None), "b_addresses: there must be group_ends or group_counts"),
                    (dict(b=of_groups[0][:, 1:]), "the matrices and their rows must begin at multiples of 16 B"),
                    (dict(b=of_groups[0][:, ::-1]), "B: ")):
    with kit.refused(text):
        pb.matmul(**{"a": a, "b": of_groups[0], "offs": ends, "b_addresses": addresses, "device": "emulator", **words})
with kit.refused("b_addresses cannot be used with groups of columns"):
    pb.grouped_mm(of_groups.swapaxes(1, 2), a.T, ends, b_addresses=addresses, device="emulator")
exact = reference.grouped(wide(a), wide(of_groups), ends)

# Tests rows that are added to a D that starts as a copy of C, or to a given D.
begin, named, scale = drawn(reference.ROWS_OF_A, 56), reference.GATHERED, scale / reference.ALL
sums = wide(begin) + reference.scattered(named, scale[:, None] * exact, reference.ROWS_OF_A)
words = dict(offs=ends, add_to_rows=named, scale_a=scale, device="emulator")
check_groups(pb.matmul(a, of_groups, c=begin, **words), sums, "rows added to C", tolerance=2**-6)  # each sum is rounded
check_groups(pb.matmul(a, of_groups, c=begin.astype(np.float32), out_dtype="f32", **words), sums, "rows added to C of f32")
got = begin.copy()
kit.check(pb.matmul(a, of_groups, out=got, **words) is got, "out is given back")
check_groups(got, sums, "rows added to out", tolerance=2**-6)
for words, text in ((dict(), "add_to_rows: neither out nor C is given"), (dict(c=begin, beta=0.5), "beta: 0.5; with add_to_rows it must be 1"),
                    (dict(c=begin, out_dtype="f32"), "C: its type is bfloat16, but that of the rows that are added to it is float32"),
                    (dict(c=begin, out=begin), "add_to_rows: both out and C are given"),
                    (dict(c=begin, d_rows=places), "d_rows and add_to_rows"),
                    (dict(c=begin[:, :48]), "D: its shape is (50, 48)")):
    with kit.refused(text):
        pb.matmul(a, of_groups[0], add_to_rows=named, device="emulator", **words)

# Tests gathered rows with block scales, which belong to rows of the product.
x, y = (np.asarray(random.standard_normal(shape), E4M3) for shape in ((reference.ROWS_OF_A, 384), (144, 384)))
of_x, of_y = (random.uniform(0.5, 2, shape).astype(np.float32) for shape in ((3, reference.ALL), (2, 3)))
exact = reference.in_blocks(reference.gathered(wide(x), reference.GATHERED), wide(y).T, of_x, of_y)
words = dict(a_rows=reference.GATHERED, scale_a_1x128=of_x, device="emulator")
check_groups(pb.matmul(x, y.T, scale_b_128x128=of_y, **words), exact, "gathered rows with scales of blocks")
check_groups(pb.matmul(x, y.T[None], offs=np.array([reference.ALL], np.int32), scale_b_128x128=of_y[None], **words), exact,
             "gathered rows of a group with scales of blocks")
with kit.refused("scale_a_1x128: its shape is (3, 50); it must be (3, 130)"):
    pb.matmul(x, y.T, scale_b_128x128=of_y, **{**words, "scale_a_1x128": of_x[:, :50]})

# Tests block scales for plain, batched and grouped products, in the layouts of the library and of PyTorch, and refused calls.
def scales(*shape):
    return random.uniform(0.5, 2, shape).astype(np.float32)


def check_blocks(got, a, b, of_a, of_b):
    exact = reference.in_blocks(wide(a), wide(b), of_a, of_b)
    kit.check(got.shape == exact.shape and np.abs(wide(got) - exact).max() <= 2**-8 * np.abs(exact).max(), "blocks", a.shape, b.shape)


a, b = drawn(67, 400, dtype=E4M3), drawn(400, 144, dtype=E4M3)
of_a, of_b, of_blocks = scales(4, 67), scales(4, 144), scales(2, 4)
for name, x in (("1x128", of_b), ("128x128", of_blocks)):
    check_blocks(pb.matmul(a, b, scale_a_1x128=of_a, device="emulator", **{f"scale_b_{name}": x}), a, b, of_a, x)
padded = np.zeros((2, 8), np.float32)
padded[:, :4] = of_blocks
for recipe, x, as_torch in (("BlockWise1x128", of_b, of_b.T), ("BlockWise128x128", of_blocks, of_blocks.T), ("BlockWise128x128", of_blocks, padded[:, :7].T)):
    check_blocks(pb.scaled_mm(a, b, of_a.T.copy(), "BlockWise1x128", as_torch, recipe, device="emulator"), a, b, of_a, x)
batches = np.stack([a, -a, a])
of_batches = scales(3, 4, 67)
check_blocks(pb.matmul(batches, b, scale_a_1x128=of_batches, scale_b_128x128=of_blocks, device="emulator"), batches, b, of_batches, of_blocks)
of_b = scales(3, 2, 4)
check_blocks(pb.matmul(batches, np.stack([b, b, -b]), scale_a_1x128=of_batches, scale_b_128x128=of_b, device="emulator"), batches, np.stack([b, b, -b]),
             of_batches, of_b)
x, y, of_x, of_y = drawn(reference.ALL, 272, dtype=E4M3), drawn(len(ends), 272, 136, dtype=E4M3), scales(3, reference.ALL), scales(len(ends), 2, 3)
exact = np.zeros((reference.ALL, 136))
for group, (begin, end) in enumerate(zip((0, *ends[:-1]), ends)):
    exact[begin:end] = reference.in_blocks(wide(x)[begin:end], wide(y)[group], of_x[:, begin:end], of_y[group])
of_x[:, ends[-1]:] = np.nan  # these rows are in no group, and their product is 0
check_groups(pb.matmul(x, y, offs=ends, scale_a_1x128=of_x, scale_b_128x128=of_y, device="emulator"), exact, "blocks")
one = np.ones((), np.float32)
rows = scales(67, 1)
got = pb.scaled_mm(a, b, rows, "RowWise", one, "TensorWise", output_dtype="f32", device="emulator")
kit.check(np.abs(got - rows * (wide(a) @ wide(b))).max() < 1e-2 * np.abs(got).max(), "scales of rows")
for words, text in ((dict(scale_a_1x128=of_a[:3], scale_b_128x128=of_blocks), "scale_a_1x128: its shape is (3, 67); it must be (4, 67)"),
                    (dict(scale_a_1x128=of_a), "only A has block scales"), (dict(scale_b_128x128=of_blocks), "only B has block scales"),
                    (dict(scale_a_1x128=of_a, scale_b_128x128=of_blocks.astype(float)), "scale_b_128x128: its type is float64")):
    with kit.refused(text):
        pb.matmul(a, b, device="emulator", **words)
for recipes, text in ((("BlockWise128x128", "BlockWise128x128"), "scale_recipe_a: BlockWise128x128; it must be one of TensorWise, RowWise, "
                        "BlockWise1x128"),
                      (("BlockWise1x128", "BlockWise1x32"), "scale_recipe_b: BlockWise1x32"), ((3, 4), "scale_recipe_a: 3")):
    with kit.refused(text):
        pb.scaled_mm(a, b, of_a.T, recipes[0], of_blocks.T, recipes[1], device="emulator")
with kit.refused("swizzle_a: SWIZZLE_32_4_4"):
    pb.scaled_mm(a, b, of_a.T, "BlockWise1x128", of_blocks.T, "BlockWise128x128", "SWIZZLE_32_4_4", device="emulator")

# Tests sparse matrices as A and as B, in batches and in groups, and refused calls.
def check_sparse(got, exact, *words):
    kit.check(got.shape == exact.shape and np.abs(wide(got) - exact).max() <= 2**-7 * np.abs(exact).max(), "sparse", *words)


for dtype in (BF16, np.float16, E4M3, np.int8):
    w, x = reference.with_zeros(random, drawn(136, 200, dtype=dtype)), drawn(70, 200, dtype=dtype)
    s = pb.compress_2_4(w)
    kit.check(s.values.shape == (136, 100) and s.metadata.shape == (4, 384) and s.metadata.dtype == np.int32, "compress_2_4", dtype)
    kit.check((wide(pb.decompress_2_4(s)) == wide(w)).all(), "decompress_2_4", dtype)
    words = {"device": "emulator", "out_dtype": "float32"}
    check_sparse(pb.matmul(x, s, transpose_b=True, **words), wide(x) @ wide(w).T, dtype, "B")
    check_sparse(pb.matmul(s, x, transpose_b=True, **words), wide(w) @ wide(x).T, dtype, "A")
    check_sparse(pb.matmul(x, s.values, transpose_b=True, b_metadata=s.metadata, **words), wide(x) @ wide(w).T, dtype, "in parts")
w, x = reference.with_zeros(random, drawn(3, 136, 200)), drawn(3, 70, 200)
s, one = pb.compress_2_4(w), pb.compress_2_4(w[0])
bias = np.arange(136).astype(w.dtype)
exact = np.maximum(wide(x) @ wide(w[0]).T + wide(bias), 0)
check_sparse(pb.matmul(x, one, transpose_b=True, bias=bias, activation="relu", device="emulator"), exact, "of all batches")
check_sparse(pb.matmul(x, s, transpose_b=True, device="emulator"), wide(x) @ wide(w).swapaxes(1, 2), "of each batch")
check_sparse(pb.matmul(s, x, transpose_b=True, device="emulator"), wide(w) @ wide(x).swapaxes(1, 2), "of each batch's A")
check_sparse(pb.matmul(one, x, transpose_b=True, device="emulator"), wide(w[0]) @ wide(x).swapaxes(1, 2), "one A of all batches")
x, w = drawn(reference.ALL, 72), reference.with_zeros(random, drawn(len(ends), 56, 72))
check_groups(pb.matmul(x, pb.compress_2_4(w), transpose_b=True, offs=ends, device="emulator"),
             reference.grouped(wide(x), wide(w).swapaxes(1, 2), ends), "sparse")
w = reference.with_zeros(random, drawn(96, 128))
s, x = pb.compress_2_4(w), drawn(32, 128)
with kit.refused("b_metadata cannot be given with a SparseMatrix, which has its own metadata"):
    pb.matmul(x, s, transpose_b=True, b_metadata=s.metadata, device="emulator")
for words, text in ((dict(b_metadata=None), "B: 64 x 96, but A is 32 x 128; B must have 128 rows, as many as A has columns"),
                    (dict(b_metadata=s.metadata[:1]), "b_metadata: it is [1,256] of s32, but must be int32"),
                    (dict(transpose_b=False), "B: 192 x 64"),
                    (dict(b_metadata=s.metadata.astype(np.uint32)), "b_metadata: it is [2,256] of u32, but must be int32"),
                    (dict(a=s), "A and B are both sparse")):
    with kit.refused(text):
        pb.matmul(**{"a": x, "b": s.values, "b_metadata": s.metadata, "transpose_b": True, "device": "emulator", **words})
pb.warm_up("matmul", [(32, 64, 128)], "bf16", "emulator", transpose_b=True, b_metadata=True)
with kit.refused("a_metadata: batches of A with one B"):
    pb.matmul(pb.compress_2_4(np.stack([w, w])), x, transpose_b=True, device="emulator")
with kit.refused("compress_2_4: in row 0, columns 0 to 3, more than two of these four elements are not zero"):
    pb.compress_2_4(np.ones((8, 64), BF16))
with kit.refused("compress_2_4: the type of the matrix is f32, but only f16, bf16, e4m3, e5m2, s8 and u8 are supported"):
    pb.compress_2_4(np.zeros((8, 64), np.float32))
with kit.refused("compress_2_4: the matrix has 8 x 66 elements, but the number of columns must be a multiple of 4"):
    pb.compress_2_4(np.zeros((8, 66), BF16))
with kit.refused("decompress_2_4: the metadata of row 0, columns 0 to 3, names element 0 of these four twice"):
    pb.decompress_2_4(s._replace(metadata=0 * s.metadata))
with kit.refused("metadata: (1, 256) of int32; with values (96, 64) it must be (2, 256) of int32"):
    pb.decompress_2_4(s._replace(metadata=s.metadata[:1]))

# Tests that several threads may make the first call at the same time.
kit.in_threads(lambda seed: check_product(drawn(24 + 8 * seed, 40), drawn(40, 56)), 4)
kit.end()

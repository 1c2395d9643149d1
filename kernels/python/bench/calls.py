"""Measures the host's cost of a call, in microseconds, with matrices of 64 x 64. All kernels are already compiled, and the GPU keeps up
with the host.

  calls.py [PTXB_H] PTXB_H is the folder of ptxb.h (default: kernels/c), for measuring the call from C, which needs cc
"""
import ctypes
import glob
import os
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F

import ptxbuilder as pb
import timing
from ptxbuilder import _ext

size = 64
a, b, d = (torch.randn(size, size, device="cuda").bfloat16() for _ in range(3))
none, none_out, x3, bias = a[:0], d[:0], a.view(2, 32, 64), a[0].contiguous()


def call_from_c():
    """Returns a loop in C that calls the package's own library; None if there is no compiler."""
    here = os.path.dirname(os.path.abspath(__file__))
    header = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "../../c")
    folder = os.path.dirname(_ext.__file__)
    ours, = glob.glob(os.path.join(folder, "libptxbuilder.so.*"))
    made = os.path.join(tempfile.mkdtemp(), "calls.so")
    words = ["cc", "-O2", "-shared", "-fPIC", f"-I{header}", f"{here}/calls.c", ours, "-o", made]
    try:
        subprocess.run(words, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print("left out: the call from C:", getattr(error, "stderr", error))
        return None
    library, ptxb = ctypes.CDLL(made), ctypes.CDLL(ours)
    library.c_calls.restype = ctypes.c_double
    opened = ctypes.c_void_p()
    assert ptxb.ptxb_open(b"cuda:0", ctypes.byref(opened)) == 0
    pointers = [ctypes.c_void_p(x.data_ptr()) for x in (a, b, d)]

    def times(count=200):
        torch.cuda.synchronize()
        return library.c_calls(opened, *pointers, ctypes.c_int64(size), count)

    return times


def triton_call():
    import triton
    import triton.language as tl

    @triton.jit
    def product(a, b, d, SIZE: tl.constexpr):
        rows, columns = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None]
        place = rows * SIZE + columns
        tl.store(d + place, tl.dot(tl.load(a + place), tl.load(b + place)).to(tl.bfloat16))

    return lambda: product[(1,)](a, b, d, SIZE=size)


x8, w8 = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
rows, columns = torch.ones(len(a), 1, device="cuda"), torch.ones(1, len(b), device="cuda")
none_values = (none, b, none_out, 1.0, None, None, None, *[False] * 5, None, False, *[None] * (len(_ext.OPERANDS) - 1))
calls = {"an empty function": lambda: None,
         "pb.matmul(a, b, out=d)": lambda: pb.matmul(a, b, out=d), "pb.matmul(a, b)": lambda: pb.matmul(a, b),
         "pb.matmul(none, b, out=d), which launches nothing": lambda: pb.matmul(none, b, out=none_out),
         "share of the extension itself": lambda: _ext.eager_product(*none_values),
         "pb.matmul(x, w, bias=bias, activation=\"gelu\", transpose_b=True)":
             lambda: pb.matmul(x3, b, bias=bias, activation="gelu", transpose_b=True),
         "F.gelu(F.linear(x, w, bias))": lambda: F.gelu(F.linear(x3, b, bias), approximate="tanh"),
         "through the operation: torch.ops.ptxbuilder.matmul(a, b)": lambda: torch.ops.ptxbuilder.matmul(a, b),
         "pb.matmul(x8, w8, transpose_b=True, scale_a=rows, scale_b=columns)":
             lambda: pb.matmul(x8, w8, transpose_b=True, scale_a=rows, scale_b=columns),
         "torch._scaled_mm(x8, w8.T, rows, columns)": lambda: torch._scaled_mm(x8, w8.T, rows, columns, out_dtype=torch.bfloat16),
         "torch.mm(a, b, out=d)": lambda: torch.mm(a, b, out=d), "torch.mm(a, b)": lambda: torch.mm(a, b)}
q = torch.randn(1, 64, 1, 64, device="cuda").bfloat16()
calls["pb.attention(q, k, v)"] = lambda: pb.attention(q, q, q)
calls["pb.rms_norm(a, w)"], calls["F.rms_norm(a, w)"] = lambda: pb.rms_norm(a, bias), lambda: F.rms_norm(a, a.shape[-1:], bias, 1e-6)
calls["pb.softmax(a)"], calls["F.softmax(a)"] = lambda: pb.softmax(a), lambda: F.softmax(a, -1)
q_sdpa = q.transpose(1, 2)
calls["F.scaled_dot_product_attention(q, k, v)"] = lambda: F.scaled_dot_product_attention(q_sdpa, q_sdpa, q_sdpa)
try:
    calls["a Triton kernel of the same product"] = triton_call()
except ImportError:
    print("left out: Triton, which is not installed")
pb.matmul(a, b)
from_c = call_from_c()
with torch.no_grad():
    took = timing.host(calls)
if from_c:
    took["the call from C: ptxb_matmul_workspace, ptxb_matmul_run"] = sorted(from_c() for _ in range(25))[12]
timing.table([(name, f"{t:.2f}") for name, t in took.items()], ("call", "us of host time"))

os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
try:
    import jax
    import jax.numpy as jnp
except ImportError:
    print("left out: JAX, which is not installed")
    sys.exit()
x = jnp.asarray(a.float().cpu().numpy(), jnp.bfloat16)
heads = x[None, :, None]
calls = {"x + 1": (jax.jit(lambda x: x + 1), x), "x @ x": (jax.jit(lambda x: x @ x), x),
         "pb.matmul(x, x)": (jax.jit(lambda x: pb.matmul(x, x)), x), "pb.attention(x, x, x)": (jax.jit(lambda x: pb.attention(x, x, x)), heads)}
took = {name: [] for name in calls}
for _ in range(60):
    for name, (call, operand) in calls.items():
        call(operand).block_until_ready()
        begin = time.perf_counter()
        for _ in range(50):
            result = call(operand)
        result.block_until_ready()
        took[name].append((time.perf_counter() - begin) / 50 * 1e6)
timing.table([(name, f"{sorted(t)[len(t) // 2]:.2f}") for name, t in took.items()], ("jitted by JAX", "us per call, in bursts of 50"))

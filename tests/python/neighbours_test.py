"""Tests ptxbuilder in one process with packages that have their own LLVM. They are imported in any order, and each of them compiles.

  neighbours_test.py   uses jaxlib, llvmlite and Triton if this Python has them
"""
import importlib.util
import os
import subprocess
import sys

import kit

kit.use("numpy", "ml_dtypes")

WORK = {
    "ptxbuilder": """
import numpy as np, ptxbuilder as pb
a = np.arange(64 * 64).reshape(64, 64) % 7
assert np.array_equal(pb.matmul(a.astype(np.float16), a.astype(np.float16), device="emulator", out_dtype="f32"), a @ a)
""",
    "jax": """
import jax
assert jax.jit(lambda x: x * x + 1)(3.0) == 10
""",
    "llvmlite": """
import llvmlite.binding as llvm
llvm.initialize_native_target(); llvm.initialize_native_asmprinter()
machine = llvm.Target.from_default_triple().create_target_machine()
code = llvm.parse_assembly("define i32 @f(i32 %x) {\\n %y = add i32 %x, 1\\n ret i32 %y\\n}")
assert "f:" in machine.emit_assembly(code)
""",
    "triton": """
import triton, triton.language as tl
from triton.compiler import ASTSource
from triton.backends.compiler import GPUTarget
import kernel_of_triton
source = ASTSource(kernel_of_triton.twice, {"x": "*fp32"}, {})
assert ".entry twice" in triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
""",
}
here = [name for name in WORK if importlib.util.find_spec(name)]
for name in WORK:
    if name not in here:
        print(f"left out: {name}, which this Python does not have")
if here == ["ptxbuilder"]:
    print("SKIPPED: this Python has none of the others")
    sys.exit(77)
orders = [here[i:] + here[:i] for i in range(len(here))] + [here[::-1]]


def run(index):
    order = orders[index]
    # All packages are imported first, and then all of them work.
    code = "\n".join(f"import {name}" for name in order) + "".join(WORK[name] for name in order)
    path = os.pathsep.join([*sys.path, os.path.dirname(__file__)])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    kit.check(done.returncode == 0, order, done.returncode, done.stderr[-2000:])


kit.in_threads(run, len(orders))
kit.end()

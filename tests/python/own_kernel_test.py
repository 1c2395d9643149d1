"""Checks that a user's kernel becomes a function for PyTorch and JAX: own_kernel_test.py BUILD TOP CXX

Builds kernels/python/examples/gate against what the build installs, and calls it from each framework that a Python here has.
"""
import os
import shutil
import subprocess
import sys

import kit

build, top, cxx = sys.argv[1:]
work = f"{build}/own_kernel_test"
example = f"{top}/kernels/python/examples/gate"


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout.strip()


called = 0
for module in ("torch", "jax"):
    python = kit.python_with("numpy", "ml_dtypes", module)
    if not python:
        print(f"left out: {module}, which no Python here has")
        continue
    if not called:
        shutil.rmtree(work, ignore_errors=True)
        for component in ("runtime", "emulator", "builder", "kernels"):
            run("cmake", "--install", build, "--prefix", f"{work}/prefix", "--component", component)
        # Compiling one file takes half as long as precompiling headers, which the test of the package covers.
        run("cmake", "-S", example, "-B", f"{work}/build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={work}/prefix",
            f"-DCMAKE_CXX_COMPILER={cxx}", "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON")
        run("cmake", "--build", f"{work}/build")
    called += 1
    print(run(python, f"{example}/gate.py", module, f"{work}/build"))
if not called:
    print("SKIPPED: no Python here has PyTorch or JAX")
    sys.exit(77)

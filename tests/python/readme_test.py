"""Runs the examples of kernels/python/README.md unchanged: readme_test.py README KERNELS

KERNELS is a folder with the kernels that the examples load. An example runs with the first Python that has its imports. If mypy is
installed, it must accept the example's types.
"""
import os
import re
import shutil
import subprocess
import sys

import kit

readme, kernels = sys.argv[1:]
LONGEST = 16  # maximum lines of an example
examples = re.findall(r"```python\n(.*?)```", open(readme).read(), re.DOTALL)
kit.check(len(examples) >= 3, f"{len(examples)} examples")
ran, mypy = 0, shutil.which("mypy")
for example in examples:
    lines = [line for line in example.splitlines() if line.strip()]
    kit.check(len(lines) <= LONGEST, f"{len(lines)} lines:\n{example}")
    modules = [name for name in re.findall(r"^import (\w+)", example, re.MULTILINE) if name != "ptxbuilder"]
    python = kit.python_with("numpy", "ml_dtypes", *modules)
    if not python:
        print(f"left out: the example of {' and '.join(modules)}, which no Python here has")
        continue
    ran += 1
    done = subprocess.run([python, "-c", example], cwd=kernels, capture_output=True, text=True,
                          env={**os.environ, **kit.quick_xla(), "JAX_PLATFORMS": ""})
    kit.check(done.returncode == 0, f"{example}\n{done.stderr[-3000:]}")
    if mypy:
        words = [mypy, "--strict", "--no-error-summary", "--cache-dir", os.devnull, "--python-executable", python, "-c", example]
        done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "MYPYPATH": os.environ.get("PYTHONPATH", "")})
        kit.check(done.returncode == 0, f"{example}\n{done.stdout[-3000:]}")
if not ran:
    print("SKIPPED: no Python here has numpy and ml_dtypes")
    sys.exit(77)
print(f"{'with' if mypy else 'without'} mypy")
print(f"{ran} of {len(examples)} examples ran")
kit.end()

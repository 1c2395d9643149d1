"""Runs the examples for users of PyTorch and JAX, on one or two processes or CPU devices: examples_test.py FOLDER-OF-EXAMPLES"""
import os
import subprocess
import sys

import kit

TWO_PROCESSES = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "--rdzv-backend", "c10d",
                 "--rdzv-endpoint", "localhost:0"]
EXAMPLES = (  # name, framework, command, words of the output, and their number
    ("tensor_parallel", "torch", TWO_PROCESSES, "errors", 2), ("tensor_parallel", "jax", [], "errors", 1),
    ("expert_parallel", "torch", TWO_PROCESSES, "off by", 5), ("experts", "torch", [], "off by", 5),
    ("experts", "jax", [], "off by", 5), ("serve", "torch", [], "off by", 2))

ran = 0
for example, framework, words, said, count in EXAMPLES:
    python = kit.python_with("numpy", "ml_dtypes", framework)
    if not python:
        print(f"left out: {framework}, which no Python here has")
        continue
    ran += 1
    done = subprocess.run([python, *words, f"{sys.argv[1]}/{example}_{framework}.py"], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **kit.quick_xla()})
    print(done.stdout.strip())
    kit.check(done.returncode == 0 and done.stdout.count(said) == count, example, framework, done.stderr[-3000:])
if not ran:
    print("SKIPPED: no Python here has PyTorch or JAX")
    sys.exit(77)
kit.end()

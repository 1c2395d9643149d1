"""The examples of tensor parallelism on two processes and two devices of the CPU: tensor_parallel_test.py FOLDER-OF-EXAMPLES"""
import os
import subprocess
import sys

import kit

ran = 0
for name, words in (("torch", ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "--rdzv-backend", "c10d",
                               "--rdzv-endpoint", "localhost:0"]), ("jax", [])):
    python = kit.python_with("numpy", "ml_dtypes", name)
    if not python:
        print(f"left out: {name}, which no Python here has")
        continue
    ran += 1
    done = subprocess.run([python, *words, f"{sys.argv[1]}/tensor_parallel_{name}.py"], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **kit.quick_xla()})
    print(done.stdout.strip())
    kit.check(done.returncode == 0 and done.stdout.count("errors") == (2 if name == "torch" else 1), name, done.stderr[-3000:])
if not ran:
    print("SKIPPED: no Python here has PyTorch or JAX")
    sys.exit(77)
kit.end()

"""Finds a Python with JAX, and sets how XLA compiles. Tests of JAX on the CPU import this module before `import jax`."""
import gc
import os

import kit

kit.use("jax", "numpy", "ml_dtypes")
os.environ.update(kit.quick_xla())
os.environ["XLA_FLAGS"] += " --xla_force_host_platform_device_count=2"
os.environ["JAX_PLATFORMS"] = "cpu"
gc.set_threshold(100_000)  # tracing creates many objects, and Python would search them for garbage again and again

"""Tests of JAX on the CPU import this module first: it finds the Python that has JAX, and sets how XLA compiles. It comes before `import
jax`."""
import gc
import os

import kit

kit.use("jax", "numpy", "ml_dtypes")
os.environ.update(kit.quick_xla())
os.environ["XLA_FLAGS"] += " --xla_force_host_platform_device_count=2"
os.environ["JAX_PLATFORMS"] = "cpu"
gc.set_threshold(100_000)  # Tracing makes many objects, which Python would continually search for garbage.

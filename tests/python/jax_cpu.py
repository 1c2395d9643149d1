"""Tests of JAX on the CPU begin with this: the Python that has it, and how XLA compiles. It comes before `import jax`."""
import gc
import os

import kit

kit.use("jax", "numpy", "ml_dtypes")
os.environ.update(kit.quick_xla())
os.environ["XLA_FLAGS"] += " --xla_force_host_platform_device_count=2"
os.environ["JAX_PLATFORMS"] = "cpu"
gc.set_threshold(100_000)  # Tracing makes many objects, among which Python would look for garbage all the time.

"""What the tests of JAX on the CPU begin with: the Python that has it, and how XLA compiles. It stands before `import jax`."""
import gc
import hashlib
import os
import re
import sys

import kit

kit.use("jax", "numpy", "ml_dtypes")
# A program that XLA compiles here runs once: its optimizations would take a third of the time.
os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2" +
                           " --xla_backend_optimization_level=0")
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"
# Half of the time goes into programs that XLA has compiled the last time as well. A folder is one test's, since two that run at once
# may not write one file, and one kind of CPU's, whose instructions are in it.
flags = re.search(r"^(?:flags|Features)\s*:(.*)", open("/proc/cpuinfo").read(), re.M)
cpu = hashlib.sha256(flags[1].encode() if flags else b"").hexdigest()[:12]
os.environ["JAX_COMPILATION_CACHE_DIR"] = os.path.join(kit.TOP, "build/jax", f"{os.path.basename(sys.argv[0]).removesuffix('.py')}-{cpu}")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
gc.set_threshold(100_000)  # Tracing makes many objects, among which Python would look for garbage all the time.

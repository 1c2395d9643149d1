"""A tensor-parallel JAX MLP with our products: y = gelu(x U) D, forward and backward. The results are compared with one device.

The columns of U and the rows of D are divided among all devices, and y is the sum over all devices. On two GPUs, the program prints the
time of a step with our products and with jnp.matmul; without GPUs, it runs on two CPU devices of JAX, with products on the emulator.
"""
import os
import statistics
import time

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"  # two CPU devices
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec as P

import ptxbuilder as pb

devices = jax.devices() if len(jax.devices()) > 1 else jax.devices("cpu")
mesh = Mesh(np.array(devices), ("x",))
COLUMNS, ROWS = P(None, "x"), P("x", None)


over_the_mesh = jax.shard_map(mesh=mesh, in_specs=(P(), COLUMNS, ROWS), out_specs=P())


@over_the_mesh
def mlp(x, up, down):
    hidden = pb.matmul(x, up, activation="gelu")
    return jax.lax.psum(pb.matmul(hidden, down, out_dtype="f32"), "x")


@over_the_mesh
def mlp_of_jax(x, up, down):
    hidden = jax.nn.gelu(x @ up, approximate=True)
    return jax.lax.psum(jnp.matmul(hidden, down, preferred_element_type=jnp.float32), "x")


def exact(x, up, down):
    return jax.nn.gelu(x @ up, approximate=True) @ down


def loss(f):
    return lambda *operands: (f(*operands).astype(jnp.float32) * dy).sum()


def times(functions, rounds=15, steps=10):
    """Returns the milliseconds of a step with each of the functions, as medians of alternating bursts after three warm-up bursts."""
    found = [[] for _ in functions]
    for _ in range(rounds + 3):
        for function, of_it in zip(functions, found):
            begin = time.perf_counter()
            for _ in range(steps):
                last = function(*operands)
            jax.block_until_ready(last)
            of_it.append((time.perf_counter() - begin) / steps * 1e3)
    return [statistics.median(x[3:]) for x in found]


rows, width, hidden = (24, 64, 256) if devices[0].platform == "cpu" else (4096, 4096, 16384)
keys = jax.random.split(jax.random.key(1), 4)
x, up, down, dy = (jax.random.normal(key, shape) for key, shape in zip(keys, ((rows, width), (width, hidden), (hidden, width), (rows, width))))
operands = [jax.device_put(t.astype(jnp.bfloat16), jax.NamedSharding(mesh, spec))
            for t, spec in zip((x, up / width**0.5, down / hidden**0.5), (P(), COLUMNS, ROWS))]
step, step_of_jax = (jax.jit(jax.value_and_grad(loss(f), (0, 1, 2))) for f in (mlp, mlp_of_jax))
got = [jax.jit(mlp)(*operands), *step(*operands)[1]]
wide = [jnp.asarray(np.asarray(t), jnp.float32) for t in operands]
with jax.default_matmul_precision("highest"):
    expected = [exact(*wide), *jax.grad(loss(exact), (0, 1, 2))(*wide)]
errors = [float(np.linalg.norm(np.asarray(a, np.float64) - b) / np.linalg.norm(b)) for a, b in zip(got, expected)]
print(f"{len(devices)} devices of kind {devices[0].device_kind}: errors",
      ", ".join(f"{name} {value:.1e}" for name, value in zip(("y", "dx", "dU", "dD"), errors)))
assert all(value < 1e-2 for value in errors)
if devices[0].platform != "cpu":
    ours, jaxs = times((step, step_of_jax))
    print(f"{rows} x {width} x {hidden}, forward and backward: {ours:.3f} ms, with jnp.matmul {jaxs:.3f} ms")

"""A tensor-parallel MLP of JAX's with our products: y = gelu(x U) D, forward and backward, against one device.

U is split by columns and D by rows over all devices, and one sum of all makes y. Without two GPUs it runs on two devices that JAX
makes of the CPU, with products by the emulator.
"""
import os

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"  # of the CPU
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec as P

import ptxbuilder as pb

devices = jax.devices() if len(jax.devices()) > 1 else jax.devices("cpu")
mesh = Mesh(np.array(devices), ("x",))
COLUMNS, ROWS = P(None, "x"), P("x", None)


@jax.jit
@jax.shard_map(mesh=mesh, in_specs=(P(), COLUMNS, ROWS), out_specs=P())
def mlp(x, up, down):
    hidden = pb.matmul(x, up, activation="gelu")
    return jax.lax.psum(pb.matmul(hidden, down, out_dtype="f32"), "x")


def exact(x, up, down):
    return jax.nn.gelu(x @ up, approximate=True) @ down


def loss(f):
    return lambda *operands: (f(*operands).astype(jnp.float32) * dy).sum()


rows, width, hidden = (24, 64, 256) if devices[0].platform == "cpu" else (2048, 2048, 8192)
keys = jax.random.split(jax.random.key(1), 4)
x, up, down, dy = (jax.random.normal(key, shape) for key, shape in zip(keys, ((rows, width), (width, hidden), (hidden, width), (rows, width))))
operands = [jax.device_put(t.astype(jnp.bfloat16), jax.NamedSharding(mesh, spec))
            for t, spec in zip((x, up / width**0.5, down / hidden**0.5), (P(), COLUMNS, ROWS))]
got = [mlp(*operands), *jax.jit(jax.grad(loss(mlp), (0, 1, 2)))(*operands)]
wide = [jnp.asarray(np.asarray(t), jnp.float32) for t in operands]
with jax.default_matmul_precision("highest"):
    expected = [exact(*wide), *jax.grad(loss(exact), (0, 1, 2))(*wide)]
errors = [float(np.linalg.norm(np.asarray(a, np.float64) - b) / np.linalg.norm(b)) for a, b in zip(got, expected)]
print(f"{len(devices)} devices of kind {devices[0].device_kind}: errors",
      ", ".join(f"{name} {value:.1e}" for name, value in zip(("y", "dx", "dU", "dD"), errors)))
assert all(value < 1e-2 for value in errors)

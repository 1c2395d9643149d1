"""Uses the kernel in gate.cpp as a function in PyTorch or JAX, in compiled code: gate.py torch|jax BUILD."""
import sys

import ptxbuilder as pb

gate = pb.load(f"{sys.argv[2]}/gate_files/gate", outputs={"y": "g"})  # y has the shape of g

if sys.argv[1] == "torch":
    import torch

    place, words = ("cuda", {}) if torch.cuda.is_available() else ("cpu", {"device": "emulator"})
    step = torch.compile(lambda g, u: gate(g=g, u=u, n=g.numel(), **words) + 1, fullgraph=True, backend="aot_eager")
    g, u = torch.randn(2, 30, 50, device=place)
    error = (step(g, u) - (torch.nn.functional.silu(g) * u + 1)).abs().max().item()
else:
    import jax

    step = jax.jit(lambda g, u: gate(g=g, u=u, n=g.size) + 1)
    g, u = jax.random.normal(jax.random.key(0), (2, 30, 50))
    error = abs(step(g, u) - (jax.nn.silu(g) * u + 1)).max()
print(f"{sys.argv[1]}: off by {error:.1e}")
assert error < 1e-5

"""Compares two transformer blocks under torch.compile, one with our products and attention, and one with PyTorch's: the time, and the error
relative to the same block in float32.

  block.py [--small]   batch 2, 2048 rows, width 2048, 16 heads of 128, 4 of keys and values; --small on the emulator
"""
import sys

import torch
import torch.nn.functional as F

import ptxbuilder as pb
import timing

is_small = "--small" in sys.argv
place, words = ("cpu", {"device": "emulator"}) if is_small else ("cuda", {})
batch, length, width, heads, key_heads = (1, 40, 64, 2, 1) if is_small else (2, 2048, 2048, 16, 4)
depth, hidden = width // heads, 4 * width


class Theirs(torch.nn.Module):
    def linear(self, x, weight, activation=None):
        x = F.linear(x, weight)
        return F.gelu(x, approximate="tanh") if activation else x

    def attend(self, q, k, v):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2)

    def __init__(self):
        super().__init__()
        sizes = dict(qkv=(width + 2 * key_heads * depth, width), out=(width, width), up=(hidden, width), down=(width, hidden))
        for name, (rows, columns) in sizes.items():
            self.register_parameter(name, torch.nn.Parameter(torch.randn(rows, columns) / columns**0.5))
        self.norms = torch.nn.ModuleList(torch.nn.RMSNorm(width) for _ in range(2))

    def forward(self, x):
        q, k, v = self.linear(self.norms[0](x), self.qkv).split([width] + [key_heads * depth] * 2, -1)
        shape = (*x.shape[:2], -1, depth)
        o = self.attend(*(t.view(shape) for t in (q, k, v)))
        x = x + self.linear(o.reshape(x.shape), self.out)
        return x + self.linear(self.linear(self.norms[1](x), self.up, "gelu"), self.down)


class OurProducts(Theirs):
    def linear(self, x, weight, activation=None):
        return pb.matmul(x, weight, transpose_b=True, activation=activation, **words)


class Ours(OurProducts):
    def attend(self, q, k, v):
        return pb.attention(q, k, v, causal=True, **words)


torch.manual_seed(20)
torch._dynamo.config.recompile_limit = 64  # all variants compile the same forward()
theirs = Theirs()
variants = {"PyTorch's": theirs, "our products": OurProducts(), "our products and attention": Ours()}
for model in variants.values():
    model.load_state_dict(theirs.state_dict())
    model.to(place, torch.bfloat16)
x = torch.randn(batch, length, width, device=place).bfloat16()
exact_model = Theirs().to(place)
exact_model.load_state_dict({name: t.float() for name, t in theirs.state_dict().items()})
with torch.no_grad():
    exact = exact_model(x.float())


def forward(model):
    def call():
        with torch.no_grad():
            return model(x)
    return call


def training(model):
    def call():
        model.zero_grad(set_to_none=True)
        model(x).float().pow(2).mean().backward()
    return call


modes = ["aot_eager"] if is_small else ["default", "reduce-overhead"]
rows = []
for mode in modes:
    how = {"backend": mode} if is_small else {"mode": mode}
    compiled = {name: torch.compile(model, fullgraph=True, **how) for name, model in variants.items()}
    errors = {name: ((forward(model)().float() - exact).norm() / exact.norm()).item() for name, model in compiled.items()}
    if is_small:
        print(errors)
        assert all(error < 1e-2 for error in errors.values())
        training(compiled["our products and attention"])()
        continue
    took = timing.device({name: forward(model) for name, model in compiled.items()})
    for name, model in compiled.items():
        rows.append((f"forward, {mode}", name, f"{took[name]:.0f}", f"{errors[name]:.2e}"))
    if mode == "default":
        took = timing.device({name: training(model) for name, model in compiled.items()})
        for name in compiled:
            rows.append((f"forward and backward, {mode}", name, f"{took[name]:.0f}", ""))
if rows:
    timing.table(rows, ("what", "library", "us", "error"))
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")

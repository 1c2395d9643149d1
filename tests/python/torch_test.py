"""Tests the package with PyTorch tensors on the CPU, with the emulator: eager, traced, compiled, differentiated and under torch.func.

  torch_test.py FOLDER   which holds saxpy.ptx and saxpy.json
"""
import ctypes
import shutil
import subprocess
import sys
import tempfile

import kit
from torch_kit import by_compiler, check_attention_gradients, check, check_beside, check_gradients_beside, exactly, functions, wide, with_tensors  # imported first, because it finds a PyTorch
import numpy as np
import ptxbuilder as pb
import reference
import struct_kernel
import torch
from ptxbuilder._attention import NO_EXTRAS
from ptxbuilder._common import ACTIVATIONS
from ptxbuilder._torch import tensors
from ptxbuilder._torch.product import _FUNCTIONS
import torch.utils.flop_counter
from torch import library as operators

kit.check(set(functions) == set(ACTIVATIONS) == set(_FUNCTIONS), functions, ACTIVATIONS, _FUNCTIONS)
torch.manual_seed(7)
torch._dynamo.config.recompile_limit = 64  # one function below is compiled for many cases
BF16 = torch.bfloat16


def drawn(*shape, dtype=BF16):
    return torch.randn(shape).to(dtype)


def product(a, b, **words):
    return pb.matmul(a, b, device="emulator", **words)


for dtype in (BF16, torch.float16):
    for shapes in (((64, 64), (64, 64)), ((33, 20), (20, 41)), ((3, 17, 24), (3, 24, 40)), ((3, 17, 24), (24, 40)),
                   ((2, 1, 9, 24), (3, 24, 8)), ((24, 8), (2, 8, 16)), ((0, 8), (8, 8)), ((8, 0), (0, 8))):
        a, b = (drawn(*shape, dtype=dtype) for shape in shapes)
        check(product(a, b), a.double() @ b.double(), 2**-8, shapes)
a, b = drawn(40, 96), drawn(96, 80)
for x, y in ((a[:, :48], b[:48]), (a[:, ::2], b[::2]), (a[:, 1:], b[1:]), (a[:1].expand(40, 96), b), (a, b[:, :1].expand(96, 80)),
             (a.T.contiguous().T, b.T.contiguous().T), (a.as_strided((1, 96), (5, 1)), b), (a, b.as_strided((96, 1), (80, 7)))):
    check(product(x, y), x.double() @ y.double(), 2**-8, x.stride(), y.stride())
for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
    x, y = drawn(20, 48, dtype=dtype), drawn(40, 48, dtype=dtype)
    check(product(x, y, transpose_b=True), x.double() @ y.double().T, 2**-8)
    check(product(x, y.T, out_dtype=torch.float32), x.double() @ y.double().T, 2**-8)
check(product(drawn(20, 48, dtype=torch.float32), drawn(48, 40, dtype=torch.float32), tf32=True).float() * 0, torch.zeros(20, 40), 0)
ints = torch.randint(-8, 8, (16, 32), dtype=torch.int8)
kit.check(torch.equal(product(ints, ints, transpose_b=True), (ints.int() @ ints.int().T)))
out = torch.full((40, 100), 7.0, dtype=BF16)
result = product(a, b, out=out[:, 3:83])
check(out[:, 3:83], a.double() @ b.double(), 2**-8)
kit.check((out[:, :3] == 7).all() and (out[:, 83:] == 7).all())

# Calls products directly, through the operation, and compiled, and compares their gradients with PyTorch's own in f32.
operands = [drawn(24, 72), drawn(72, 40), drawn(40), drawn(24, 40)]
for x in operands:
    x.requires_grad_()
weight = torch.randn(24, 40)
for name, function in functions.items():
    def ours(a, b, bias, c):
        return product(a, b, bias=bias, c=c, alpha=0.5, beta=2.0, activation=name)

    def by_op(a, b, bias, c):
        return torch.ops.ptxbuilder.matmul(a, b, bias, c, 0.5, 2.0, name)

    a, b, bias, c = (x.float() for x in operands)
    expected = torch.autograd.grad((function(0.5 * (a @ b) + 2 * c + bias) * weight).sum(), operands)
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    for way in (ours, by_op, compiled):
        for x, y, operand in zip(torch.autograd.grad((way(*operands) * weight).sum(), operands), expected, "a b bias c".split()):
            kit.check(x.dtype == BF16)
            check(x, y, 2**-7, name, way.__name__, operand)
for shapes in (((8, 16, 24), (24, 32)), ((2, 1, 16, 24), (3, 24, 8))):  # gradients of broadcast operands are sums
    a, b = (drawn(*shape).requires_grad_() for shape in shapes)
    weight = torch.randn(torch.broadcast_shapes(shapes[0][:-2], shapes[1][:-2]) + (shapes[0][-2], shapes[1][-1]))
    for x, y in zip(torch.autograd.grad((product(a, b) * weight).sum(), (a, b)),
                    torch.autograd.grad(((a.float() @ b.float()) * weight).sum(), (a, b))):
        check(x, y, 2**-7, shapes)
# A gradient has the layout of its tensor, so that a weight's `grad` needs no further copy.
rows, layer, columns = drawn(2, 16, 24).requires_grad_(), drawn(32, 24).requires_grad_(), drawn(24, 16).requires_grad_()
for way in (product, by_compiler(product)):
    for x, words, operands in ((rows, dict(transpose_b=True), (rows, layer)),
                               (columns, dict(transpose_a=True, transpose_b=True), (columns, layer))):
        weight = torch.randn(*x.shape[:-2], 16, 32)
        for gradient, exact, operand in zip(torch.autograd.grad((way(x, layer, **words) * weight).sum(), operands), torch.autograd.grad(
                (((x.double().mT if "transpose_a" in words else x.double()) @ layer.double().mT) * weight).sum(), operands), operands):
            kit.check(gradient.stride() == operand.stride(), way, words, tuple(operand.shape), gradient.stride())
            check(gradient, exact.double(), 2**-7, way, words, tuple(operand.shape))
a, b = drawn(16, 24, dtype=torch.float32).requires_grad_(), drawn(24, 32, dtype=torch.float32).requires_grad_()
first, = torch.autograd.grad((product(a, b, tf32=True)**2).sum(), a, create_graph=True)
check(torch.autograd.grad(first.sum(), b)[0], torch.autograd.grad(torch.autograd.grad(((a @ b)**2).sum(), a, create_graph=True)[0].sum(), b)[0],
      2**-8, "the second derivative")

# Tests the operations with PyTorch's own checks, with static and dynamic shapes, and with a given result.
for grad in (False, True):
    operators.opcheck(torch.ops.ptxbuilder.matmul.default, tuple(drawn(*s).requires_grad_(grad) for s in ((16, 24), (24, 32))))
operators.opcheck(torch.ops.ptxbuilder.matmul.default, (drawn(3, 16, 24), drawn(24, 32), drawn(32), drawn(3, 16, 32), 0.5, 2.0, "gelu"))
operators.opcheck(torch.ops.ptxbuilder.matmul_out.default, (drawn(16, 24), drawn(24, 32)), {"d": drawn(16, 32)})
compiled = torch.compile(lambda a, b: product(a, b).relu(), fullgraph=True, backend="aot_eager", dynamic=True)
for m in (16, 17, 40):
    a, b = drawn(m, 24), drawn(24, 32)
    check(compiled(a, b), (a.double() @ b.double()).relu(), 2**-8, m)
into = torch.compile(lambda a, b, out: product(a, b, out=out) + 1, fullgraph=True, backend="aot_eager")
out = drawn(m, 40)[:, 4:36]
check(into(a, b, out) - 1, out, 2**-7)
check(out, a.double() @ b.double(), 2**-8)

# Tests numbers whose values become available only when a graph runs.
a, b, c, half, two = drawn(16, 24), drawn(24, 32), drawn(16, 32), torch.tensor(0.5), torch.tensor(2.0)
for words in ({}, dict(scale_a=torch.full((16,), 2.0)), dict(out=drawn(16, 32))):
    numbers = by_compiler(lambda a, c, x, y: product(a, b, c=c, alpha=x.item(), beta=y.item(), **words))
    expected = 0.5 * (a.double() @ b.double()) * (2 if "scale_a" in words else 1) + 2 * c.double()
    check(numbers(a, c, half, two), expected, 2**-8, words)
    if "out" not in words:
        trained = a.clone().requires_grad_(), c.clone().requires_grad_()
        weight = drawn(16, 32)
        da, dc = torch.autograd.grad((numbers(*trained, half, two) * weight).sum(), trained)
        check(da, 0.5 * weight.double() @ b.double().T * (2 if "scale_a" in words else 1), 2**-7, words)
        check(dc, 2 * weight, 2**-8, words)

# Tests torch.func and fake tensors.
a, b = drawn(3, 16, 24), drawn(24, 32)
check(torch.func.vmap(product, (0, None))(a, b), a.double() @ b.double(), 2**-8)
check(torch.func.vmap(lambda a, c: product(a, b, bias=c), (0, 0))(a, drawn(3, 32) * 0), a.double() @ b.double(), 2**-8)
check(torch.func.vmap(torch.func.grad(lambda a: product(a, b).float().sum()))(a),
      (b.double().sum(1)).expand(3, 16, 24), 2**-7)
slope = torch.func.grad(lambda a: product(a, b, activation="gelu").float().sum())
check(torch.compile(slope, backend="aot_eager")(a[0]), slope(a[0]), 2**-7, "compiled, in parts")
with torch.autograd.forward_ad.dual_level(), kit.refused("jvp", kind=Exception):
    product(torch.autograd.forward_ad.make_dual(a[0], a[0]), b)
with torch._subclasses.FakeTensorMode() as mode:
    d = product(mode.from_tensor(a), mode.from_tensor(b))
    kit.check(d.shape == (3, 16, 32) and d.dtype == BF16)

a, b = drawn(16, 24), drawn(24, 32)
for words, text in ((dict(out=drawn(16, 32).requires_grad_()), "out: a given result has no gradient"),
                    (dict(out=drawn(16, 31)), "D: its shape is (16, 31)"), (dict(out=drawn(32, 16).T), "D: its columns are 16"),
                    (dict(out=drawn(16, 32), out_dtype=torch.float32), "bfloat16, but out_dtype"),
                    (dict(c=drawn(16, 3)), "C: its shape is (16, 3)"), (dict(bias=drawn(3)), "bias: it is [3] of bf16, but must be bf16"),
                    (dict(activation="tanh"), "activation 'tanh' is not one of"), (dict(device="cpu"), "device 'cpu' is not one of"),
                    (dict(out_dtype=torch.int8), "D of s8 from A of bf16"), (dict(device=None), "A: its memory is on the CPU")):
    with kit.refused(text):
        pb.matmul(a, b, **{"device": "emulator", **words})
with kit.refused("D overlaps A"):
    square = drawn(16, 16)
    product(square, drawn(16, 16), out=square)
with kit.refused("set `tf32` to allow it"):
    product(a.float(), b.float())
with kit.refused("have no gradients"):
    product(drawn(16, 16).to(torch.float8_e5m2).requires_grad_(), drawn(16, 16).to(torch.float8_e5m2)).sum().backward()

# Tests the other operands and their gradients.
check_beside((product, by_compiler(product)), reference.PRODUCTS, "cpu")
check_beside((product, by_compiler(product, "inductor")), reference.PRODUCTS[:2] + reference.PRODUCTS[8:9], "cpu")
check_gradients_beside((product, by_compiler(product)), reference.PRODUCTS, "cpu")
a, b, rows, columns = drawn(3, 16, 24), drawn(24, 32), torch.randn(3, 16), torch.randn(32)
amax, out = torch.zeros(1), drawn(3, 16, 32)
into = by_compiler(lambda a, b, rows, amax, out: product(a, b, scale_a=rows, amax=amax * 1, out=out) + product(a, b, amax=amax))
check(into(a, b, rows, amax, out) - out, a.double() @ b.double(), 2**-7, "compiled, with out= and amax=")
check(out, (a.double() @ b.double()) * rows.double()[..., None], 2**-8, "out=")
kit.check(abs(amax.item() - (a.double() @ b.double()).abs().max().item()) < 1e-3, "amax=")
check(torch.func.vmap(lambda a, rows: product(a, b, scale_a=rows, scale_b=columns, activation="silu", gate=True))(a, rows),
      exactly(a.double(), b.double(), "silu", True, scale_a=rows.double(), scale_b=columns.double()), 2**-7, "vmap")
check(torch.func.grad(lambda rows: product(a, b, scale_a=rows).float().sum())(rows), (a.double() @ b.double()).sum(-1), 2**-7, "func.grad")
with torch._subclasses.FakeTensorMode() as mode:
    d = product(*(mode.from_tensor(x) for x in (a, b)), scale_a=mode.from_tensor(rows), activation="silu", gate=True)
    kit.check(d.shape == (3, 16, 16) and d.dtype == BF16)
operation, scales = (a, b, drawn(32), None, 1.0, 0.0, "silu", BF16, False, False, None), {"scale_a": rows, "scale_b": columns}
operators.opcheck(torch.ops.ptxbuilder.matmul_with.default, operation, scales)
operators.opcheck(torch.ops.ptxbuilder.matmul_amax.default, operation, {"amax": torch.zeros(1), **scales})
for amax in (None, torch.zeros(1)):
    operators.opcheck(torch.ops.ptxbuilder.matmul_out.default, (*operation, True), {"amax": amax, "d": drawn(3, 16, 16), **scales})
with kit.refused("ptxbuilder::matmul_with has no gradient"):
    torch.ops.ptxbuilder.matmul_with(a.clone().requires_grad_(), *operation[1:], **scales)
for words, text in ((dict(scale_a=columns), "scale_a: its shape is (32,); it must be (3, 16) or (3, 16, 1), or have one element"),
                    (dict(scale_b=columns.double()), "scale_b: its type is float64"), (dict(amax=rows), "amax: its shape is (3, 16)"),
                    (dict(gate=True), "gate needs an activation"), (dict(device=None, scale_b=columns), "A: its memory is on the CPU")):
    with kit.refused(text):
        pb.matmul(a, b, **{"device": "emulator", **words})

# Tests attention and its gradient: called directly, through the operation, compiled, and under torch.func.
for case in reference.CASES[:4] + reference.CASES[6:]:
    operands, words = [drawn(*shape) for shape in reference.shapes(case)], with_tensors(case[-1], "cpu")
    expected, expected_lse = (torch.from_numpy(x) for x in reference.attention(*(x.double().numpy() for x in operands), **case[-1]))

    def attend(q, k, v):
        return pb.attention(q, k, v, return_lse=True, device="emulator", **words)

    for way in (attend, torch.compile(attend, fullgraph=True, backend="aot_eager")):
        o, lse = way(*operands)
        kit.check(o.dtype == BF16 and lse.dtype == torch.float32)
        check(o, expected, 2**-7, case)
        kit.check(torch.equal(lse.isinf(), expected_lse.isinf()), case)
        check(lse.nan_to_num(0, 0, 0), expected_lse.nan_to_num(0, 0, 0), 1e-5, case)
q, k, v = (drawn(2, 3, 40, 2, 64) for _ in range(3))


def attend(q, k, v, **words):
    return pb.attention(q, k, v, device="emulator", **words)


expected = torch.stack([attend(q[i], k[i], v[0]) for i in range(2)])
kit.check(torch.equal(torch.func.vmap(attend, (0, 0, None))(q, k, v[0]), expected))
kit.check(torch.equal(torch.func.vmap(lambda q, k: attend(q, k, v[0], return_lse=True)[0], (2, 2), 2)(q.movedim(0, 2), k.movedim(0, 2)),
                      expected.movedim(0, 2)))
q, k, v, expected = q[0], k[0], v[0], expected[0]
offsets = torch.arange(0, 121, 40, dtype=torch.int32)
packed = dict(query_offsets=offsets, key_offsets=offsets, max_queries=40, max_keys=40)
flat = [x.reshape(-1, 2, 64) for x in (q, k, v)]
for way in (attend, torch.compile(attend, fullgraph=True, backend="aot_eager")):
    kit.check(torch.equal(way(*flat, **packed), expected.view(-1, 2, 64)), "packed")
with kit.refused("key_offsets: a sequence has 40 rows, but max_keys is 39"):
    attend(*flat, **{**packed, "max_keys": 39})
longest = by_compiler(lambda q, k, v, offsets, longest: attend(q, k, v, query_offsets=offsets, key_offsets=offsets, softcap=9.0,
                                                               max_queries=longest.item(), max_keys=longest.item()))
kit.check(torch.equal(longest(*flat, offsets, torch.tensor(40)), attend(*flat, softcap=9.0, **packed)), "packed")
out = torch.full((3, 40, 2, 70), 7.0, dtype=BF16)
kit.check(attend(q, k, v, out=out[..., :64]).data_ptr() == out.data_ptr() and torch.equal(out[..., :64], expected)
          and (out[..., 64:] == 7).all())
for return_lse in (False, True):
    operators.opcheck(torch.ops.ptxbuilder.attention.default, (q, k, v, *NO_EXTRAS, 0.0, 0.0, 0.0, -1, -1, 0, 0, 0, 0, return_lse, None))
caches = reference.Caches(np.random.default_rng(5), 2, 16)
cached = [torch.from_numpy(x).to(BF16) for x in (caches.q, caches.k, caches.v)] + [torch.from_numpy(x) for x in (caches.lengths, caches.table)]
exact, exact_lse = reference.decoded(*(x.double().numpy() for x in cached[:3]), caches.lengths, caches.table)
for way in (pb.decode, by_compiler(pb.decode)):
    o, lse = way(*cached, return_lse=True, device="emulator")
    check(o, torch.from_numpy(exact), 2**-6, "decode")
    check(lse, torch.from_numpy(exact_lse), 1e-4, "lse of decode")
by = torch.tensor([0.3, 0.05])
eights = [(x / by[:, None]).to(torch.float8_e4m3fn) for x in (torch.from_numpy(caches.k), torch.from_numpy(caches.v))]
scaled = ((x.double() * by.double()[:, None]).numpy() for x in eights)
exact = reference.decoded(cached[0].double().numpy(), *scaled, caches.lengths, caches.table)
for way in (pb.decode, by_compiler(pb.decode)):
    o = way(cached[0], *eights, *cached[3:], k_scale=by, v_scale=by, device="emulator")
    check(o, torch.from_numpy(exact[0]), 2**-6, "decode of e4m3")
of_pages = torch.linspace(0.5, 2, len(caches.k)).reshape(-1, 1)
by_pages = [(x.float() * of_pages[:, None, :, None]).to(BF16).double().numpy() for x in eights]
exact_of_pages = reference.decoded(cached[0].double().numpy(), *by_pages, caches.lengths, caches.table)[0]
for way in (pb.decode, by_compiler(pb.decode)):
    o = way(cached[0], *eights, *cached[3:], k_scale=of_pages, v_scale=of_pages, device="emulator")
    check(o, torch.from_numpy(exact_of_pages), 2**-6 * max(1, abs(exact_of_pages).max()), "scales of pages")
first, offsets = cached[0][0], torch.tensor([0, 2, 3, 3], dtype=torch.int32)  # the sequences have two queries, one and none
mixed = torch.cat([first, cached[0][1, 1:]])
for way in (pb.decode, by_compiler(pb.decode)):
    o, lse = way(mixed, *eights, *cached[3:], k_scale=by, v_scale=by, query_offsets=offsets, max_queries=2, return_lse=True,
                 device="emulator")
    check(o, torch.from_numpy(np.concatenate([exact[0][0], exact[0][1, 1:]])), 2**-6, "a mixed batch")
    check(lse, torch.from_numpy(np.concatenate([exact[1][0], exact[1][1, :, 1:]], 1)), 1e-4, "lse of a mixed batch")
# Checks that Q, K and V of e4m3 give a bf16 O, both eager and traced, and have no gradient.
narrow = [x.to(torch.float8_e4m3fn) for x in (q, k, v)]
scales = dict(q_scale=by[1:], k_scale=by[:1], v_scale=by[1:])
exact = reference.attention(*(x.double().numpy() * factor.item() for x, factor in zip(narrow, scales.values())), causal=True)
for way in (attend, by_compiler(attend)):
    for promote in (0, 16):
        o, lse = way(*narrow, causal=True, return_lse=True, promote=promote, **scales)
        kit.check(o.dtype == BF16, "O of e4m3")
        check(o, torch.from_numpy(exact[0]), 2**-5, "attention of e4m3")
        check(lse, torch.from_numpy(exact[1]), 1e-3, "lse of e4m3")
operators.opcheck(torch.ops.ptxbuilder.attention.default, (*narrow, *NO_EXTRAS, 0.0, 0.0, 0.0, 0, 0, -1, -1, 0, 0, True, None),
                  test_utils="test_faketensor")
with kit.refused("attention of e4m3 has no gradient, but an argument requires one"):
    attend(*narrow, sinks=torch.zeros(q.shape[2], requires_grad=True))
for way in (pb.decode, by_compiler(pb.decode)):
    for given, words in (((cached[0].clone().requires_grad_(), *eights, *cached[3:]), {}),
                         ((cached[0].clone().requires_grad_(), *cached[1:]), {}),
                         ((cached[0], *eights, *cached[3:]), dict(k_scale=by, v_scale=by.clone().requires_grad_())),
                         (cached, dict(sinks=torch.zeros(cached[0].shape[2]).requires_grad_()))):
        with kit.refused("attention over caches has no gradient, but an argument requires one", kind=Exception):
            way(*given, device="emulator", **words)
        with torch.no_grad():
            way(*given, device="emulator", **words)
# The queries form trees: a root and its child in one sequence, and two roots in another.
masks = torch.tensor([[1, 3], [1, 2], [0, 1]], dtype=torch.int32)
of_tree, lse_of_tree = reference.decoded(*(x.double().numpy() for x in cached[:3]), caches.lengths, caches.table, tree_mask=masks.numpy())
for way in (pb.decode, by_compiler(pb.decode)):
    o, lse = way(*cached, tree_mask=masks, return_lse=True, device="emulator")
    check(o, torch.from_numpy(of_tree), 2**-6, "a tree of tokens")
    check(lse, torch.from_numpy(lse_of_tree), 1e-4, "lse of a tree of tokens")
with kit.refused("seq_lens: <class 'list'> is not a tensor"):
    pb.decode(*cached[:3], [1, 2, 3], cached[4], device="emulator")
with kit.refused("k_scale: -0.3"):
    pb.decode(cached[0], *eights, *cached[3:], k_scale=-by, v_scale=by, device="emulator")
caches = reference.Caches(np.random.default_rng(6), 2, 16, columns=320, heads=6, key_heads=1)
latent = [torch.from_numpy(x).to(BF16) for x in (caches.q, caches.k)] + [torch.from_numpy(x) for x in (caches.lengths, caches.table)]
keys = latent[1].double().numpy()
exact, exact_lse = reference.decoded(latent[0].double().numpy(), keys, keys[..., :256], caches.lengths, caches.table, scale=0.1)
for way in (pb.mla_decode, by_compiler(pb.mla_decode)):
    o, lse = way(*latent, scale=0.1, return_lse=True, device="emulator")
    check(o, torch.from_numpy(exact), 2**-6, "mla_decode")
    check(lse, torch.from_numpy(exact_lse), 1e-4, "lse of mla_decode")
in_bytes = reference.Caches(np.random.default_rng(7), 2, 16, columns=576, heads=6, key_heads=1)
rows, keys = reference.byte_rows(np.random.default_rng(8), in_bytes.k)
of_bytes = [torch.from_numpy(x) for x in (in_bytes.q.astype(np.float32), rows, in_bytes.lengths, in_bytes.table)]
of_bytes[0] = of_bytes[0].to(BF16)
exact, _ = reference.decoded(of_bytes[0].double().numpy(), keys, keys[..., :512], in_bytes.lengths, in_bytes.table, scale=0.1)
for way in (pb.mla_decode, by_compiler(pb.mla_decode)):
    check(way(*of_bytes, scale=0.1, device="emulator"), torch.from_numpy(exact), 2**-6, "mla_decode of bytes")
of_latent = NO_EXTRAS._replace(key_lengths=latent[2], block_table=latent[3])
operators.opcheck(torch.ops.ptxbuilder.attention.default, (*latent[:2], None, *of_latent, 0.1, 0.0, 0.0, 0, 0, -1, -1, 0,
                                                           pb._ext.CAUSAL, True, None), test_utils=("test_schema", "test_faketensor"))
with kit.refused("mla_decode has no gradient, but an argument requires one"):
    pb.mla_decode(latent[0].clone().requires_grad_(), *latent[1:], scale=0.1, device="emulator")
check_attention_gradients(attend, "cpu")
operators.opcheck(torch.ops.ptxbuilder.attention_gradient.default,
                  (q, k, v, *attend(q, k, v, window=(-1, 0), return_lse=True), q, *NO_EXTRAS, None, 0.0, 0.0, 0.0, 0, 0, -1, 0, 0, 0, None))
trained = q.clone().requires_grad_()
for way in (attend, torch.compile(attend, fullgraph=True, backend="aot_eager")):
    kit.check(torch.equal(way(trained, k, v).detach(), expected))
    with torch.no_grad():
        kit.check(torch.equal(way(trained, k, v), expected))
# Checks that PyTorch's generator draws a new seed for each call, and that the gradient reuses the call's seed.
halved = [attend(q, k, v, dropout=0.5) for _ in range(2)]
torch.manual_seed(7)
first, second = (by_compiler(attend)(q, k, v, dropout=0.5) if compiled else attend(q, k, v, dropout=0.5) for compiled in (False, True))
torch.manual_seed(7)
kit.check(torch.equal(attend(q, k, v, dropout=0.5), first) and not torch.equal(*halved) and not torch.equal(first, second), "drawn seeds")
kit.check(torch.equal(attend(q, k, v, dropout=0.5, dropout_seed=(1 << 63, 5)),
                      attend(q, k, v, dropout=0.5, dropout_seed=torch.tensor([0, -1 << 31, 5, 0], dtype=torch.int32))), "a seed in numbers")
torch.manual_seed(7)
again = trained.clone().detach().requires_grad_()
kept = torch.utils.checkpoint.checkpoint(lambda x: attend(x, k, v, dropout=0.5), again, use_reentrant=False)
kit.check(torch.equal(kept.detach(), first), "a checkpoint's seed")
of_checkpoint, = torch.autograd.grad(kept.float().sum(), again)
torch.manual_seed(7)
of_straight, = torch.autograd.grad(attend(again, k, v, dropout=0.5).float().sum(), again)
check(of_checkpoint, of_straight.double(), 2**-6, "dropout through a checkpoint")
# Tests the counterpart of PyTorch's own function. Our kernel computes a call if it supports the request; otherwise PyTorch does.
sdpa, of_torch = pb.scaled_dot_product_attention, torch.nn.functional.scaled_dot_product_attention
calls = []
own = sys.modules["ptxbuilder._torch.sdpa"].attention
sys.modules["ptxbuilder._torch.sdpa"].attention = lambda *args, **words: (calls.append(words), own(*args, **words))[1]
for shapes, words, is_ours in ((((2, 4, 30, 64), (2, 4, 50, 64), (2, 4, 50, 64)), {"is_causal": True}, True),
                               (((2, 4, 50, 64), (2, 2, 30, 64), (2, 2, 30, 32)), {"enable_gqa": True, "scale": 0.3, "is_causal": True}, True),
                               (((3, 2, 2, 9, 64), (3, 2, 2, 20, 64), (3, 2, 2, 20, 64)), {}, True),
                               (((2, 2, 9, 64), (1, 2, 20, 64), (1, 2, 20, 64)), {}, True),
                               (((2, 2, 9, 64), (2, 2, 20, 64), (2, 2, 20, 64)), {"attn_mask": torch.rand(9, 20) < 0.7}, False),
                               (((2, 9, 64), (2, 20, 64), (2, 20, 64)), {}, False), (((2, 2, 9, 272),) * 3, {}, False)):
    given = [drawn(*shape).requires_grad_() for shape in shapes]
    exact = [x.detach().double().requires_grad_() for x in given]
    got, expected = sdpa(*given, **words, device="emulator"), of_torch(*exact, **words)
    check(got, expected, 2**-7, "sdpa", shapes, words)
    for x, y in zip(torch.autograd.grad(got.float().square().sum(), given), torch.autograd.grad(expected.square().sum(), exact)):
        check(x, y, 2**-6, "sdpa's gradient", shapes, words)
    kit.check(len(calls) == is_ours, shapes, words, calls)
    calls.clear()
kit.check(by_compiler(lambda q: sdpa(q, q, q, dropout_p=0.5, device="emulator"))(drawn(1, 2, 9, 64)).shape == (1, 2, 9, 64) and calls)
kit.check(sdpa(*[torch.randn(1, 2, 9, 64)] * 3, device="emulator").dtype == torch.float32, "f32 is PyTorch's own")
with kit.refused("dropout = 1; it must be at least 0 and less than 1"):
    sdpa(*[drawn(1, 2, 9, 64)] * 3, dropout_p=1.0, device="emulator")
with kit.refused("packed sequences, sinks, dropout and caches are not supported under torch.func.vmap"):
    torch.func.vmap(lambda q: attend(q, k, v, sinks=torch.zeros(2)))(q[None])
of_lse = torch.autograd.grad(attend(trained, k, v, return_lse=True)[1].sum(), trained)[0]
check(of_lse, torch.from_numpy(next(reference.attention_gradients(*map(wide, (q, k, v, torch.zeros_like(q))), lse_grad=np.ones((3, 2, 40))))),
      2**-6, "of lse alone")
# An argument, or PyTorch's global switch, makes gradients bitwise reproducible.
asked = []
door = sys.modules["ptxbuilder._torch.attention"]._attention
run_gradient = door.run_gradient
door.run_gradient = lambda *args: (asked.append(args[-2][-1] & pb._ext.DETERMINISTIC), run_gradient(*args))[1]
of_word, = torch.autograd.grad(attend(trained, k, v, deterministic=True).float().square().sum(), trained)
torch.use_deterministic_algorithms(True)
of_switch = [torch.autograd.grad(way(trained, k, v).float().square().sum(), trained)[0]
             for way in (attend, torch.compile(attend, fullgraph=True, backend="aot_eager"))]
torch.use_deterministic_algorithms(False)
free, = torch.autograd.grad(attend(trained, k, v).float().square().sum(), trained)
door.run_gradient = run_gradient
kit.check(asked == [pb._ext.DETERMINISTIC] * 3 + [0], asked)
for x in of_switch:
    kit.check(torch.equal(of_word, x))
check(of_word, free.double(), 2**-7, "deterministic")
# Packed sequences are the batches of one tensor, one after the other.
given = [x.clone().requires_grad_() for x in (q, k, v)]
exact = torch.autograd.grad(attend(*given, causal=True).float().square().sum(), given)
for way in (attend, torch.compile(attend, fullgraph=True, backend="aot_eager")):
    given = [x.clone().requires_grad_() for x in flat]
    for x, expected_gradient in zip(torch.autograd.grad(way(*given, causal=True, **packed).float().square().sum(), given), exact):
        check(x.view(3, 40, 2, 64), expected_gradient.double(), 2**-7, "packed")
with kit.refused("pb.attention has no second derivative"):
    torch.autograd.grad(torch.autograd.grad(attend(trained, k, v).float().sum(), trained, create_graph=True)[0].float().sum(), trained)


def loss(q, k, v):
    return attend(q, k, v).float().square().sum()


each = torch.stack([torch.func.grad(loss)(*(x[i:i + 1] for x in (q, k, v))) for i in range(3)])
kit.check(torch.equal(torch.func.vmap(torch.func.grad(loss))(*(x[:, None] for x in (q, k, v))), each), "vmap of grad")
given = [x.clone().requires_grad_() for x in (q, k, v)]
kept = torch.utils.checkpoint.checkpoint(attend, *given, use_reentrant=False)
kit.check(torch.equal(torch.autograd.grad(kept.float().square().sum(), given)[0].view(3, 1, 40, 2, 64), each), "checkpoint")
for words, text in ((dict(out=trained), "out: a given result has no gradient"), (dict(out=q), "O overlaps"),
                    (dict(softcap=-1.0), "softcap"), (dict(device=None), "Q: its memory is on the CPU")):
    with kit.refused(text):
        pb.attention(q, k, v, **{"device": "emulator", **words})

for words, text in ((dict(window=3), "window: 3; it must be two integers"), (dict(window=(1.5, 0)), "window: (1.5, 0)"),
                    (dict(window=(-2, -7)), "where -1 means no limit"), (dict(causal="no"), "causal: 'no' is not one of True and False"),
                    (dict(max_keys=1), "need packed sequences"), (dict(scale="x"), "scale: 'x' is a str"),
                    (dict(softcap=None), "softcap is None; it must be a number, where 0 means no softcap")):
    with kit.refused(text):
        pb.attention(q, k, v, device="emulator", **words)

for wrong, name in ((dict(out=np.zeros((40, 40))), "out"), (dict(bias=np.zeros(40)), "bias"), (dict(scale_a=np.ones(40, np.float32)), "scale_a")):
    with kit.refused(f"{name}: it is <class 'numpy.ndarray'>, but the other tensors are PyTorch's"):
        pb.matmul(drawn(40, 40), drawn(40, 40), device="emulator", **wrong)
with kit.refused("B: it is <class 'numpy.ndarray'>, but the other tensors are PyTorch's"):
    pb.matmul(drawn(40, 40), np.zeros((40, 40)), device="emulator")
with kit.refused("V: it is <class 'numpy.ndarray'>, but the other tensors are PyTorch's"):
    pb.attention(q, k, np.zeros(4), device="emulator")

# Checks that torch.jit.trace puts the operations into its graph, and that the graph also works for other shapes and for gradients.
a, b, heads = drawn(32, 64), drawn(64, 48), drawn(2, 20, 2, 64)
state = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p))(tensors.tracing_state())  # undocumented, but the extension calls it
for operands, function in (((a, b), product), ((a, b), lambda a, b: product(a, b, activation="gelu", transpose_a=False)),
                           ((a, b), lambda a, b: product(a, b, out=a.new_zeros(a.shape[0], 48))),
                           ((a, b), lambda a, b: product(a, b, scale_a=a[:, 0].float(), amax=torch.zeros(1))),
                           ((a.clone().requires_grad_(), b), lambda a, b: product(a, b, activation="relu")),
                           ((a.clone().requires_grad_(), b), lambda a, b: product(a, b, activation="silu", gate=True)),
                           ((heads, heads), lambda q, k: pb.attention(q, k, k, device="emulator"))):
    def seen(*operands):
        kit.check(bool(state()[0]) and tensors.is_tracing(), "where the state is")
        return function(*operands)

    traced = torch.jit.trace(seen, operands, check_trace=False)
    kit.check("ptxbuilder" in traced.code and not state()[0], traced.code)
    for scale in (1, 2):
        kit.check(torch.equal(traced(scale * operands[0], *operands[1:]), function(scale * operands[0], *operands[1:])), traced.code)
    if not operands[0].requires_grad and len(operands[0].shape) == 2:
        kit.check(torch.equal(traced(a[:20], b), function(a[:20], b)), "of other rows", traced.code)

# Checks that torch.autocast converts f32 operands as it does for torch.mm(), and that gradients have the operands' types.
a, b, bias = (drawn(*shape, dtype=torch.float32).requires_grad_() for shape in ((16, 24), (24, 32), (32,)))
narrow = [x.detach().bfloat16().requires_grad_() for x in (a, b, bias)]
weight = torch.randn(16, 32)
for function in (lambda a, b, bias: product(a, b, bias=bias, activation="gelu"), lambda a, b, bias: product(a, b, out_dtype="f32", alpha=0.5),
                 lambda a, b, bias: product(a, b.bfloat16(), bias=bias, scale_a=torch.ones(16))):
    expected = function(*narrow)
    gradients = torch.autograd.grad((expected * weight).sum(), narrow, allow_unused=True)
    for way in (function, by_compiler(function)):
        with torch.autocast("cpu", torch.bfloat16):
            d = way(a, b, bias)
            quiet = way(a.detach(), b.detach(), bias.detach())
        kit.check(d.dtype == quiet.dtype == expected.dtype, d.dtype, expected.dtype)
        check(d, expected, 2**-8, "autocast")
        check(quiet, expected, 2**-8, "autocast")
        for x, y, z in zip(torch.autograd.grad((d * weight).sum(), (a, b, bias), allow_unused=True), gradients, (a, b, bias)):
            if kit.check((x is None) == (y is None), x, y) and x is not None:
                kit.check(x.dtype == torch.float32)
                check(x, y, 2**-7, "autocast")
heads = drawn(1, 20, 2, 64, dtype=torch.float32)
for way in (pb.attention, by_compiler(pb.attention)):
    with torch.autocast("cpu", torch.float16):
        o = way(heads, heads, heads, device="emulator")
    kit.check(o.dtype == torch.float16)
    check(o, pb.attention(*(heads.half(),) * 3, device="emulator"), 2**-10, "autocast")
with torch.autocast("cpu", torch.bfloat16), kit.refused("set `tf32` to allow it"):
    product(a.detach(), b.detach(), out=torch.zeros(16, 32))  # torch.mm() does not convert these either

# Checks that autograd notices a write to a given result, as with torch.mm(out=).
left, right, d = drawn(5, 8), drawn(8, 9), torch.zeros(5, 9, dtype=BF16)
sums, heads = torch.zeros(1), drawn(1, 4, 1, 64)
written = {"out": (d, lambda: pb.matmul(left, right, out=d, device="emulator")),
           "amax": (sums, lambda: pb.matmul(left, right, amax=sums, device="emulator")),
           "attention": (o := heads.clone(), lambda: pb.attention(heads, heads, heads, out=o, device="emulator"))}
for x, write in written.values():
    weight = torch.randn_like(x).requires_grad_()
    loss = (weight * x).sum()
    write()
    with kit.refused("modified by an inplace operation", kind=RuntimeError):
        loss.backward()
# Tests a tensor whose sign PyTorch stores outside of its memory.
z = torch.randn(8, 1, dtype=torch.complex64).conj().imag
check(pb.matmul(z, torch.ones(1, 4), tf32=True, device="emulator"), z.clone() @ torch.ones(1, 4), 2**-9)
with kit.refused("out: it is a view whose sign PyTorch keeps outside of its memory"):
    pb.matmul(left, right, out=torch._neg_view(d), device="emulator")
# Checks that relu propagates NaN, and that 8-bit types have no gradient.
kit.check(pb.matmul(torch.full((1, 8), torch.nan, dtype=BF16), right, activation="relu", device="emulator").isnan().all())
for activation in (None, "relu", "gelu"):
    with kit.refused("out_dtype of torch.float8_e4m3fn"):
        pb.matmul(left.clone().requires_grad_(), right, activation=activation, out_dtype="e4m3", device="emulator")

# Tests loaded kernels of any kind, called directly and compiled.
x, y = drawn(1000, dtype=torch.float32), drawn(1000, dtype=torch.float32)
saxpy = pb.load(f"{sys.argv[1]}/saxpy", updates=["y"], device="emulator")
result = y.clone()
kit.check(saxpy(x=x, y=result, alpha=2.0, count=1000, device="emulator") is result)
check(result, 2 * x + y, 1e-6)
for dynamic in (False, True):
    compiled = torch.compile(lambda x, y: saxpy(x=x, y=y * 1, alpha=2.0, count=x.numel(), device="emulator") + 1, fullgraph=True,
                             backend="aot_eager", dynamic=dynamic)
    for n in (1000, 500):
        check(compiled(x[:n], y[:n]), 2 * x[:n] + y[:n] + 1, 1e-6, dynamic, n)
for gaps in (x[::2], x.view(10, 100).T):
    with kit.refused("parameter 'x' is a pointer, so that the kernel does not know strides"):
        saxpy(x=gaps, y=result, alpha=2.0, count=500, device="emulator")
with kit.refused("kernel 'saxpy' is not supported under torch.jit.trace"):
    torch.jit.trace(lambda x: saxpy(x=x, y=x * 1, alpha=2.0, count=1000, device="emulator"), (x,))
weight = torch.randn_like(result).requires_grad_()
loss = (weight * result).sum()
saxpy(x=x, y=result, alpha=2.0, count=1000, device="emulator")
with kit.refused("modified by an inplace operation", kind=RuntimeError):
    loss.backward()
with kit.refused("kernel 'saxpy': it is a view whose sign"):
    saxpy(x=x, y=torch._neg_view(result), alpha=2.0, count=1000, device="emulator")
check(saxpy(x=torch._neg_view(x)[:500], y=y[:500].clone(), alpha=2.0, count=500, device="emulator"), y[:500] - 2 * x[:500], 1e-6)
number = by_compiler(lambda x, y, alpha: saxpy(x=x, y=y * 1, alpha=alpha.item(), count=1000, device="emulator"))
check(number(x, y, torch.tensor(2.0)), 2 * x + y, 1e-6)
tma = pb.load(f"{sys.argv[1]}/saxpy_tma", outputs={"y": "X"}, device="emulator")
X, Y = drawn(8, 32, dtype=torch.float32), drawn(8, 32, dtype=torch.float32)
for way in (tma, torch.compile(lambda **words: tma(**words), fullgraph=True, backend="aot_eager")):
    check(way(X=X, Y=Y, alpha=3.0, device="emulator"), 3 * X + Y, 1e-6)
# Tests tensors in a struct, one that the kernel updates and one that the call allocates.
scaled = pb.load(struct_kernel.files(), updates=["p.to"], outputs={"y": "p.x"}, device="emulator")
for way in (scaled, by_compiler(lambda grid, **words: scaled(grid, **words))):
    to = torch.zeros(1000)
    d, given = way((32,), p=dict(x=x, n=1000, s=2.0, to=to), bias=1.0, device="emulator")
    check(d, 2 * x + 1, 1e-6, way)
    check(given, torch.full((1000,), 2.0), 0, way)
    check(to, torch.full((1000,), 2.0), 0, way)
with kit.refused("kernel 'scaled' has no gradient"):
    scaled((32,), p=dict(x=x.clone().requires_grad_(), n=1000, s=2.0, to=to), bias=1.0, device="emulator")
for backend in (None, "aot_eager"):
    way = saxpy if backend is None else torch.compile(lambda **words: saxpy(**words), fullgraph=True, backend=backend)
    with kit.refused("kernel 'saxpy' has no gradient", kind=Exception):
        way(x=x.clone().requires_grad_(), y=result, alpha=2.0, count=1000, device="emulator")

# Checks that an exported graph identifies a kernel by its contents. Another process must run the same kernel, or report that it is missing.
class Exported(torch.nn.Module):
    def forward(self, x, y):
        return saxpy(x=x, y=y * 1, alpha=2.0, count=x.numel(), device="emulator")


IN_ANOTHER_PROCESS = """
import sys, torch
import ptxbuilder as pb
exported, kernels, struct = sys.argv[1:]
graph, ones = torch.export.load(exported).module(), torch.ones(1000)
pb.load(struct, updates=["p.to"], outputs={"y": "p.x"}, device="emulator")
for words in (dict(updates=["x"]), dict(updates=["y"])):
    try:
        print(float(graph(ones, ones).sum()))
    except ValueError as error:
        print(error)
    pb.load(f"{kernels}/saxpy", device="emulator", **words)
print(float(graph(ones, ones).sum()))
"""
with tempfile.TemporaryDirectory() as folder:
    torch.export.save(torch.export.export(Exported(), (x, y)), f"{folder}/graph.pt2")
    done = subprocess.run([sys.executable, "-c", IN_ANOTHER_PROCESS, f"{folder}/graph.pt2", sys.argv[1], struct_kernel.files()],
                          capture_output=True, text=True)
    *refusals, last = done.stdout.splitlines() or [""]
    kit.check(last == "3000.0" and len(refusals) == 2 and all("kernel 'saxpy:" in line and "is not loaded in this process" in line
                                                              for line in refusals), done.stdout, done.stderr[-2000:])
    for name in ("same", "other"):
        for ending in ("ptx", "json"):
            shutil.copy(f"{sys.argv[1]}/saxpy.{ending}", f"{folder}/{name}.{ending}")
    with open(f"{folder}/other.ptx", "a") as ptx:
        ptx.write("// another one\n")
    same, other = (pb.load(f"{folder}/{name}", updates=["y"], device="emulator").handle for name in ("same", "other"))
    kit.check(saxpy.handle == same != other, saxpy.handle, same, other)

# Tests pb.Linear: it equals torch.nn.Linear followed by an activation, loads the state of torch.nn.Linear, and reports errors.
for activation, bias in ((None, True), ("gelu", True), ("silu", False)):
    ours, theirs = pb.Linear(24, 32, bias, activation, dtype=BF16), torch.nn.Linear(24, 32, bias, dtype=BF16)
    ours.load_state_dict(theirs.state_dict())
    for rows in (drawn(24), drawn(5, 24), drawn(2, 5, 24)):
        rows.requires_grad_()
        expected = functions[activation](theirs(rows).double())
        weight = torch.randn_like(expected)
        exact = torch.autograd.grad((expected * weight).sum(), (rows, *theirs.parameters()))
        for way in (ours, by_compiler(ours)):
            d = way(rows)
            check(d, expected, 2**-7, activation, tuple(rows.shape))
            for x, y in zip(torch.autograd.grad((d * weight).sum(), (rows, *ours.parameters())), exact):
                check(x, y, 2**-6, activation, tuple(rows.shape))
kit.check("activation='silu'" in repr(ours) and isinstance(ours, torch.nn.Linear), ours)
with kit.refused("activation 'tanh' is not one of"):
    pb.Linear(24, 32, activation="tanh")
with torch.autocast("cpu", torch.bfloat16):
    kit.check(pb.Linear(24, 32)(torch.randn(5, 24)).dtype == BF16, "autocast")
with kit.refused("has no attribute 'Conv'", kind=AttributeError):
    pb.Conv
done = subprocess.run([sys.executable, "-c", "import ptxbuilder, sys; assert 'torch' not in sys.modules; ptxbuilder.Linear(3, 4)"])
kit.check(done.returncode == 0, "PyTorch is imported for a layer alone")

# Checks that PyTorch's tools count the operations and show their names.
a, b, heads = drawn(3, 16, 24), drawn(24, 32), drawn(1, 20, 2, 64)
for call, count in ((lambda: product(a, b), 2 * 3 * 16 * 24 * 32), (lambda: product(a, b, amax=torch.zeros(1)), 2 * 3 * 16 * 24 * 32),
                    (lambda: product(a, b, out=drawn(3, 16, 32)), 2 * 3 * 16 * 24 * 32), (lambda: attend(heads, heads, heads), 4 * 20 * 20 * 2 * 64),
                    (lambda: product(a.clone().requires_grad_(), b).sum().backward(), 2 * 2 * 3 * 16 * 24 * 32)):
    with torch.utils.flop_counter.FlopCounterMode(display=False) as counter:
        call()
    kit.check(counter.get_total_flops() == count, counter.get_total_flops(), count)
with torch.profiler.profile() as profile:
    product(a, b), attend(heads, heads, heads, out=heads.clone()), saxpy(x=torch.ones(9), y=torch.ones(9), alpha=2.0, count=9, device="emulator")
seen = {event.name for event in profile.events()}
kit.check({f"ptxbuilder::{name}" for name in ("matmul", "attention", "launch")} <= seen, seen)

# Tests products in groups and their gradients, called in every way.
ends = torch.from_numpy(reference.ENDS)
for x, y in ((drawn(reference.ALL, 72), drawn(5, 72, 56)), (drawn(reference.ALL, 72).mT, drawn(reference.ALL, 40)),
             (drawn(5, 72, 56).mT, drawn(reference.ALL, 72).mT)):
    def groups(x, y, ends):
        return pb.grouped_mm(x, y, ends, device="emulator")

    exact = reference.grouped(wide(x), wide(y), reference.ENDS)
    for way in (groups, by_compiler(groups)):
        check(way(x, y, ends), torch.from_numpy(exact), 2**-7, "groups", x.shape)
        given = [x.clone().requires_grad_(), y.clone().requires_grad_()]
        d = way(*given, ends)
        grad = torch.randn_like(d)
        found = torch.autograd.grad(d, given, grad)
        if x.ndim == 2:
            for got, expected in zip(found, reference.grouped_gradients(wide(x), wide(y), reference.ENDS, wide(grad))):
                check(got, torch.from_numpy(expected), 2**-7, "gradients of groups", x.shape)
# Tests gathered rows and their gradients, called in every way.
rows, x, y = torch.from_numpy(reference.GATHERED), drawn(reference.ROWS_OF_A, 72), drawn(5, 72, 56)
taken = reference.gathered(wide(x), reference.GATHERED)


def gathered(x, y, ends, rows):
    return pb.grouped_mm(x, y, ends, a_rows=rows, device="emulator")


for way in (gathered, by_compiler(gathered)):
    check(way(x, y, ends, rows), torch.from_numpy(reference.grouped(taken, wide(y), reference.ENDS)), 2**-7, "gathered rows")
    given = [x.clone().requires_grad_(), y.clone().requires_grad_()]
    d = way(*given, ends, rows)
    grad = torch.randn_like(d)
    of_rows, of_y = reference.grouped_gradients(taken, wide(y), reference.ENDS, wide(grad))
    for got, expected in zip(torch.autograd.grad(d, given, grad), (reference.scattered(reference.GATHERED, of_rows, len(x)), of_y)):
        check(got, torch.from_numpy(expected), 2**-7, "gradients of gathered rows")
places, weights = torch.from_numpy(reference.PLACES), torch.rand(reference.ALL)


def scattered(x, y, ends, rows, places, weights):
    return pb.grouped_mm(x, y, ends, a_rows=rows, d_rows=places, d_weights=weights, device="emulator")


for way in (scattered, by_compiler(scattered)):
    given = [x.clone().requires_grad_(), y.clone().requires_grad_(), weights.clone().requires_grad_()]
    plain = reference.grouped(taken, wide(y), reference.ENDS)
    for d in (way(x, y, ends, rows, places, weights), way(*given[:2], ends, rows, places, given[2])):
        check(d[places.long()], torch.from_numpy(plain * wide(weights)[:, None]), 2**-7, "scattered rows")
    grad = torch.randn_like(d)
    of_product = wide(grad)[reference.PLACES]
    of_rows, of_y = reference.grouped_gradients(taken, wide(y), reference.ENDS, of_product * wide(weights)[:, None])
    expected = reference.scattered(reference.GATHERED, of_rows, len(x)), of_y, (of_product * plain).sum(1)
    for got, exact in zip(torch.autograd.grad(d, given, grad), expected):
        check(got, torch.from_numpy(exact), 2**-6, "gradients of scattered rows")


# Tests groups that each use the matrix at a given address.
order = [3, 1, 4, 4, 0]
addresses = torch.tensor([y[i].data_ptr() for i in order])


def addressed(x, one, ends, addresses):
    return pb.grouped_mm(x, one, ends, b_addresses=addresses, device="emulator")


wide_x, of_order = drawn(reference.ALL, 72), wide(y[order])
for way in (addressed, by_compiler(addressed)):
    exact = torch.from_numpy(reference.grouped(wide(wide_x), of_order, reference.ENDS))
    check(way(wide_x, y[1], ends, addresses), exact, 2**-7, "addresses")
    given = wide_x.clone().requires_grad_()
    d = way(given, y[1], ends, addresses)
    check(d, exact, 2**-7, "addresses, with a gradient")
    grad = torch.randn_like(d)
    of_x, _ = reference.grouped_gradients(wide(wide_x), of_order, reference.ENDS, wide(grad))
    check(torch.autograd.grad(d, given, grad)[0], torch.from_numpy(of_x), 2**-7, "gradients with addresses")
check(pb.matmul(wide_x, y[1], offs=ends, b_addresses=addresses, activation="relu", device="emulator"), exact.relu(), 2**-7, "addresses and more")
with kit.refused("B of b_addresses"):
    addressed(wide_x, y[1].clone().requires_grad_(), ends, addresses)
with kit.refused("torch.autocast converts only one matrix"), torch.autocast("cpu", torch.bfloat16):
    addressed(wide_x.float(), y[1].float(), ends, addresses)


# Tests groups with equal room. Only the first rows of each group are computed.
counts = torch.tensor([3, 0, 40, 7, 26], dtype=torch.int32)
counted = torch.arange(reference.ALL) % 26 < counts.repeat_interleave(26)


def of_counts(x, y, counts):
    return pb.matmul(x, y, counts=counts, device="emulator")


whole = drawn(reference.ALL, 72)
for way in (of_counts, by_compiler(of_counts)):
    check(way(whole, y, counts)[counted], (whole.view(5, 26, 72).double() @ y.double()).view(-1, 56)[counted], 2**-7, "counted rows")
with kit.refused("counts: not supported if a gradient of the product is requested"):
    of_counts(whole.clone().requires_grad_(), y, counts)

# Tests added rows; several of them are added to the same row.
def added(x, y, c, ends, rows, weights):
    return pb.matmul(x, y, c=c, offs=ends, add_to_rows=rows, scale_a=weights, device="emulator")


begin = drawn(reference.ROWS_OF_A, 56)
plain = reference.grouped(wide(whole), wide(y), reference.ENDS)
exact = wide(begin) + reference.scattered(reference.GATHERED, plain * wide(weights)[:, None], reference.ROWS_OF_A)
for way in (added, by_compiler(added)):
    given = [x.clone().requires_grad_() for x in (whole, y, begin, weights)]
    for d in (way(whole, y, begin, ends, rows, weights), way(*given[:3], ends, rows, given[3])):
        check(d, torch.from_numpy(exact), 2**-6, "added rows")
    grad = torch.randn_like(d)
    of_product = reference.gathered(wide(grad), reference.GATHERED)
    expected = (*reference.grouped_gradients(wide(whole), wide(y), reference.ENDS, of_product * wide(weights)[:, None]), wide(grad),
                (of_product * plain).sum(1))
    for got, exact_grad in zip(torch.autograd.grad(d, given, grad), expected):
        check(got, torch.from_numpy(exact_grad), 2**-6, "gradients of added rows")
words = dict(c=begin, add_to_rows=rows, scale_a=weights, bias=drawn(56), activation="silu", device="emulator")
plain = pb.matmul(whole, y[0], **words)
check(pb.matmul(whole.clone().requires_grad_(), y[0], **words), plain.double(), 2**-6, "added rows with a bias and an activation")
with kit.refused("bias with offs: not supported if a gradient of the product is requested"):
    pb.matmul(whole.clone().requires_grad_(), y, offs=ends, **{**words, "bias": drawn(5, 56)})
torch.use_deterministic_algorithms(True)
with kit.refused("add_to_rows adds in no fixed order, but torch.use_deterministic_algorithms() is on"):
    added(whole, y, begin, ends, rows, weights)
torch.use_deterministic_algorithms(False)
check(pb.matmul(whole, y[0], c=begin, add_to_rows=rows, device="emulator"),
      torch.from_numpy(wide(begin) + reference.scattered(reference.GATHERED, wide(whole) @ wide(y[0]), reference.ROWS_OF_A)), 2**-6,
      "added rows of one matrix")


def gathered_of_one(x, y, rows):  # Dynamo recompiles a function only a few times, and product() has reached this limit
    return pb.matmul(x, y, a_rows=rows, device="emulator")


for way in (gathered_of_one, by_compiler(gathered_of_one)):
    check(way(x, y[0], rows), torch.from_numpy(taken @ wide(y[0])), 2**-7, "gathered rows of one matrix")
    given = [x.clone().requires_grad_(), y[0].clone().requires_grad_()]
    d = way(*given, rows)
    grad = torch.randn_like(d)
    expected = reference.scattered(reference.GATHERED, wide(grad) @ wide(y[0]).T, len(x)), taken.T @ wide(grad)
    for got, exact in zip(torch.autograd.grad(d, given, grad), expected):
        check(got, torch.from_numpy(exact), 2**-7, "gradients of gathered rows of one matrix")
with kit.refused("a_rows: (130,) of int64; it must be [m] of int32"):
    product(x, y[0], a_rows=rows.long())

bias = drawn(5, 56)
x, y = drawn(reference.ALL, 72), drawn(5, 72, 56)
for way in (product, by_compiler(product)):
    gate = way(x, y, offs=ends, bias=bias, activation="silu", gate=True)
    z = torch.from_numpy(reference.grouped(wide(x), wide(y), reference.ENDS))
    z[:120] += bias.double()[torch.searchsorted(ends, torch.arange(120), right=True)]
    check(gate, torch.nn.functional.silu(z[:, 0::2]) * z[:, 1::2], 2**-7, "a gate of groups")
with kit.refused("bias with offs: not supported if a gradient of the product is requested"):
    product(x.clone().requires_grad_(), y, offs=ends, bias=bias)

# Tests block scales, called in every way.
x, y = (torch.randn(shape).to(torch.float8_e4m3fn) for shape in ((64, 384), (144, 384)))
of_x, of_y = torch.rand(3, 64) + 0.5, torch.rand(2, 3) + 0.5
exact = torch.from_numpy(reference.in_blocks(wide(x), wide(y).T, of_x.numpy(), of_y.numpy()))
recipes = ("BlockWise1x128", "BlockWise128x128")
if hasattr(torch.nn.functional, "ScalingType"):
    recipes = tuple(getattr(torch.nn.functional.ScalingType, name) for name in recipes)


def in_blocks(x, y, of_x, of_y):
    return pb.scaled_mm(x, y.mT, of_x, recipes[0], of_y, recipes[1], output_dtype=torch.float32, device="emulator")


for way in (in_blocks, by_compiler(in_blocks)):
    check(way(x, y, of_x.mT, of_y.mT), exact, 2**-9, "blocks")
    check(way(x, y, of_x.mT.contiguous(), of_y.mT.contiguous()), exact, 2**-9, "blocks that lie otherwise")
with kit.refused("scale_a_1x128: not supported if a gradient of the product is requested"):
    product(x, y.mT, bias=torch.zeros(144, dtype=BF16, requires_grad=True), scale_a_1x128=of_x, scale_b_128x128=of_y)

# Tests sparse weights, called in every way.
w = torch.from_numpy(reference.with_zeros(np.random.default_rng(7), torch.randn(144, 200).numpy())).to(BF16)
x, bias = torch.randn(2, 40, 200).to(BF16), torch.randn(144).to(BF16)
s = pb.compress_2_4(w)
kit.check(s.metadata.dtype == torch.int32 and torch.equal(pb.decompress_2_4(s), w), "compress_2_4 and back")


def by_weights(x, s, bias):
    return pb.matmul(x, s, bias, transpose_b=True, activation="gelu", device="emulator")


exact = torch.nn.functional.gelu(x.double() @ w.double().T + bias.double(), approximate="tanh")
for way in (by_weights, by_compiler(by_weights)):
    check(way(x, s, bias), exact, 2**-7, "sparse weights")
with kit.refused("b_metadata: not supported if a gradient of the product is requested"):
    by_weights(x.clone().requires_grad_(), s, bias)

# These benchmarks are meant for a GPU, and run here with small sizes.
for name in ("block", "attention", "groups", "gathered", "blocks", "mixed", "sparse", "convolution", "training"):
    done = subprocess.run([sys.executable, f"{kit.TOP}/kernels/python/bench/{name}.py", "--small"], capture_output=True, text=True)
    kit.check(done.returncode == 0, name, done.stdout[-500:], done.stderr[-2000:])
kit.end()

"""Tests packed weights of numpy, and of PyTorch if this Python has it, on the emulator: packed and unpacked, multiplied in every form and
compared with float64, traced, compiled and differentiated. Also tests refused calls."""
import importlib.util

import kit

kit.use("numpy")
import numpy as np  # noqa: E402

import ptxbuilder as pb  # noqa: E402
import reference  # noqa: E402
from packed_kit import plain  # noqa: E402

random = np.random.default_rng(1)


def off(got, exact):
    return np.linalg.norm(np.asarray(got, float) - exact) / np.linalg.norm(exact)


CASES = [("int4", 72, 200, 32, np.float16), ("int4", 64, 128, 128, np.float32), ("uint4", 130, 96, 64, np.float16),
         ("uint4", 8, 140, 0, np.float32), ("int8", 40, 264, 128, np.float16), ("int8", 70, 72, 0, np.float32)]
for case in CASES:
    type, n, k, group, scales = case
    (w, s, z), exact = plain(random, *case)
    packed = pb.pack_weights(w, s, z, type=type, group=group)
    kit.check(packed.shape == (k, n) and packed.data.shape[0] == -(-n // 64) and packed.data.dtype == np.uint8, case, packed.data.shape)
    back = pb.unpack_weights(packed)
    kit.check(np.array_equal(back[0], w) and np.array_equal(back[1], s) and (z is None or np.array_equal(back[2], z)), case)
    for shape in ((3, k), (k,), (2, 5, k)):
        a = random.standard_normal(shape).astype(np.float16)
        bias, c = random.standard_normal(n).astype(np.float32), random.standard_normal((*shape[:-1], n)).astype(np.float32)
        d = pb.packed_mm(a, packed, bias, c, alpha=0.5, beta=2.0, activation="relu", out_dtype="f32", device="emulator")
        wanted = np.maximum(0.5 * (a.astype(float) @ exact.T) + bias + 2.0 * c, 0)
        kit.check(d.shape == wanted.shape and d.dtype == np.float32 and off(d, wanted) < 1e-5, case, shape, off(d, wanted))
    out = np.zeros((3, n), np.float16)
    a = random.standard_normal((3, k)).astype(np.float16) / 64
    strided = [None if x is None else np.repeat(x, 2, 1)[:, ::2] for x in (w, s, z)]
    kit.check(np.array_equal(pb.pack_weights(*strided, type=type, group=group).data, packed.data), case, "of other strides")
    kit.check(pb.packed_mm(a, packed, out=out, device="emulator") is out and off(out, a.astype(float) @ exact.T) < 2**-9, case)

(w, s, z), exact = plain(random, "uint4", 72, 200, 64, np.float16)
packed, a = pb.pack_weights(w, s, z), np.ones((2, 200), np.float16)
kit.check(off(pb.packed_mm(a, packed, out_dtype="f32", device="emulator"), a @ exact.T) < 1e-5, "the type and the group are found")
int8, one = w.astype(np.int8), s[:, :1]
for text, call in {
        "weights must be [n, k], or [experts, n, k]": lambda: pb.pack_weights(w[0], s, z),
        "must be given with uint4": lambda: pb.pack_weights(int8, one, z),
        "zeros: None with uint4": lambda: pb.pack_weights(w, s),
        "w: 'int4' of uint8": lambda: pb.pack_weights(w, s, type="int4"),
        "w: 'int3'": lambda: pb.pack_weights(int8, one, type="int3"),
        "scales: None": lambda: pb.pack_weights(int8),
        "scales: float64": lambda: pb.pack_weights(int8, one.astype(float)),
        "group: None with scales (72, 3)": lambda: pb.pack_weights(int8, s[:, :3]),
        "group: 48": lambda: pb.pack_weights(w, s, z, group=48),
        "scales: (71, 4); with groups of 64 values along k they must be (72, 4)": lambda: pb.pack_weights(w, s[:71], z),
        "zeros: (72, 3)": lambda: pb.pack_weights(w, s, z[:, :3]),
        "zeros: int8": lambda: pb.pack_weights(w, s, z.astype(np.int8)),
        "weight 1 of column 0 is 9; int4 has -8 to 7":
            lambda: pb.pack_weights(np.full((8, 32), [0, 9] * 16, np.int8), one[:8], type="int4"),
        "but must be a result of pack_weights()": lambda: pb.packed_mm(a, w, device="emulator"),
        "A's last dimension must be 200": lambda: pb.packed_mm(a[:, :100], packed, device="emulator"),
        "A: float32": lambda: pb.packed_mm(a.astype(np.float32), packed, device="emulator"),
        "D: float16 (2, 71)": lambda: pb.packed_mm(a, packed, out=np.zeros((2, 71), np.float16), device="emulator"),
        "C: its shape is (72,)": lambda: pb.packed_mm(a, packed, c=np.zeros(72, np.float16), device="emulator"),
        "alpha = 0": lambda: pb.packed_mm(a, packed, alpha=0.0, device="emulator"),
        "activation 'tan' is not one of": lambda: pb.packed_mm(a, packed, activation="tan", device="emulator"),
        "B: 1 batches of 2 x": lambda: pb.packed_mm(a, packed._replace(data=packed.data[:, :-1].copy()), device="emulator"),
        "alpha: it is of type ndarray, but must be a number": lambda: pb.packed_mm(a, packed, alpha=np.ones(()), device="emulator"),
        "packed: it is of <class 'numpy.ndarray'>, but must be": lambda: pb.unpack_weights(w),
        "packed: its data is uint8 (2, 9216); weights of 329 rows and 72 columns":
            lambda: pb.unpack_weights(packed._replace(shape=(329, 72))),
        "packed: its data is uint8 (1, ": lambda: pb.unpack_weights(packed._replace(data=packed.data[:1])),
        "packed: its data is int8": lambda: pb.unpack_weights(packed._replace(data=packed.data.view(np.int8))),
        "packed: scale_b is None": lambda: pb.unpack_weights(pb.pack_weights(int8, one)._replace(scale_b=None)),
        "B: its data is <class 'NoneType'>": lambda: pb.packed_mm(a, packed._replace(data=None), device="emulator"),
        "scales: it is <class 'list'>": lambda: pb.pack_weights(int8, [1.0] * 72),
        "zeros: it is <class 'int'>": lambda: pb.pack_weights(w, s, 8),
        "w: ['int8'] of int8": lambda: pb.pack_weights(int8, one, type=["int8"]),
        "packed_form": lambda: pb.packed_mm(a, packed._replace(form=77), device="emulator")}.items():
    with kit.refused(text):
        call()

# Some experts have no rows, and some rows belong to no expert.
ENDS, ROWS = np.array([0, 5, 5, 12], np.int32), 15
TAKEN = np.searchsorted(ENDS, np.arange(ROWS), side="right")  # 4 for none
for case in (("uint4", 72, 200, 64, np.float16), ("int8", 70, 72, 0, np.float32)):
    each = [plain(random, *case) for _ in ENDS]
    w, s, z = (None if x[0] is None else np.stack(x) for x in zip(*(given for given, _ in each)))
    exact = np.stack([numbers for _, numbers in each] + [np.zeros_like(each[0][1])])
    experts = pb.pack_weights(w, s, z, type=case[0], group=case[3])
    k, n = case[2], case[1]
    alone = pb.pack_weights(*each[1][0], type=case[0], group=case[3])
    kit.check(experts.shape == (4, k, n) and np.array_equal(experts.data[1], alone.data), case, "of experts, packed")
    back = pb.unpack_weights(experts)
    kit.check(np.array_equal(back[0], w) and np.array_equal(back[1], s) and (z is None or np.array_equal(back[2], z)), case, "of experts")
    a, bias = random.standard_normal((ROWS, k)).astype(np.float16), random.standard_normal((4, n)).astype(np.float32)
    d = pb.packed_mm(a, experts, bias, offs=ENDS, out_dtype="f32", device="emulator")
    wanted = np.einsum("mk,mnk->mn", a.astype(float), exact[TAKEN]) + np.concatenate([bias, np.zeros((1, n))])[TAKEN]
    kit.check(d.shape == wanted.shape and off(d, wanted) < 1e-5, case, "of experts", off(d, wanted))
    few, rows = a[:6], random.integers(-1, 7, ROWS).astype(np.int32)  # some are rows that A does not have
    d = pb.packed_mm(few, experts, offs=ENDS, a_rows=rows, out_dtype="f32", device="emulator")
    wanted = np.einsum("mk,mnk->mn", reference.gathered(few.astype(float), rows), exact[TAKEN])
    kit.check(d.shape == wanted.shape and off(d, wanted) < 1e-5, case, "of experts, gathered", off(d, wanted))
    d = pb.packed_mm(few, alone, a_rows=rows, out_dtype="f32", device="emulator")
    kit.check(off(d, reference.gathered(few.astype(float), rows) @ exact[1].T) < 1e-5, case, "gathered")
for text, call in {
        "offs: none with weights of shape (4, 72, 70)": lambda: pb.packed_mm(a, experts, device="emulator"),
        "offs: given with weights of shape (200, 72)": lambda: pb.packed_mm(a, packed, offs=ENDS, device="emulator"),
        "A: (2, 15, 72); with weights of experts it must be [m, 72]":
            lambda: pb.packed_mm(np.stack([a, a]), experts, offs=ENDS, device="emulator"),
        "group_ends": lambda: pb.packed_mm(a, experts, offs=ENDS[1:].copy(), device="emulator"),
        "a_rows: (15,) of int64; it must be [m] of int32":
            lambda: pb.packed_mm(a, experts, offs=ENDS, a_rows=np.zeros(15, np.int64), device="emulator"),
        "scales: (3, 70, 1); with groups of 72 values along k they must be (4, 70, 1)": lambda: pb.pack_weights(w, s[1:], type="int8",
                                                                                                                group=0)}.items():
    with kit.refused(text):
        call()

if importlib.util.find_spec("torch"):
    import torch

    def of_torch(type, n, k, group, scales, dtype):
        groups = -(-k // group) if group else 1
        if type == "e4m3":
            w = torch.randn(n, k).to(torch.float8_e4m3fn)
        else:
            w = torch.randint(-8, 8, (n, k), dtype=torch.int8)
        s = torch.randn(n, groups).to(scales)
        by_k = torch.arange(k) // group if group else torch.zeros(k, dtype=torch.long)
        return pb.pack_weights(w, s, type=type, group=group), w, s, w.double() * s.double()[:, by_k], torch.randn(6, k).to(dtype)

    torch.manual_seed(3)
    for case in (("int4", 72, 200, 128, torch.bfloat16, torch.bfloat16), ("e4m3", 64, 136, 64, torch.float32, torch.bfloat16),
                 ("e4m3", 72, 136, 0, torch.float32, torch.float16), ("int4", 40, 72, 32, torch.float16, torch.float16)):
        packed, w, s, exact, a = of_torch(*case)
        back = pb.unpack_weights(packed)
        kit.check(torch.equal(back[0].view(torch.uint8), w.view(torch.uint8)) and torch.equal(back[1], s) and back[2] is None, case)
        bias = torch.randn(case[1]).to(a.dtype)
        wanted = torch.nn.functional.silu(a.double() @ exact.T + bias.double())

        def product(a, packed, bias):
            return pb.packed_mm(a, packed, bias, activation="silu", device="emulator")

        ways = (product, torch.compile(product, fullgraph=True, backend="aot_eager"))
        for way in ways:
            d = way(a, packed, bias)
            error = ((d.double() - wanted).norm() / wanted.norm()).item()
            kit.check(d.dtype == a.dtype and d.shape == wanted.shape and error < 2**-8, case, way, error)
        kit.check(torch.equal(ways[0](a.T.contiguous().T, packed, bias), d), case, "of other strides")
        kit.check(torch.equal(ways[0](a.reshape(2, 3, -1), packed, bias), d.reshape(2, 3, -1)), case, "of batches")
        with torch.autocast("cpu", dtype=a.dtype):
            kit.check(torch.equal(product(a.float(), packed, bias.float()), d), case, "under autocast")
    torch.library.opcheck(torch.ops.ptxbuilder.packed_mm, (a, packed.data, packed.scale_b, case[1], packed.form))
    with torch._subclasses.FakeTensorMode():
        fake = torch.ops.ptxbuilder.packed_mm(torch.empty(2, 7, 72, dtype=torch.float16), torch.empty(1, 10, dtype=torch.uint8), None, 40,
                                              packed.form, None, None, 1.0, 0.0, None, torch.float32)
        kit.check(tuple(fake.shape) == (2, 7, 40) and fake.dtype == torch.float32)
    activations = reference.activations(torch)
    for case, activation in zip((("int4", 72, 200, 32, np.float16), ("uint4", 130, 96, 64, np.float32), ("uint4", 8, 140, 0, np.float32),
                                 ("int8", 40, 264, 128, np.float16), ("int8", 70, 72, 0, np.float32)), activations):
        given, exact = plain(random, *case)
        n, k = case[1:3]
        by_type = pb.pack_weights(*(None if x is None else torch.from_numpy(x) for x in given), type=case[0], group=case[3])
        exact = torch.from_numpy(exact)
        operands = [torch.randn(*shape).bfloat16() for shape in ((2, 3, k), (n,), (2, 3, n))]
        grad = torch.randn(2, 3, n).bfloat16()

        def layer(a, bias, c, by_type=by_type, activation=activation):
            return pb.packed_mm(a, by_type, bias, c, alpha=0.5, beta=2.0, activation=activation, device="emulator")

        wide = [x.double().requires_grad_() for x in operands]
        x = 0.5 * wide[0] @ exact.T + wide[1] + 2 * wide[2]
        wanted = torch.autograd.grad(activations[activation](x), wide, grad.double())
        for way in (layer, torch.compile(layer, fullgraph=True, backend="aot_eager"), torch.func.vjp):
            if way is torch.func.vjp:
                found = torch.func.vjp(layer, *operands)[1](grad)
            else:
                leaves = [x.clone().requires_grad_() for x in operands]
                found = torch.autograd.grad(way(*leaves), leaves, grad)
            for name, got, exactly in zip(("A", "bias", "C"), found, wanted):
                error = ((got.double() - exactly).norm() / exactly.norm()).item()
                kit.check(got.dtype == torch.bfloat16 and error < 2**-6, case, activation, way, "the gradient of", name, error)
        mapped = torch.func.vmap(layer, (0, None, 0))(*operands)
        kit.check(off(mapped.double(), layer(*operands).double().numpy()) < 2**-6, case, "vmap")
        each = torch.func.vmap(layer, (0, 0, None))(operands[0], torch.stack([operands[1]] * 2), operands[2][0])
        one_by_one = layer(operands[0], operands[1], operands[2][:1].expand(2, -1, -1).contiguous())
        kit.check(off(each.double(), one_by_one.double().numpy()) < 2**-6, case, "vmap of a bias of each")
    # Tests experts, called in every way. One additional row has no expert.
    for case, activation in ((("uint4", 72, 200, 64, np.float16), "silu"), (("int4", 40, 72, 0, np.float32), "relu")):
        given = [plain(random, *case) for _ in ENDS]
        n, k = case[1:3]
        w, s, z = (None if x[0] is None else torch.from_numpy(np.stack(x)) for x in zip(*(plain_of for plain_of, _ in given)))
        experts, offs, index = pb.pack_weights(w, s, z, type=case[0], group=case[3]), torch.from_numpy(ENDS), torch.from_numpy(TAKEN)
        exact = torch.from_numpy(np.stack([numbers for _, numbers in given] + [np.zeros((n, k))]))
        operands = [torch.randn(*shape).bfloat16() for shape in ((ROWS, k), (4, n), (ROWS, n))]
        grad = torch.randn(ROWS, n).bfloat16()

        def of_experts(a, bias, c, offs, experts=experts, activation=activation):
            return pb.packed_mm(a, experts, bias, c, alpha=0.5, beta=2.0, activation=activation, device="emulator", offs=offs)

        wide = [x.double().requires_grad_() for x in operands]
        x = 0.5 * torch.einsum("mk,mnk->mn", wide[0], exact[index]) + torch.cat([wide[1], torch.zeros(1, n)])[index] + 2 * wide[2]
        exactly = activations[activation](x)
        wanted = torch.autograd.grad(exactly, wide, grad.double())
        for way in (of_experts, torch.compile(of_experts, fullgraph=True, backend="aot_eager")):
            kit.check(off(way(*operands, offs).double(), exactly.detach().numpy()) < 2**-7, case, way, "experts")
            leaves = [x.clone().requires_grad_() for x in operands]
            found = torch.autograd.grad(way(*leaves, offs), leaves, grad)
            for name, got, exact_grad in zip(("A", "bias", "C"), found, wanted):
                kit.check(off(got.double(), exact_grad.numpy()) < 2**-6, case, way, "the gradient of", name, "of experts")
        few, rows = operands[0][:6], torch.from_numpy(random.integers(-1, 7, ROWS).astype(np.int32))
        taken = torch.from_numpy(reference.gathered(few.double().numpy(), rows.numpy()))
        exactly = torch.einsum("mk,mnk->mn", taken, exact[index])
        of_rows = reference.scattered(rows.numpy(), torch.einsum("mn,mnk->mk", grad.double(), exact[index]).numpy(), len(few))

        def gathered(a, offs, rows, experts=experts):
            return pb.packed_mm(a, experts, offs=offs, a_rows=rows, device="emulator")

        for way in (gathered, torch.compile(gathered, fullgraph=True, backend="aot_eager")):
            kit.check(off(way(few, offs, rows).double(), exactly.numpy()) < 2**-7, case, way, "gathered")
            leaf = few.clone().requires_grad_()
            found, = torch.autograd.grad(way(leaf, offs, rows), leaf, grad)
            kit.check(off(found.double(), of_rows) < 2**-6, case, way, "the gradient of gathered rows")
        with kit.refused("a_rows of packed weights", kind=Exception):
            torch.func.vmap(lambda a: pb.packed_mm(a, packed, a_rows=rows, device="emulator"))(torch.randn(1, 6, packed.shape[0]).bfloat16())
        all_of = (operands[0], experts.data, experts.scale_b, n, experts.form, None, None, 1.0, 0.0, None, None, None, offs)
        torch.library.opcheck(torch.ops.ptxbuilder.packed_mm, all_of)
        with kit.refused("offs of packed weights", kind=Exception):
            torch.func.vmap(lambda a: pb.packed_mm(a, experts, offs=offs, device="emulator"))(operands[0][None])
    for size, weights in ((1e6, torch.randint(-8, 8, (72, 200), dtype=torch.int8)), (1e-6, torch.randn(72, 200).to(torch.float8_e4m3fn))):
        scales = size * (1 + torch.rand(72, 2))  # above and below the range of f16
        by_type = pb.pack_weights(weights, scales, type="e4m3" if weights.dtype.is_floating_point else "int4", group=128)
        w = weights.double() * scales.double().repeat_interleave(128, 1)[:, :200]
        x, grad = torch.randn(5, 200).half().requires_grad_(), torch.randn(5, 72) / size
        found, = torch.autograd.grad(pb.packed_mm(x, by_type, out_dtype="f32", device="emulator"), x, grad)
        kit.check(off(found, (grad.double() @ w).numpy()) < 2**-8, size, "the gradient of f16")
    with kit.refused("packed_mm has no gradient in scale_b"):
        by_column = pb.pack_weights(torch.ones(72, 72, dtype=torch.int8), torch.ones(72))
        pb.packed_mm(a, by_column._replace(scale_b=by_column.scale_b.requires_grad_()), device="emulator")
    for text, call in {"a packed matrix has no gradient in scales":
                           lambda: pb.pack_weights(torch.ones(8, 32, dtype=torch.int8), torch.ones(8).requires_grad_()),
                       "a sparse matrix has no gradient in operand 0": lambda: pb.compress_2_4(torch.zeros(64, 64, requires_grad=True)),
                       "alpha: it is of type Tensor, but must be a number":
                           lambda: pb.packed_mm(a, packed, alpha=torch.tensor(2.0, requires_grad=True), device="emulator"),
                       "scales: it is <class 'numpy.ndarray'>": lambda: pb.pack_weights(torch.ones(8, 32, dtype=torch.int8), np.ones(8)),
                       "out_dtype of torch.float8_e4m3fn":
                           lambda: pb.packed_mm(a.clone().requires_grad_(), packed, out_dtype="e4m3", device="emulator")}.items():
        with kit.refused(text):
            call()
    for text, call in {"its memory is on the CPU": lambda: torch.compile(pb.packed_mm, fullgraph=True, backend="eager")(a, packed),
                       "A's last dimension must be": lambda: ways[1](a[:, :8], packed, bias)}.items():
        with kit.refused(text, kind=Exception):
            call()
    result = torch.zeros(a.shape[0], packed.shape[1], dtype=a.dtype, requires_grad=True)
    with kit.refused("out: a given result has no gradient"):
        pb.packed_mm(a, packed, out=result, device="emulator")
    with torch.autograd.forward_ad.dual_level(), kit.refused("packed_mm has no forward derivative"):
        product(torch.autograd.forward_ad.make_dual(a, a), packed, bias)
    with kit.refused("its data is (2,); it must have 2 dimensions, like that of pack_weights()"):
        product(a, packed._replace(data=torch.zeros(2, dtype=torch.uint8)), bias)
kit.end()

"""Tests attention of numpy arrays on the emulator: masks, widths, layouts and strides compared with float64, and refused calls."""
import kit

kit.use("numpy", "ml_dtypes")
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

import ptxbuilder as pb  # noqa: E402
import reference  # noqa: E402

random = np.random.default_rng(11)
BF16 = ml_dtypes.bfloat16


def drawn(*shape, dtype=BF16):
    return random.standard_normal(shape).astype(dtype)


def wide(x):
    return np.asarray(x).astype(np.float64)


def check(got, expected, bound, *words):
    got = wide(got)
    if kit.check(got.shape == expected.shape, *words, got.shape, expected.shape):
        with np.errstate(invalid="ignore"):
            error = np.where(got == expected, 0, abs(got - expected))  # equal elements may be -inf
        kit.check(np.all(error <= bound), *words, f"off by {error.max() if error.size else 0:.2e}, more than {bound:.2e}")


for case in reference.CASES:
    for dtype in (BF16, np.float16):
        q, k, v = (drawn(*shape, dtype=dtype) for shape in reference.shapes(case))
        words = case[-1]
        o, lse = pb.attention(q, k, v, return_lse=True, device="emulator", **words)
        expected, expected_lse = reference.attention(wide(q), wide(k), wide(v), **words)
        kit.check(o.dtype == dtype and lse.dtype == np.float32)
        check(o, expected, 2**-6 if dtype == BF16 else 2**-9, case)
        check(lse, expected_lse, 1e-4, case)
        kit.check(np.array_equal(pb.attention(q, k, v, device="emulator", **words), o), case)

# Tests strides: a layer's single tensor that holds Q, K and V, steps, negative strides, and columns that are not adjacent.
qkv = drawn(2, 40, 3, 2, 64)
q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
expected, _ = reference.attention(wide(q), wide(k), wide(v))
for x, y, z in ((q, k, v), (q[::-1][::-1], k, v), (np.ascontiguousarray(q.swapaxes(1, 3)).swapaxes(1, 3), k, v),
                (q, np.ascontiguousarray(k), np.asfortranarray(v))):
    check(pb.attention(x, y, z, device="emulator"), expected, 2**-6, x.strides)
check(pb.attention(q[:, ::2], k[:, ::-1], v[:, ::-1], device="emulator"), expected[:, ::2], 2**-6)
out = np.full((2, 40, 2, 70), 7, BF16)
pb.attention(q, k, v, out=out[..., :64], device="emulator")
check(out[..., :64], expected, 2**-6)
kit.check(np.all(out[..., 64:] == 7))

# Tests packed sequences, each of which must equal a separate call. One of them is empty.
lengths, key_lengths = [20, 1, 0, 33], [20, 9, 5, 40]
offsets, key_offsets = (np.cumsum([0] + x, dtype=np.int32) for x in (lengths, key_lengths))
q, k, v = drawn(54, 4, 64), drawn(74, 2, 64), drawn(74, 2, 64)
packed = dict(query_offsets=offsets, key_offsets=key_offsets, max_queries=33, max_keys=40)
o, lse = pb.attention(q, k, v, causal=True, return_lse=True, device="emulator", **packed)
kit.check(lse.shape == (4, 54))
for i in range(4):
    rows, keys = slice(*offsets[i:i + 2]), slice(*key_offsets[i:i + 2])
    expected, expected_lse = reference.attention(wide(q[rows])[None], wide(k[keys])[None], wide(v[keys])[None], causal=True)
    check(o[rows], expected[0], 2**-6, i)
    check(lse[:, rows], expected_lse[0], 1e-4, i)

# Tests Q, K and V of e4m3. Weights are rounded to e4m3, each by up to 2^-4, and not all in the same direction.
E4M3 = ml_dtypes.float8_e4m3fn
for scales, words in (None, {"causal": True}), ((0.5,), {"window": (20, 3)}), ((0.5, 3.0), {"promote": 32}), ((2.0, 0.7), {"softcap": 3.0}):
    q, k, v = drawn(2, 40, 4, 64, dtype=E4M3), drawn(2, 56, 2, 64, dtype=E4M3), drawn(2, 56, 2, 64, dtype=E4M3)
    by = np.ones(1, np.float32) if scales is None else np.array(scales, np.float32)
    given = {} if scales is None else dict(q_scale=by[::-1].copy(), k_scale=by, v_scale=by + 1)
    factors = (1, 1, 1) if scales is None else (np.repeat(by[::-1], 4 // len(by))[:, None], by[:, None], by[:, None] + 1)
    q_exact, k_exact, v_exact = (wide(x) * factor for x, factor in zip((q, k, v), factors))
    expected, expected_lse = reference.attention(q_exact, k_exact, v_exact, **{name: x for name, x in words.items() if name != "promote"})
    o, lse = pb.attention(q, k, v, return_lse=True, device="emulator", **words, **given)
    kit.check(o.dtype == BF16)
    check(o / np.max(factors[2]), expected / np.max(factors[2]), 2**-4, "e4m3", scales)
    check(lse, expected_lse, 1e-3, "e4m3", scales)
    out = np.empty(q.shape, np.float16)
    kit.check(pb.attention(q, k, v, out=out, device="emulator", **words, **given) is out, "e4m3 into f16")
    check(out, wide(o), 2**-6 * np.max(abs(expected)), "e4m3 into f16", scales)
by = np.ones(1, np.float32)
for words, text in ((dict(k=drawn(2, 56, 2, 64)), "all must have one type, except that K and V, or Q, K and V, may be e4m3"),
                    (dict(q_scale=-by, k_scale=by, v_scale=by), "q_scale: -1.0; a scale must be at least 0"),
                    (dict(q_scale=by), "q_scale is given, but not k_scale"),
                    (dict(k_scale=by, v_scale=by), "k_scale and v_scale are given, but not q_scale"),
                    (dict(q_scale=by[:0], k_scale=by, v_scale=by), "q_scale: it is [0] of f32, but must be float32, [1] or [2]"),
                    (dict(q=drawn(2, 40, 4, 64), q_scale=by, k_scale=by, v_scale=by), "q_scale is given, but Q is bf16"),
                    (dict(q=drawn(2, 40, 4, 64), promote=32), "promote = 32, but Q is bf16"),
                    (dict(promote=-5), "promote = -5; it must be 0 to"),
                    (dict(promote=1.5), "promote: 1.5; it must be a number of keys"),
                    (dict(key_lengths=np.full(2, 9, np.int32)), "lengths of keys are not supported with Q of"),
                    (dict(out=np.empty(q.shape, np.float32)), "O is f32, but must be f16 or bf16")):
    with kit.refused(text):
        pb.attention(**{"q": q, "k": k, "v": v, "device": "emulator", **words})
pb.warm_up("attention", [((1, 64, 2, 64), (1, 64, 1, 64))], "e4m3", "emulator", causal=True, promote=256)

q, k, v = drawn(2, 16, 4, 64), drawn(2, 24, 2, 64), drawn(2, 24, 2, 64)
for words, text in ((dict(q=q[0]), "Q and V: their shapes are (16, 4, 64) and (2, 24, 2, 64)"), (dict(k=k[:, :23]), "V: [2, 24, 2, 64]"),
                    (dict(k=drawn(2, 24, 3, 64), v=drawn(2, 24, 3, 64)), "heads"),
                    (dict(k=k.astype(np.float16)), "K: its type is f16, but Q's is bf16"),
                    (dict(layout="bsdh"), "layout 'bsdh' is not one of"), (dict(scale=0.0), "scale: 0.0; it must be above 0"),
                    (dict(softcap=-1.0), "softcap"), (dict(query_offsets=offsets), "packed sequences need all of"),
                    (dict(layout="bhsd", **packed), "packed sequences must be"), (dict(device=None), "Q: its memory is on the CPU"),
                    (dict(window=((1, 0), 0)), "window: ((1, 0), 0); it must be two integers"), (dict(window=(True, 0)), "window: (True, "
                                                                                                              "0)"),
                    (dict(k=None), "K: it is <class 'NoneType'>, but"),
                    (dict(v=v.tolist()), "V: it is <class 'list'>, but the other tensors are numpy's"),
                    (dict(out=q), "O overlaps"), (dict(out=np.broadcast_to(q[:1], q.shape)), "O: it is read-only"),
                    (dict(q=q.astype(np.float32)), "f32"),
                    (dict(sinks=np.zeros(3, np.float32)), "sinks: it is [3] of f32, but must be float32, [4]"),
                    (dict(sinks=[0, 0, 0, 0]), "sinks: it is <class 'list'>, but"), (dict(dropout="x"), "dropout: 'x' is a str"),
                    (dict(dropout=1.0, dropout_seed=1), "dropout = 1; it must be at least 0 and less than 1"),
                    (dict(dropout=0.5), "dropout_seed is None, but"),
                    (dict(dropout=0.5, dropout_seed=-1), "dropout_seed: -1; it must be a number"),
                    (dict(dropout=0.5, dropout_seed=np.zeros(4, np.int64)), "dropout_seed: it is [4] of s64")):
    with kit.refused(text):
        pb.attention(**{"q": q, "k": k, "v": v, "device": "emulator", **words})
# The share of dropped weights, and the share of neighbours that agree, must be within five deviations of independent draws.
mask = pb.dropout_mask((1 << 40, 3), 2, 4, 200, 300, 0.3)
independent = 0.3**2 + 0.7**2
for agree, expected in ((~mask, 0.3), *((mask[tuple(np.s_[a:] if axis == i else np.s_[:] for i in range(4))]
                                         == mask[tuple(np.s_[:-a] if axis == i else np.s_[:] for i in range(4))], independent)
                                        for axis in range(4) for a in (1, 8)[:1 + (axis > 1)])):
    kit.check(abs(agree.mean() - expected) < 5 * (expected * (1 - expected) / agree.size)**0.5, agree.mean(), expected)
kit.check(np.array_equal(mask[:1, :2, :20, :30], pb.dropout_mask([0, 256, 3, 0], 1, 2, 20, 30, 0.3)))
pb.warm_up("attention", [((1, 64, 2, 64),) * 2], "bf16", "emulator", sinks=True, dropout=0.1)
pb.warm_up("attention", [((1, 64, 2, 64), (1, 64, 1, 64)), ((1, 64, 2, 64), (1, 64, 1, 64), (1, 64, 1, 32))], "bf16", "emulator",
           causal=True, return_lse=True)
for shape in ((64, 64, 64), (64,), ((1, 64, 2, 64),)):
    with kit.refused("for attention it must be (Q's, K's and V's)"):
        pb.warm_up("attention", [shape], "bf16", device="emulator")
kit.end()

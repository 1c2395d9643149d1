"""Tests operations on rows: numpy arrays on the emulator against float64, random widths and types, and refused calls. With PyTorch and
JAX, it also tests gradients, compiled and not: rows_test.py [FRAMEWORK]."""
import subprocess
import sys

import kit

FRAMEWORK = sys.argv[1] if len(sys.argv) > 1 else "numpy"
kit.use(*{"numpy": ("numpy", "ml_dtypes"), "torch": ("torch", "numpy"), "jax": ("jax", "numpy")}[FRAMEWORK])
import numpy as np  # noqa: E402

import ptxbuilder as pb  # noqa: E402

random = np.random.default_rng()


def exp(x):
    return np.exp(x - x.max(-1, keepdims=True))


def norm(x, weight, bias, epsilon, mean):
    apart = x - mean * x.mean(-1, keepdims=True)
    return apart / np.sqrt((apart * apart).mean(-1, keepdims=True) + epsilon) * weight + bias


EXACT = {
    "rms_norm": lambda x, w: norm(x, w, 0, 1e-6, 0),
    "layer_norm": lambda x, w, b: norm(x, w, b, 1e-5, 1),
    "softmax": lambda x: exp(x) / exp(x).sum(-1, keepdims=True),
    "cross_entropy": lambda x, t: np.log(exp(x).sum(-1)) + x.max(-1) - np.take_along_axis(x, t[..., None], -1)[..., 0],
}


def inputs_of(name, shape, dtype):
    x = random.standard_normal(shape).astype(dtype)
    if name == "cross_entropy":
        return x, random.integers(0, shape[-1], shape[:-1])
    count = {"rms_norm": 1, "layer_norm": 2}.get(name, 0)
    return x, *(random.standard_normal(shape[-1]).astype(dtype) for _ in range(count))


def wide(x):
    return np.asarray(x).astype(np.float64) if np.asarray(x).dtype.kind != "i" else np.asarray(x)


def check(got, exact, dtype, *words):
    if kit.check(got.shape == exact.shape, *words, got.shape, exact.shape):
        error = np.linalg.norm(wide(got) - exact) / max(np.linalg.norm(exact), 1e-30)
        kit.check(error <= (3e-6 if dtype == np.float32 else 4e-3), *words, f"off by {error:.2e}")


def of_quantisation():
    """Checks that a product of quantised matrices is exact except for the error of 8 bits, and that scales have the form that products
    need."""
    import ml_dtypes

    x, w = (random.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((2, 35, 272), (96, 272)))
    q, scale = pb.quantize_1x128(x, device="emulator")
    kit.check(q.shape == x.shape and q.dtype == ml_dtypes.float8_e4m3fn and scale.shape == (3, 70), "quantize_1x128", q.shape, scale.shape)
    back = wide(q).reshape(70, 272) * np.repeat(scale.T, 128, 1)[:, :272]
    kit.check(np.abs(back - wide(x).reshape(70, 272)).max() <= np.abs(wide(x)).max() / 28, "quantize_1x128 there and back")
    of_w, scale_w = pb.quantize_1x128(w, device="emulator")
    y = pb.matmul(q.reshape(70, 272), of_w, transpose_b=True, scale_a_1x128=scale, scale_b_1x128=scale_w, out_dtype="float32",
                  device="emulator")
    exact = wide(x).reshape(70, 272) @ wide(w).T
    kit.check(np.linalg.norm(y - exact) <= 0.04 * np.linalg.norm(exact), "a product of what was quantised")
    turned, scale_t = pb.quantize_128x1(w, device="emulator")
    right, scale_r = pb.quantize_1x128(np.ascontiguousarray(w.T), device="emulator")
    kit.check((wide(turned) == wide(right)).all() and (scale_t == scale_r).all(), "quantize_128x1")
    q2, scale_2 = pb.quantize_1x128(x, power_of_two=True, device="emulator")
    kit.check((np.log2(scale_2) % 1 == 0).all() and (scale_2 >= scale).all() and (scale_2 < 2 * scale).all(), "powers of two")
    small = scale_2.astype(ml_dtypes.float8_e8m0fnu).T  # this type can represent all of them
    y2, y3 = (pb.scaled_mm(q2.reshape(70, 272), of_w.T, of_x, "BlockWise1x128", scale_w.T, "BlockWise1x128", output_dtype="float32",
                           device="emulator") for of_x in (small, scale_2.T))
    kit.check((y2 == y3).all(), "scales of float8_e8m0fnu")
    kit.check(np.abs(wide(q2)).max() <= 448 and np.linalg.norm(wide(q2).reshape(70, 272) * np.repeat(scale_2.T, 128, 1)[:, :272] -
                                                                wide(x).reshape(70, 272)) <= 0.04 * np.linalg.norm(wide(x)), "by them")
    gated, scale_g = pb.quantize_1x128(x, silu_gate=True, device="emulator")
    a, b = wide(x)[..., :136], wide(x)[..., 136:]
    back = wide(gated) * np.repeat(scale_g.T, 128, 1)[:, :136].reshape(2, 35, 136)
    kit.check(np.linalg.norm(back - a / (1 + np.exp(-a)) * b) <= 0.04 * np.linalg.norm(back), "silu_gate")
    zero, scale_z = pb.quantize_1x128(np.zeros((1, 4), np.float32), device="emulator")
    kit.check((wide(zero) == 0).all() and (scale_z > 0).all(), "a block of zeros", scale_z)
    odd = np.array([[1, np.inf, np.nan, 2]], np.float32)
    kit.check(np.isnan(wide(pb.quantize_1x128(odd, device="emulator")[0])[0, 1:3]).all(), "what is not a number")
    with kit.refused("quantize_1x128: 3 columns; their number must be even"):
        pb.quantize_1x128(odd[:, :3], silu_gate=True, device="emulator")
    with kit.refused("quantize_128x1: x must be a matrix, but has 3 dimensions"):
        pb.quantize_128x1(x, device="emulator")


def turned(x, cos, sin):
    """Returns x [.., heads, columns] in float64, rotated by angles [.., columns / 2]."""
    (a, b), cos, sin = np.split(wide(x), 2, -1), wide(cos)[..., None, :], wide(sin)[..., None, :]
    return np.concatenate((a * cos - b * sin, b * cos + a * sin), -1)


def tokens(dtype, layout, index, count=20, heads=3, columns=16, pages=6, rows=5, positions=40):
    """Returns (k, v, two caches of NaN, slots, cos, sin, positions). Three tokens have no slot, and no two tokens share one."""
    shape = (pages, rows, heads, columns) if layout == "NHD" else (pages, heads, rows, columns)
    k, v = random.standard_normal((2, count, heads, columns)).astype(dtype)
    slots = random.permutation(pages * rows)[:count].astype(index)
    slots[random.permutation(count)[:3]] = -1, pages * rows, np.iinfo(index).max
    return (k, v, *(np.full(shape, np.nan, dtype) for _ in range(2)), slots, *random.standard_normal((2, positions, columns // 2)).astype(dtype),
            random.integers(0, positions, count).astype(random.choice([np.int32, np.int64])))


def check_cache(got, x, slots, layout, dtype, *words):
    """Checks that a cache holds `x` in its slots, and NaN elsewhere."""
    got = np.asarray(got) if layout == "NHD" else np.asarray(got).swapaxes(1, 2)
    got = wide(got).reshape(-1, *x.shape[1:])
    kept = (slots >= 0) & (slots < len(got))
    check(got[slots[kept]], wide(x)[kept], dtype, *words)
    others = np.ones(len(got), bool)
    others[slots[kept]] = False
    kit.check(np.isnan(got[others]).all(), *words, "rows of other slots were written")


def of_append():
    import ml_dtypes

    for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
        for layout, index in (("NHD", np.int32), ("HND", np.int64)):
            k, v, k_cache, v_cache, slots, cos, sin, positions = tokens(dtype, layout, index, columns=int(random.choice([8, 10, 64])))
            given = random.random() < 0.6
            found = pb.append(k, v, k_cache, v_cache, slots, *((cos, sin, positions) if given else ()), cache_layout=layout, device="emulator")
            kit.check(found[0] is k_cache and found[1] is v_cache, "append gives its caches")
            words = ("append", np.dtype(dtype).name, layout, given)
            check_cache(k_cache, turned(k, cos[positions], sin[positions]) if given else k, slots, layout, dtype, *words)
            check_cache(v_cache, v, slots, layout, np.float32, *words)
            # The two caches are interleaved: by page, by row, or by head.
            for axis in (1, 2, 3):
                both = np.full((*k_cache.shape[:axis], 2, *k_cache.shape[axis:]), np.nan, dtype)
                of_k, of_v = np.moveaxis(both, axis, 0)
                pb.append(k, v, of_k, of_v, slots, cache_layout=layout, device="emulator")
                check_cache(of_k, k, slots, layout, dtype, axis, *words)
                check_cache(of_v, v, slots, layout, dtype, axis, *words)
    right = k, v, k_cache, v_cache, slots, cos, sin, positions = tokens(np.float32, "NHD", np.int32)

    def refused(words, device="emulator", **others):
        names = ("k", "v", "k_cache", "v_cache", "slot_mapping", "cos", "sin", "positions")
        with kit.refused(words):
            pb.append(**{**dict(zip(names, right)), **others}, device=device)

    refused("append: k_cache must be [page, row, heads, columns] with k's 16 columns, but is (6, 5, 48)", k_cache=k_cache.reshape(6, 5, 48))
    refused("append: v_cache must be [page, heads, row, columns] with k's 16 columns", v_cache=v_cache[..., :8], cache_layout="HND")
    refused("append: k_cache has gaps between its columns: make them adjacent", k_cache=np.zeros((6, 5, 3, 32), np.float32)[..., ::2])
    repeated = np.lib.stride_tricks.as_strided(k_cache, k_cache.shape, (0, *k_cache.strides[1:]))
    refused("append: k_cache of f32: the page stride is 0 elements, but must be at least the 16 of a row", k_cache=repeated)
    refused("append: v is of type list, but must be a tensor", v=v.tolist())
    refused("append: k_cache is of type NoneType, but must be a tensor", k_cache=None)
    refused("append: k must be [tokens, heads, columns] with an even number of columns, but is (20, 3, 15)", k=k[..., :15])
    refused("append: v must have the shape [rows, heads, halves, columns], but is [19, 3, 2, 8]: an earlier tensor has 20 rows",
            v=v[:19])
    refused("append: k_cache must have the shape [pages, heads, page_rows, halves, columns], but is [6, 2, 5, 2, 8]: an earlier tensor has 3 heads",
            k_cache=np.zeros((6, 5, 2, 16), np.float32))
    refused("append: sin is not given, but cos is: they must be given together", sin=None)
    refused("append: position is given, but cos is not", cos=None, sin=None)
    refused("append: slots is f32; its type must be s32 or s64", slot_mapping=slots.astype(np.float32))
    refused("append: v_cache is f16; its type must be that of k, f32, or e4m3", v_cache=v_cache.astype(np.float16))
    refused("append: k_cache overlaps v_cache", v_cache=k_cache)
    refused("cache_layout 'NDH' is not one of", cache_layout="NDH")
    refused('pass device="emulator"', device=None)
    k_cache.flags.writeable = False
    refused("it is read-only")


def of_numpy():
    import ml_dtypes

    for name, exact in EXACT.items():
        for _ in range(4):
            dtype = random.choice([np.float32, np.float16, ml_dtypes.bfloat16])
            shape = (int(random.integers(1, 40)), int(2**random.uniform(1, 12)))
            if random.random() < 0.3:
                shape = (2, *shape)
            inputs = inputs_of(name, shape, dtype)
            of_loss = np.float32 if name == "cross_entropy" else dtype
            check(getattr(pb, name)(*inputs, device="emulator"), exact(*map(wide, inputs)), of_loss, name, shape, dtype)
    x, w = inputs_of("rms_norm", (6, 64), np.float32)
    check(pb.rms_norm(x[::2, ::2], w[:32], device="emulator"), EXACT["rms_norm"](wide(x[::2, ::2]), w[:32]), np.float32, "gaps")
    check(pb.softmax(x[0], device="emulator"), EXACT["softmax"](wide(x[:1]))[0], np.float32, "one row")
    kit.check(pb.softmax(x[:0], device="emulator").shape == (0, 64), "no row")
    t = np.array([3, -100, 64, 63, 0, -1])
    loss = pb.cross_entropy(x, t, device="emulator")
    kit.check(loss[1] == loss[5] == 0 and np.isnan(loss[2]) and not np.isnan(loss[3]), "targets that are no column", loss)
    angles = random.standard_normal((2, 5, 8)).astype(np.float32)
    heads = random.standard_normal((3, 5, 2, 16)).astype(np.float32)
    first, second, (cos, sin) = heads[..., :8], heads[..., 8:], angles[:, :, None]
    check(pb.rotary(heads, *angles, device="emulator"),
          wide(np.concatenate((first * cos - second * sin, second * cos + first * sin), -1)), np.float32, "rotary")
    check(pb.cumsum(x, device="emulator"), wide(x).cumsum(-1), np.float32, "cumsum")
    rows = pb.embedding(np.array([[5, 0], [6, -1]]), x, device="emulator")
    kit.check((rows[0] == x[[5, 0]]).all() and np.isnan(rows[1]).all(), "embedding")
    kit.check((pb.transpose(x, device="emulator") == x.T).all(), "transpose")
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((6, 64), (64, 32)))
    scaled = pb.matmul(a, (w[:, None] * b).astype(np.float16), scale_a=pb.rms_scale(a, device="emulator")[:, None], device="emulator")
    check(scaled, EXACT["rms_norm"](wide(a), wide(w)) @ wide(b), np.float16, "rms_scale")
    of_quantisation()
    of_append()
    of_mla_append()
    values, columns = pb.top_k(x, 3, device="emulator")
    order = np.argsort(-x, 1, kind="stable")[:, :3]
    kit.check((columns == order).all() and (values == np.take_along_axis(x, order, 1)).all(), "top_k")
    with kit.refused("top_k: k is 65, but must be at most the 64 columns"):
        pb.top_k(x, 65, device="emulator")
    with kit.refused("k: 0; it must be an integer above 0"):
        pb.top_k(x, 0, device="emulator")
    with kit.refused("rotary: cos must be [positions, columns / 2] = (5, 8), but is (4, 8)"):
        pb.rotary(heads, *angles[:, :4], device="emulator")
    with kit.refused("transpose: y must have the shape [columns, rows]"):
        pb.transpose(heads, device="emulator")
    with kit.refused("embedding: index is f32; its type must be s32 or s64"):
        pb.embedding(x[0], x, device="emulator")
    with kit.refused("rms_norm: weight must have the shape [columns], but is [50]: an earlier tensor has 64 columns"):
        pb.rms_norm(x, w[:50], device="emulator")
    with kit.refused("layer_norm: weight must have the shape [columns], but is [1, 64]"):
        pb.layer_norm(x, w[None], device="emulator")
    with kit.refused("softmax: x is f64; its type must be f16, bf16 or f32"):
        pb.softmax(x.astype(np.float64), device="emulator")
    with kit.refused("cross_entropy: target is f32; its type must be s32 or s64"):
        pb.cross_entropy(x, t.astype(np.float32), device="emulator")
    with kit.refused("cross_entropy: target must have the shape [rows], but is [5]: an earlier tensor has 6 rows"):
        pb.cross_entropy(x, t[:5], device="emulator")
    with kit.refused("softmax: rows of 300000 columns; they must have 1 to 262144"):
        pb.softmax(np.zeros((1, 300000), np.float16), device="emulator")
    with kit.refused("epsilon: 'small'"):
        pb.rms_norm(x, epsilon="small", device="emulator")
    with kit.refused('pass device="emulator"'):
        pb.softmax(x)
    for framework in ("torch", "jax"):  # each with a Python that has the framework
        done = subprocess.run([sys.executable, *sys.argv, framework], capture_output=True, text=True)
        print(done.stdout, done.stderr if done.returncode else "", end="")
        kit.check(done.returncode in (0, 77), framework)


def latent_tokens(dtype=np.float32):
    """Returns the arguments of mla_append() for a cache of zeros, with slots for some tokens, and the expected cache after the call."""
    import ml_dtypes

    latent, rotary = random.standard_normal((20, 512)).astype(dtype), random.standard_normal((20, 64)).astype(dtype)
    latent[3, 128:256] = 0  # a block whose greatest magnitude is 0
    slots = random.permutation(6 * 5)[:20].astype(np.int32)
    slots[:2] = -1, 30
    blocks = latent.astype(np.float32).reshape(20, 4, 128)
    scales = np.maximum(np.abs(blocks).max(-1), np.float32(2**-100)) * np.float32(1 / 448)
    values = (blocks * (1 / scales)[..., None]).astype(ml_dtypes.float8_e4m3fn).reshape(20, 512)
    cache, kept = np.zeros((6, 5, 656), np.uint8), slice(2, None)
    expected = cache.copy().reshape(30, 656)
    expected[slots[kept]] = np.concatenate([x.view(np.uint8) for x in (values, scales, rotary.astype(ml_dtypes.bfloat16))], 1)[kept]
    return latent, rotary, cache, slots, expected.reshape(cache.shape)


def of_mla_append():
    import ml_dtypes

    for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
        latent, rotary, cache, slots, expected = latent_tokens(dtype)
        kit.check(pb.mla_append(latent, rotary, cache, slots, device="emulator") is cache, "mla_append gives its cache")
        kit.check(np.array_equal(cache, expected), "mla_append", np.dtype(dtype).name)
        gaps = np.zeros((6, 2, 5, 1, 672), np.uint8)
        pb.mla_append(latent, rotary, gaps[:, 1, :, :, :656], slots, device="emulator")
        kit.check(np.array_equal(gaps[:, 1, :, 0, :656], expected) and gaps.sum() == gaps[:, 1, :, :, :656].sum(), "mla_append with gaps")
    right = dict(kv_c=latent, k_pe=rotary, kv_cache=cache, slot_mapping=slots)
    for words, text in ((dict(kv_c=latent[:, :256]), "latent must have the shape [rows, columns], but is [20, 256]: there must be 512"),
                        (dict(k_pe=rotary[:, :32]), "rotary must have the shape [rows, rotary_columns], but is [20, 32]: there must be 64"),
                        (dict(kv_cache=cache[..., :576]), "kv_cache must have the shape [pages, page_rows, row_bytes], but is [6, 5, 576]"),
                        (dict(kv_cache=cache[0]), "kv_cache must be [page, row, bytes], but has the shape (5, 656)"),
                        (dict(kv_cache=cache.view(np.int8)), "kv_cache is s8; its type must be u8"),
                        (dict(kv_cache=gaps[:, 0, :, 0, 8:664]), "kv_cache has rows that do not begin at multiples of 16 bytes"),
                        (dict(k_pe=None), "k_pe is of type NoneType, but must be a tensor")):
        with kit.refused(f"mla_append: {text}"):
            pb.mla_append(**{**right, **words}, device="emulator")


def append_of_torch():
    import torch

    def step(k, v, k_cache, v_cache, *others):
        pb.append(k * 2, v, k_cache, v_cache, *others, device="emulator")
        return k_cache.nan_to_num().sum()  # this reads what was written

    for compiled in (False, True):
        given = [torch.from_numpy(x) for x in tokens(np.float32, "NHD", np.int64)]
        k, v, k_cache, v_cache, slots, cos, sin, positions = given
        version = k_cache._version
        total = (torch.compile(step, fullgraph=True, backend="aot_eager") if compiled else step)(*given)
        check_cache(k_cache, turned(k * 2, cos[positions], sin[positions]), slots.numpy(), "NHD", np.float32, "append", compiled)
        check_cache(v_cache, v.numpy(), slots.numpy(), "NHD", np.float32, "append", compiled)
        kit.check(k_cache._version > version and torch.equal(total, k_cache.nan_to_num().sum()), "PyTorch learns what append writes")
        *given, expected = latent_tokens()
        given = [torch.from_numpy(x) for x in given]
        call = torch.compile(pb.mla_append, fullgraph=True, backend="aot_eager") if compiled else pb.mla_append
        found = call(*given, device="emulator")
        kit.check(np.array_equal(found.numpy(), expected) and np.array_equal(given[2].numpy(), expected), "mla_append", compiled)
    with kit.refused("append has no gradient, but an argument requires one"):
        pb.append(k.requires_grad_(), v, k_cache, v_cache, slots, device="emulator")
    with torch.no_grad():
        pb.append(k, v, k_cache, v_cache, slots, device="emulator")
        both = torch.full((k_cache.shape[0], 2, *k_cache.shape[1:]), torch.nan)
        for call in (pb.append, torch.compile(pb.append, fullgraph=True, backend="aot_eager")):
            call(k.detach(), v, both[:, 0], both[:, 1], slots, device="emulator")
            check_cache(both[:, 0], k.detach().numpy(), slots.numpy(), "NHD", np.float32, "append with gaps")
            check_cache(both[:, 1], v.numpy(), slots.numpy(), "NHD", np.float32, "append with gaps")
            both.fill_(torch.nan)
    with kit.refused("append is not supported under torch.func"):
        torch.func.vmap(lambda k: pb.append(k, v, k_cache, v_cache, slots, device="emulator"))(k.detach()[None])


def of_torch():
    import torch

    F = torch.nn.functional
    theirs = {"rms_norm": lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6),
              "layer_norm": lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
              "softmax": lambda x: x.softmax(-1), "cross_entropy": lambda x, t: F.cross_entropy(x, t, reduction="none")}
    for name, exact in theirs.items():
        for compiled in (False, True):
            def ours(*inputs):
                return getattr(pb, name)(*inputs, device="emulator")

            given = [torch.from_numpy(x) for x in inputs_of(name, (5, int(random.integers(2, 300))), np.float32)]
            near = [x.clone().requires_grad_() if x.is_floating_point() else x for x in given]
            far = [x.double().requires_grad_() if x.is_floating_point() else x for x in given]
            got = (torch.compile(ours, fullgraph=True, backend="aot_eager") if compiled else ours)(*near)
            right = exact(*far)
            grad = torch.randn_like(right)
            check(got.detach(), right.detach().numpy(), np.float32, name, compiled)
            for a, b in zip(torch.autograd.grad(got, [x for x in near if x.requires_grad], grad.float()),
                            torch.autograd.grad(right, [x for x in far if x.requires_grad], grad)):
                check(a, b.numpy(), np.float32, name, compiled, "gradient")
    x = torch.randn(3, 8, requires_grad=True)
    kit.check(torch.autograd.grad(pb.rms_norm(x, torch.ones(8), device="emulator").sum(), x)[0].shape == x.shape, "no gradient of weight")
    with kit.refused('device="emulator"'):
        pb.softmax(x)
    heads, (cos, sin) = torch.randn(5, 2, 16, requires_grad=True), torch.randn(2, 5, 8)
    turned = pb.rotary(heads, cos, sin, device="emulator")
    back, = torch.autograd.grad(turned, heads, turned)  # rotates forward and backward
    longer = heads.detach().view(5, 2, 2, 8) * (cos**2 + sin**2)[:, None, None]
    check(back, longer.reshape(heads.shape).double().numpy(), np.float32, "rotary")
    with torch.no_grad():
        values, columns = torch.compile(lambda x: pb.top_k(x, 2, device="emulator"), fullgraph=True, backend="aot_eager")(x)
        kit.check(torch.equal(values, x.topk(2)[0]) and torch.equal(columns.long(), x.topk(2)[1]), "top_k")
        x8 = torch.randn(3, 200, dtype=torch.bfloat16)
        q, scale = torch.compile(lambda x: pb.quantize_1x128(x, device="emulator"), fullgraph=True, backend="aot_eager")(x8)
        kit.check(q.dtype == torch.float8_e4m3fn and torch.allclose(scale[1], x8[:, 128:].float().abs().amax(1) / 448), "quantize_1x128")
    append_of_torch()
    with kit.refused("cumsum has no gradient"):
        pb.cumsum(x, device="emulator")


def of_jax():
    import jax
    import jax.numpy as jnp

    theirs = {"rms_norm": lambda x, w: x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w, "softmax": jax.nn.softmax,
              "cross_entropy": lambda x, t: jax.nn.logsumexp(x, -1) - jnp.take_along_axis(x, t[:, None], -1)[:, 0]}
    for name, exact in theirs.items():
        inputs = tuple(jnp.asarray(x) for x in inputs_of(name, (5, 60), np.float32))
        of = tuple(i for i, x in enumerate(inputs) if x.dtype == jnp.float32)
        check(getattr(pb, name)(*inputs), wide(exact(*inputs)), np.float32, name)
        for a, b in zip(*(jax.jit(jax.grad(lambda *given: (f(*given)**2).sum(), of))(*inputs) for f in (getattr(pb, name), exact))):
            check(a, wide(b), np.float32, name, "gradient")
    x = jnp.asarray(random.standard_normal((4, 20)).astype(np.float32))
    kit.check(all((a == b).all() for a, b in zip(pb.top_k(x, 3), jax.lax.top_k(x, 3))), "top_k")
    *given, expected = latent_tokens()
    kit.check(np.array_equal(pb.mla_append(*map(jnp.asarray, given)), expected), "mla_append of JAX")
    for layout in ("NHD", "HND"):
        given = k, v, k_cache, _, slots, cos, sin, positions = tokens(np.float32, layout, np.int32)
        call = jax.jit(lambda *given: pb.append(*given, cache_layout=layout), donate_argnums=(2, 3))
        arrays = [jnp.asarray(x) for x in given]
        of_k, of_v = pb.append(*arrays[:5], cache_layout=layout)
        kit.check(bool(jnp.isnan(arrays[2]).all()), "append of JAX gives new caches")
        check_cache(of_k, k, slots, layout, np.float32, "append", layout)
        of_k, of_v = call(*arrays)
        check_cache(of_k, turned(k, cos[positions], sin[positions]), slots, layout, np.float32, "append", layout, "turned")
        check_cache(of_v, v, slots, layout, np.float32, "append", layout)


{"numpy": of_numpy, "torch": of_torch, "jax": of_jax}[FRAMEWORK]()
kit.end()

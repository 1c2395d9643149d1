"""Tests decode() with numpy arrays on the emulator. Results for contiguous and paged caches are compared with float64. Also tests refused
calls."""
import kit

kit.use("numpy", "ml_dtypes")
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

import ptxbuilder as pb  # noqa: E402
import reference  # noqa: E402

random = np.random.default_rng(12)
BF16 = ml_dtypes.bfloat16


def check(got, expected, bound, *words):
    got = np.asarray(got).astype(np.float64)
    if kit.check(got.shape == expected.shape, *words, got.shape, expected.shape):
        error = abs(got - expected)
        kit.check(np.all(error <= bound), *words, f"off by {error.max():.2e}, more than {bound:.2e}")


for page in (0, 1, 5, 16, 40):
    for queries, words in ((1, {}), (3, {"sinks": np.array([0.5, -1, 2, 0], np.float32)}), (2, {"softcap": 4.0}), (5, {"window": 20})):
        c = reference.Caches(random, queries, page)
        q, k, v = (x.astype(BF16) for x in (c.q, c.k, c.v))
        exact = dict(words, window=(words["window"], 0)) if "window" in words else words
        expected, expected_lse = reference.decoded(*(x.astype(np.float64) for x in (q, k, v)), c.lengths, c.table, **exact)
        o, lse = pb.decode(q, k, v, c.lengths, c.table, return_lse=True, device="emulator", **words)
        check(o, expected, 2**-6, page, queries, words)
        check(lse, expected_lse, 1e-4, page, queries, words)
        if queries > 1:
            continue
        for layout in ("NHD", "HND"):  # one query, without the dimension of queries
            caches = (k, v) if layout == "NHD" else (np.ascontiguousarray(x.swapaxes(1, 2)) for x in (k, v))
            out = np.empty_like(q[:, 0])
            found = pb.decode(q[:, 0], *caches, c.lengths, c.table, cache_layout=layout, out=out, device="emulator")
            kit.check(found is out and np.array_equal(out, o[:, 0]), page, layout)
        if c.table is not None:  # the table may be a part of a larger table, and its rows may share memory
            wide = np.full((c.table.shape[0], c.table.shape[1] + 5), -1, np.int32)
            wide[:, 2:-3] = c.table
            found = pb.decode(q[:, 0], k, v, c.lengths, wide[:, 2:-3], device="emulator")
            kit.check(np.array_equal(found, o[:, 0]), page, "a part of a table")
            shared = np.broadcast_to(c.table[:1], c.table.shape)
            alike = pb.decode(q[:, 0], k, v, c.lengths, np.ascontiguousarray(shared), device="emulator")
            found = pb.decode(q[:, 0], k, v, c.lengths, shared, device="emulator")
            kit.check(np.array_equal(found, alike), page, "one row for all")

E4M3 = ml_dtypes.float8_e4m3fn
for page, queries, layout, scales in ((16, 1, "NHD", (0.5, 3.0)), (16, 2, "HND", (0.02,)), (0, 3, "NHD", None)):
    c = reference.Caches(random, queries, page)
    q = c.q.astype(BF16)
    by = np.ones(1, np.float32) if scales is None else np.array(scales, np.float32)
    k, v = ((x / by[:, None]).astype(E4M3) for x in (c.k, c.v))
    exact = (x.astype(np.float64) * by[:, None] for x in (k, v))
    expected, expected_lse = reference.decoded(q.astype(np.float64), *exact, c.lengths, c.table)
    caches = (k, v) if layout == "NHD" else (np.ascontiguousarray(x.swapaxes(1, 2)) for x in (k, v))
    words = {} if scales is None else dict(k_scale=by, v_scale=by)
    o, lse = pb.decode(q, *caches, c.lengths, c.table, return_lse=True, cache_layout=layout, device="emulator", **words)
    check(o, expected, 2**-6 * max(1, abs(expected).max()), "e4m3", page, scales)
    check(lse, expected_lse, 1e-4, "e4m3", page, scales)

# Tests scales of pages, with one number for a page or one for each head. append() divides by them, and decode() multiplies by them before
# it rounds to q's type.
for page, layout, of_page in ((16, "NHD", 2), (16, "HND", 1), (5, "NHD", 2)):
    c = reference.Caches(random, 2, page)
    q, k, v = (x.astype(BF16) for x in (c.q, c.k, c.v))
    count = k.shape[0]
    by = [random.uniform(0.02, 0.5, (count, of_page)).astype(np.float32) for _ in range(2)]
    caches = [np.full(x.shape, np.nan, E4M3) for x in (k, v)]
    slots = np.array([table[key // page] * page + key % page for table, most in zip(c.table, c.lengths) for key in range(most)], np.int32)
    new = [x.reshape(-1, *x.shape[2:])[slots] for x in (k, v)]
    if layout == "HND":
        caches = [np.ascontiguousarray(x.swapaxes(1, 2)) for x in caches]
    pb.append(*new, *caches, slots, k_scale=by[0], v_scale=by[1], cache_layout=layout, device="emulator")
    o = pb.decode(q, *caches, c.lengths, c.table, k_scale=by[0], v_scale=by[1], cache_layout=layout, device="emulator")
    kept = [x if layout == "NHD" else x.swapaxes(1, 2) for x in caches]
    held = [(x.astype(np.float32) / y[:, None, :, None]).astype(E4M3) for x, y in zip((k, v), by)]
    kit.check(all(np.array_equal(x.view(np.uint8).reshape(-1, 2, 64)[slots], y.view(np.uint8).reshape(-1, 2, 64)[slots])
                  for x, y in zip(kept, held)), "append by scales of pages", page, layout)
    exact = ((x.astype(np.float32) * y[:, None, :, None]).astype(BF16).astype(np.float64) for x, y in zip(kept, by))
    check(o, reference.decoded(q.astype(np.float64), *exact, c.lengths, c.table)[0], 2**-6, "scales of pages", page, layout)
    for words, text in ((dict(k_scale=by[0][:-1], v_scale=by[1]), f"k_scale: it is [{count - 1},{of_page}] of f32, but must be float32"),
                        (dict(k_scale=by[0], v_scale=by[1][0]), f"v_scale: it is [{of_page}] of f32, but must be float32")):
        with kit.refused(text):
            pb.decode(q, *caches, c.lengths, c.table, cache_layout=layout, device="emulator", **words)

# Tests mixed batches: a whole prompt, one query, no query, and a part of a prompt.
counts = [100, 1, 5]
offsets = np.cumsum([0, *counts], dtype=np.int32)
for page, layout, is_e4m3 in ((0, "NHD", False), (16, "HND", False), (5, "NHD", True), (16, "NHD", True)):
    c = reference.Caches(random, 100, page)
    by = np.array([0.5, 2.0], np.float32)
    q, sinks = c.q.astype(BF16), np.array([0.5, -1, 2, 0], np.float32)
    k, v = (x.astype(E4M3 if is_e4m3 else BF16) for x in (c.k, c.v))
    exact = (x.astype(np.float64) * (by[:, None] if is_e4m3 else 1) for x in (k, v))
    expected, expected_lse = reference.decoded(q.astype(np.float64), *exact, c.lengths, c.table, sinks=sinks)  # queries of the last keys
    caches = (k, v) if layout == "NHD" else (np.ascontiguousarray(x.swapaxes(1, 2)) for x in (k, v))
    packed = np.concatenate([q[b, 100 - count:] for b, count in enumerate(counts)])
    o, lse = pb.decode(packed, *caches, c.lengths, c.table, query_offsets=offsets, max_queries=100, sinks=sinks, cache_layout=layout,
                       return_lse=True, device="emulator", **(dict(k_scale=by, v_scale=by) if is_e4m3 else {}))
    check(o, np.concatenate([expected[b, 100 - count:] for b, count in enumerate(counts)]), 2**-5, "mixed", page, layout)
    check(lse, np.concatenate([expected_lse[b, :, 100 - count:] for b, count in enumerate(counts)], 1), 1e-4, "lse of mixed", page, layout)
for words, text in ((dict(q=q), "q: 4 dimensions; with query_offsets it must be"),
                    (dict(max_queries=None), "packed queries over caches need"),
                    (dict(max_queries=99), "query_offsets: a sequence has 100 rows, but max_queries is 99"),
                    (dict(query_offsets=offsets[:-1]), "but must be [2] of int32 or uint32, without gaps, one fewer than query_offsets"),
                    (dict(query_offsets=offsets + 1), "query_offsets: [1, 101, 102, 107]; they must begin at 0"),
                    (dict(query_offsets=None), "max_queries and max_keys need packed sequences"),
                    (dict(query_offsets=offsets.astype(np.float32)), "query_offsets: it is [4] of f32, but must have")):
    with kit.refused(text):
        pb.decode(**{"q": packed, "k_cache": k, "v_cache": v, "seq_lens": c.lengths, "block_table": c.table, "query_offsets": offsets,
                     "max_queries": 100, "device": "emulator", **words})
with kit.refused("packed queries over caches need query_offsets, max_queries and key_lengths, but no key_offsets"):
    pb.attention(packed, k, v, query_offsets=offsets, key_offsets=offsets, max_queries=100, key_lengths=c.lengths, device="emulator")

# Tests trees of tokens. In one sequence, each query sees itself and its ancestors, and the parent of token i is (i - 1) // 2.
ancestors = np.zeros(9, np.int32)
for i in range(9):
    ancestors[i] = 1 << i | (ancestors[(i - 1) // 2] if i else 0)
masks = np.stack([ancestors, ancestors[::-1], random.integers(0, 1 << 9, 9)]).astype(np.int32)
for page, layout, words in ((0, "NHD", {}), (16, "HND", {"window": 20}), (5, "NHD", {"softcap": 4.0})):
    c = reference.Caches(random, 9, page)  # 100, 7 and 33 keys
    q, k, v = (x.astype(BF16) for x in (c.q, c.k, c.v))
    exact = dict(words, window=(words["window"], -1)) if "window" in words else words
    expected, expected_lse = reference.decoded(*(x.astype(np.float64) for x in (q, k, v)), c.lengths, c.table, masks, **exact)
    caches = (k, v) if layout == "NHD" else (np.ascontiguousarray(x.swapaxes(1, 2)) for x in (k, v))
    o, lse = pb.decode(q, *caches, c.lengths, c.table, tree_mask=masks, return_lse=True, cache_layout=layout, device="emulator", **words)
    check(o, expected, 2**-6, "tree", page)
    check(np.where(np.isinf(lse), 0, lse), np.where(np.isinf(expected_lse), 0, expected_lse), 1e-4, "lse of a tree", page)
    kit.check(np.array_equal(np.isinf(lse), np.isinf(expected_lse)), "queries that see nothing", page)
    packed = q.reshape(-1, *q.shape[2:])
    found = pb.decode(packed, k, v, c.lengths, c.table, query_offsets=np.array([0, 9, 18, 27], np.int32), max_queries=9,
                      tree_mask=masks.reshape(-1).view(np.uint32), device="emulator", **words)
    check(found, expected.reshape(found.shape), 2**-6, "tree of packed queries", page)
for words, text in ((dict(tree_mask=masks[:2]), "tree_mask: it is [2,9] of s32, but must be int32 or uint32, [3, 9], without gaps"),
                    (dict(tree_mask=np.repeat(masks, 2, 1)[:, ::2]), "tree_mask: it is [3,9] of s32, but must be"),
                    (dict(tree_mask=masks.astype(np.int64)), "tree_mask: it is [3,9] of s64, but must be"),
                    (dict(q=np.zeros((3, 33, 4, 64), BF16), tree_mask=np.zeros((3, 33), np.int32)),
                     "tree_mask is given with 33 queries of a sequence, but there must be at most 32")):
    with kit.refused(text):
        pb.decode(**{"q": q, "k_cache": k, "v_cache": v, "seq_lens": c.lengths, "block_table": c.table, "device": "emulator", **words})

# Tests that a scale of 0 makes scores or values 0.
for page, k_scale, v_scale in ((16, 0.0, 1.0), (0, 0.0, 0.5), (5, 1.0, 0.0)):
    c = reference.Caches(random, 2, page)
    q, k, v = c.q.astype(BF16), c.k.astype(E4M3), c.v.astype(E4M3)
    scales = np.array([[k_scale], [v_scale]], np.float32)
    exact = k.astype(np.float64) * k_scale, v.astype(np.float64) * v_scale
    expected, expected_lse = reference.decoded(q.astype(np.float64), *exact, c.lengths, c.table)
    o, lse = pb.decode(q, k, v, c.lengths, c.table, k_scale=scales[0], v_scale=scales[1], return_lse=True, device="emulator")
    check(o, expected, 2**-6, "a scale of 0", page)
    check(lse, expected_lse, 1e-4, "a scale of 0", page)

# Tests that a sequence has at most max_seq_len keys, even if it has more pages.
c = reference.Caches(random, 1, 5)
q, k, v = (x.astype(BF16) for x in (c.q, c.k, c.v))
for most in (1, 23, c.lengths.max() - 1, c.lengths.max()):
    expected, _ = reference.decoded(*(x.astype(np.float64) for x in (q, k, v)), np.minimum(c.lengths, most), c.table)
    check(pb.decode(q, k, v, c.lengths, c.table, max_seq_len=int(most), device="emulator"), expected, 2**-6, "max_seq_len", most)

# Checks that decode() multiplies by the scales that append() has divided by.
tokens, rows, by = 20, 8, np.array([0.3, 0.7], np.float32)
k, v = random.standard_normal((2, tokens, 2, 32)).astype(BF16)
caches = pb.append(k, v, *(np.zeros((4, rows, 2, 32), E4M3) for _ in range(2)), np.arange(tokens, dtype=np.int32) + rows, k_scale=by,
                   v_scale=by, device="emulator")
q, lengths, table = random.standard_normal((1, 4, 32)).astype(BF16), np.array([tokens], np.int32), np.array([[1, 2, 3]], np.int32)
o = pb.decode(q, *caches, lengths, table, k_scale=by, v_scale=by, device="emulator")
exact = (((x.astype(np.float32) / by[:, None]).astype(E4M3).astype(np.float64) * by[:, None])[None] for x in (k, v))
check(o, reference.decoded(q[:, None].astype(np.float64), *exact, lengths, None)[0][:, 0], 2**-6, "append and decode")

c = reference.Caches(random, 1, 16)
q, k, v = (x.astype(BF16) for x in (c.q[:, 0], c.k, c.v))
for words, text in ((dict(seq_lens=None), "seq_lens is None"),
                    (dict(block_table=c.table[:2]), "block_table: it is [2,7] of s32, but must be int32"),
                    (dict(block_table=c.table.astype(np.int64)), "block_table: it is [3,7] of s64"),
                    (dict(seq_lens=c.lengths[:2]), "seq_lens: it is [2]"),
                    (dict(q=q[0]), "q: 2 dimensions"), (dict(cache_layout="NDH"), "cache_layout 'NDH' is not one of"),
                    (dict(max_seq_len=500), "max_seq_len = 500, but the 7 pages of 16 rows of a batch hold only 112"),
                    (dict(block_table=None, max_seq_len=5), "max_seq_len needs a block_table"),
                    (dict(max_seq_len=0), "max_seq_len: 0 is not a positive number"),
                    (dict(k_scale=by, v_scale=by), "k_scale is given, but K is bf16; K must be e4m3"),
                    (dict(k_cache=k.astype(E4M3), v_cache=v.astype(E4M3), k_scale=by), "k_scale is given, but not v_scale"),
                    (dict(k_cache=k.astype(E4M3), v_cache=v.astype(E4M3), k_scale=by[:0]), "k_scale: it is [0] of f32, but must be"),
                    (dict(k_cache=k.astype(E4M3)), "K: its type is e4m3, but Q's is bf16"),
                    (dict(k_cache=k.astype(E4M3), v_cache=v.astype(E4M3), k_scale=-by, v_scale=by), "k_scale: -0.699"),
                    (dict(k_cache=k.astype(E4M3), v_cache=v.astype(E4M3), k_scale=by, v_scale=-by), "v_scale: -0.699"),
                    (dict(window=(3, 0)), "window: (3, 0); it must be a number of keys"), (dict(window=True), "window: True; it must be"),
                    (dict(window=2.0), "window: 2.0; it must be"), (dict(window=-2), "window: -2; it must be"),
                    (dict(q=[1.0]), "q: <class 'list'> is not a tensor"),
                    (dict(v_cache=None), "v_cache: <class 'NoneType'> is not a tensor"),
                    (dict(out=[1.0]), "out: <class 'list'> is not a tensor"), (dict(block_table=[[1]]), "block_table: <class 'list'>"),
                    (dict(sinks=[1.0]), "sinks: it is <class 'list'>, but"),
                    (dict(seq_lens=[1, 2, 3]), "seq_lens: <class 'list'> is not a tensor"),
                    (dict(seq_lens=np.repeat(c.lengths, 2)[::2]),
                     "seq_lens: it is [3] of int32, but must be [3] of int32 or uint32, without gaps"),
                    (dict(seq_lens=c.lengths.astype(np.int64)), "seq_lens: it is [3] of int64, but must be [3]")):
    with kit.refused(text):
        pb.decode(**{"q": q, "k_cache": k, "v_cache": v, "seq_lens": c.lengths, "block_table": c.table, "device": "emulator", **words})
kit.check(pb.decode(q[:0], k, v, c.lengths[:0], c.table[:0], device="emulator").shape == (0, *q.shape[1:]), "no sequences")

# Tests caches whose rows are keys, with the values in their first columns.
masks = masks[:, :3].copy()
for page, queries, words in ((0, 1, {}), (16, 2, {}), (64, 3, {"window": 20}), (16, 3, {"tree_mask": masks})):
    c = reference.Caches(random, queries, page, columns=320, heads=6, key_heads=1)
    q, kv = c.q.astype(BF16), c.k.astype(BF16)
    exact = dict(words, window=(words["window"], 0)) if "window" in words else words
    keys = kv.astype(np.float64)
    expected, expected_lse = reference.decoded(q.astype(np.float64), keys, keys[..., :256], c.lengths, c.table, scale=0.1, **exact)
    o, lse = pb.mla_decode(q, kv[:, :, 0], c.lengths, c.table, scale=0.1, return_lse=True, device="emulator", **words)
    check(o, expected, 2**-6, "mla", page, queries, words)
    check(lse, expected_lse, 1e-4, "mla", page, queries, words)
    if queries == 1:  # without the dimension of queries, and with a single head
        out = np.empty_like(o[:, 0])
        found = pb.mla_decode(q[:, 0], kv, c.lengths, c.table, scale=0.1, out=out, device="emulator")
        kit.check(found is out and np.array_equal(out, o[:, 0]), "mla", page)
# Tests rows with 8 bits for each value.
for page, words in ((0, {}), (16, {"window": 20})):
    c = reference.Caches(random, 2, page, columns=576, heads=6, key_heads=1)
    rows, keys = reference.byte_rows(random, c.k)
    exact = dict(words, window=(words["window"], 0)) if "window" in words else words
    expected, expected_lse = reference.decoded(c.q.astype(BF16).astype(np.float64), keys, keys[..., :512], c.lengths, c.table, scale=0.1,
                                               **exact)
    o, lse = pb.mla_decode(c.q.astype(BF16), rows[:, :, 0], c.lengths, c.table, scale=0.1, return_lse=True, device="emulator", **words)
    check(o, expected, 2**-6, "mla of bytes", page)
    check(lse, expected_lse, 1e-4, "lse of mla of bytes", page)
# Checks that mla_decode() reads what mla_append() has stored.
tokens = 40
new = random.standard_normal((tokens, 576)).astype(BF16)
cache, slots = np.zeros((4, 16, 656), np.uint8), np.arange(tokens, dtype=np.int32) + 16
pb.mla_append(new[:, :512], new[:, 512:], cache, slots, device="emulator")
one = random.standard_normal((1, 6, 576)).astype(BF16)
o = pb.mla_decode(one, cache, np.array([tokens], np.int32), np.array([[1, 2, 3]], np.int32), scale=0.05, device="emulator")
keys = new.astype(np.float64)[None, :, None]
expected, _ = reference.decoded(one[:, None].astype(np.float64), keys, keys[..., :512], np.array([tokens]), None, scale=0.05)
kit.check(np.linalg.norm(o - expected[:, 0]) < 0.04 * np.linalg.norm(expected), "mla_append and mla_decode")
in_bytes = dict(kv_cache=rows, q=c.q.astype(BF16), seq_lens=c.lengths, block_table=c.table)
for words, text in ((dict(scale=None), "scale is None: pass the value"),
                    (dict(q=q[..., :256]), "kv_cache and q: they have 320 and 256 columns"),
                    (in_bytes | dict(q=q), "kv_cache and q: they have 656 and 320 columns"),
                    (in_bytes | dict(kv_cache=rows[..., :576]), "K: 576 columns of u8; keys whose first columns are their values are"),
                    (in_bytes | dict(q=c.q.astype(np.float16)), "over rows of 656 bytes, but such rows are for bf16 and 576 columns"),
                    (dict(kv_cache=kv[..., :192], q=q[..., :192]), "kv_cache and q: they have 192 and 192 columns"),
                    (dict(kv_cache=np.concatenate([kv, kv], 2)), "kv_cache: its shape is"), (dict(seq_lens=None), "seq_lens is None"),
                    (dict(kv_cache=kv.astype(E4M3)), "K: 320 columns of e4m3; keys whose first columns are their values are"),
                    (dict(q=q[0, 0]), "q: 2 dimensions"),
                    (dict(kv_cache=kv[:, :12]), "pages have 12 rows with values that are the first columns of keys"),
                    (dict(max_seq_len=5, block_table=None), "max_seq_len needs a block_table: without one, kv_cache")):
    with kit.refused(text):
        pb.mla_decode(**{"q": q, "kv_cache": kv, "seq_lens": c.lengths, "block_table": c.table, "scale": 1.0, "device": "emulator",
                         **words})
with kit.refused("V is None"):
    pb.attention(q, kv, None, device="emulator")
kit.check(pb.mla_decode(q[:0], kv, c.lengths[:0], c.table[:0], scale=1.0, device="emulator").shape == (0, 3, 6, 256), "no sequences")

kit.end()

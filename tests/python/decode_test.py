"""decode() of numpy's arrays, on the emulator: caches in one piece and in pages, against float64, and what is refused."""
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


for page in (0, 16, 40):
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
        for layout in ("NHD", "HND"):  # one query without its dimension
            caches = (k, v) if layout == "NHD" else (np.ascontiguousarray(x.swapaxes(1, 2)) for x in (k, v))
            out = np.empty_like(q[:, 0])
            found = pb.decode(q[:, 0], *caches, c.lengths, c.table, cache_layout=layout, out=out, device="emulator")
            kit.check(found is out and np.array_equal(out, o[:, 0]), page, layout)

c = reference.Caches(random, 1, 16)
q, k, v = (x.astype(BF16) for x in (c.q[:, 0], c.k, c.v))
for words, text in ((dict(seq_lens=None), "seq_lens: None"), (dict(block_table=c.table[:2]), "block_table: [2,7] of s32; it is of int32"),
                    (dict(block_table=c.table.astype(np.int64)), "block_table: [3,7] of s64"), (dict(seq_lens=c.lengths[:2]), "key_lengths: [2]"),
                    (dict(q=q[0]), "q: 2 dimensions"), (dict(cache_layout="NDH"), "cache_layout 'NDH' is none of"),
                    (dict(max_seq_len=500), "keys = 500, and 7 pages of 16 rows of a batch, which hold 112"),
                    (dict(block_table=None, max_seq_len=5), "max_seq_len is of pages"),
                    (dict(k_cache=k[:, :12], v_cache=v[:, :12]), "pages of 12 rows; a multiple of 8"),
                    (dict(seq_lens=[1, 2, 3]), "key_lengths: <class 'list'> beside")):
    with kit.refused(text):
        pb.decode(**{"q": q, "k_cache": k, "v_cache": v, "seq_lens": c.lengths, "block_table": c.table, "device": "emulator", **words})

kit.end()

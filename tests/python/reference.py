"""Attention in float64, which all frameworks are held against."""
import numpy as np


def attention(q, k, v, causal=False, scale=None, window=None, softcap=0.0, layout="bshd", top_left=False):
    """O and lse of numpy's arrays of float64, as ptxbuilder.attention gives them; written from its definition."""
    if layout == "bshd":
        q, k, v = (np.swapaxes(x, 1, 2) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ np.swapaxes(k, -1, -2) * (scale or 1 / q.shape[-1]**0.5)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    queries, keys = scores.shape[-2:]
    middle = np.arange(queries)[:, None] + (0 if top_left else keys - queries)
    left, right = window or (-1, -1)
    right = 0 if causal else right
    key = np.arange(keys)[None]
    is_seen = np.ones((queries, keys), bool)
    is_seen &= True if left < 0 else key >= middle - left
    is_seen &= True if right < 0 else key <= middle + right
    scores = np.where(is_seen, scores, -np.inf)
    top = np.maximum(scores.max(-1, keepdims=True, initial=-np.inf), np.finfo(float).min)
    weights = np.exp(scores - top)
    sums = weights.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.log(sums) + top)[..., 0]
    o = np.where(sums > 0, weights @ v / np.where(sums > 0, sums, 1), 0)
    return np.swapaxes(o, 1, 2) if layout == "bshd" else o, lse


# What it is asked for: heads, key heads, columns, value columns, queries, keys, and words.
CASES = [(2, 2, 64, 64, 40, 40, {}), (4, 2, 64, 32, 33, 50, {"causal": True}), (2, 1, 128, 128, 17, 90, {"window": (20, 0)}),
         (2, 2, 24, 24, 30, 30, {"causal": True, "top_left": True, "scale": 0.3}), (1, 1, 64, 64, 1, 70, {"softcap": 5.0}),
         (2, 2, 64, 64, 50, 20, {"causal": True}), (3, 1, 40, 40, 20, 30, {"window": (3, 4), "layout": "bhsd"}),
         (2, 1, 64, 64, 0, 8, {}), (2, 2, 64, 64, 8, 0, {})]


def shapes(case, batch=2):
    """Those of Q, K and V."""
    heads, key_heads, columns, value_columns, queries, keys, words = case
    lay = (lambda rows, of, across: (batch, of, rows, across)) if words.get("layout") == "bhsd" else \
        (lambda rows, of, across: (batch, rows, of, across))
    return lay(queries, heads, columns), lay(keys, key_heads, columns), lay(keys, key_heads, value_columns)

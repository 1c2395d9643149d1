"""Holds helpers that the tests of packed weights share: random weights, and the numbers that they represent."""
import numpy as np


def plain(random, type, n, k, group, scales):
    """Returns (w, scales, zeros) of an integer type, and the numbers that they represent."""
    groups = -(-k // group) if group else 1
    low, high = {"int4": (-8, 8), "uint4": (0, 16), "int8": (-128, 128)}[type]
    w = random.integers(low, high, (n, k)).astype(np.uint8 if type == "uint4" else np.int8)
    s = random.standard_normal((n, groups)).astype(scales)
    z = random.integers(0, 16, (n, groups)).astype(np.uint8) if type == "uint4" else None
    by_k = np.arange(k) // group if group else np.zeros(k, int)
    return (w, s, z), (w.astype(float) - (0.0 if z is None else z[:, by_k])) * s.astype(float)[:, by_k]

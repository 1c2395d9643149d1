"""Writes x.bin and w.bin, fresh N(0, 1) data for rms_norm.json, and the expected result y.bin, computed in float64."""

import array
import json
import random

with open("rms_norm.json") as file:
    launch = json.load(file)
columns, rows = launch["buffers"][0]["shape"]
eps = launch["parameters"][3]["value"]
x = array.array("f", (random.gauss(0, 1) for _ in range(rows * columns)))
w = array.array("f", (random.gauss(0, 1) for _ in range(columns)))
y = array.array("f")
for r in range(rows):
    row = x[r * columns:(r + 1) * columns]
    norm = (sum(v * v for v in row) / columns + eps) ** 0.5
    y.extend(v * weight / norm for v, weight in zip(row, w))
for name, values in ("x", x), ("w", w), ("y", y):
    with open(name + ".bin", "wb") as file:
        values.tofile(file)

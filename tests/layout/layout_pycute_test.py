"""Compares `ptxb layout --batch` with pycute, NVIDIA's Python model of CuTe's layouts, on random layouts.

  layout_pycute_test.py PTXB [FOLDER] [SEED]   FOLDER holds the wheel nvidia_cutlass-*.whl that scripts/setup downloads

If pycute and CuTe C++ differ, C++ is right: FIXED lists such cases with the results of C++, and the random cases omit them.
"""

import glob
import json
import random
import subprocess
import sys

LEAST_COMPARED = 400
ROUNDS = 1000

# Known defects of pycute: composition keeps the modes beyond a short tiler; right_inverse stops at stride 0, at gaps and at overlapping
# strides; tiled_divide unpacks a remainder of one mode; logical_product by an integer divides; modes of size 1 keep a stride. If a tile
# extends beyond the end of a layout, pycute silently drops elements, whereas C++ rounds up or refuses. All results are those of CuTe C++
# (include/cute/layout.hpp).
FIXED = {
    "composition((4,8):(1,4), <2>)": ([2], [1]),
    "composition((4,8,2):(1,4,32), <2:2,4>)": ([2, 4], [2, 4]),
    "composition((4,8):(1,4), (2,4))": ([2, 4], [1, 4]),
    "right_inverse((4,8):(0,1))": (8, 4),
    "right_inverse((2,4,3):(1,0,2))": ([2, 3], [1, 8]),
    "right_inverse((4,3,2):(1,2,4))": ([4, 2], [1, 12]),
    "tiled_divide((16):(1), <4>)": ([[4], [4]], [[1], [4]]),
    "logical_product(4:1, 2)": ([4, 2], [1, 4]),
    "logical_product((2,2):(1,2), <2,2>)": ([[2, 2], [2, 2]], [[1, 2], [2, 1]]),
    "composition(1:1, 1:1)": (1, 1),
    "composition((4,8):(1,4), 1:3)": (1, 3),
    "make_layout((4,1,8))": ([4, 1, 8], [1, 0, 4]),
    "complement((2,2):(1,6), 24)": ([3, 2], [2, 12]),
    "logical_divide(1:3, (3):(1))": ([[3], 1], [[3], 0]),
    "logical_divide(10:1, 4:1)": ([4, 3], [1, 4]),
    "logical_divide((4,6):(1,8), 3:1)": ([3, [2, 6]], [1, [3, 8]]),
    "left_inverse(4:2)": ([2, 4], [0, 1]),
    "left_inverse((2,4):(8,1))": ([8, 2], [2, 1]),
}


def skip(why):
    print("SKIPPED: " + why)
    sys.exit(77)  # ctest marks a test with this exit code as skipped


def load_pycute(folder):
    for wheel in sorted(glob.glob(folder + "/nvidia_cutlass-*.whl")):
        sys.path.insert(0, wheel)  # Python can import from wheels, since they are zip files
    try:
        import pycute
    except ImportError:
        skip("pycute is missing; scripts/setup gets it from the wheel nvidia-cutlass of PyPI")
    return pycute


def text(value, pycute):
    if value is None:
        return "_"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, pycute.Layout):
        return text(value.shape, pycute) + ":" + text(value.stride, pycute)
    brackets = "<>" if any(not isinstance(v, (int, tuple)) for v in value) else "()"
    return brackets[0] + ",".join(text(v, pycute) for v in value) + brackets[1]


def normal(shape, stride):
    """Returns lists with stride 0 for modes of size 1, whose stride has no meaning."""
    if isinstance(shape, (tuple, list)):
        pairs = [normal(s, d) for s, d in zip(shape, stride)]
        return [p[0] for p in pairs], [p[1] for p in pairs]
    return (shape, 0 if shape == 1 else stride)


class Cases:
    def __init__(self, pycute, seed):
        self.pycute, self.random = pycute, random.Random(seed)

    def shape(self, deepest=2):
        if deepest == 0 or self.random.random() < 0.4:
            return self.random.choice([1, 2, 2, 3, 4, 4, 6, 8])
        return tuple(self.shape(deepest - 1) for _ in range(self.random.randint(1, 3)))

    def small_shape(self, deepest=2):
        while True:
            shape = self.shape(deepest)
            if self.pycute.product(shape) <= 512:
                return shape

    def layout(self, gaps=True, deepest=2):
        """Returns an injective layout: compact in a random order of modes, perhaps with gaps."""
        shape = self.small_shape(deepest)
        flat = self.pycute.flatten(shape)
        strides, current = [0] * len(flat), 1
        for i in self.random.sample(range(len(flat)), len(flat)):
            if gaps and self.random.random() < 0.3:
                current *= self.random.choice([2, 3])
            strides[i] = current
            current *= flat[i]
        rest = iter(strides)
        fill = lambda s: tuple(fill(x) for x in s) if isinstance(s, tuple) else next(rest)
        return self.pycute.Layout(shape, fill(shape))

    def tiler(self, layout):
        """Returns a tiler for each mode. pycute's products accept no integers, so layouts represent integers."""
        one = lambda: self.random.choice([None, self.pycute.Layout(2, 1), self.pycute.Layout(4, 1), self.pycute.Layout(2, 2)])
        return tuple(one() for _ in range(len(layout)))

    def fits(self, layout, tiler):
        """Returns whether no tile extends beyond the end of its layout, and no mode of size 1 begins there; C++ refuses both."""
        if isinstance(tiler, tuple):
            return all(t is None or self.fits(layout[i], t) for i, t in enumerate(tiler))
        p, size = self.pycute, self.pycute.size(layout)
        modes = zip(p.flatten((tiler.shape,)), p.flatten((tiler.stride,)))
        return p.cosize(tiler) <= size and all(d < size for s, d in modes if s == 1)

    def whole(self, result, *sizes):
        """Returns whether pycute's result contains all elements."""
        expected = 1
        for value in sizes:
            for v in value if isinstance(value, tuple) else (value,):
                expected *= 1 if v is None else self.pycute.size(v)
        assert self.pycute.size(result) == expected
        return result

    def case(self):
        """Returns an expression and pycute's result for it."""
        p, layout = self.pycute, self.layout()
        name = self.random.choice("coalesce filter composition composition by_mode complement right_inverse left_inverse logical_divide "
                                  "zipped_divide tiled_divide logical_product zipped_product tiled_product crd2idx "
                                  "idx2crd size cosize slice".split())
        t = lambda *values: ", ".join(text(v, p) for v in values)
        if name in ("coalesce", "filter", "size", "cosize"):
            if name in ("coalesce", "filter"):  # with strides of 0 too
                zero = lambda d: tuple(zero(x) for x in d) if isinstance(d, tuple) else (d if self.random.random() < 0.7 else 0)
                layout = p.Layout(layout.shape, zero(layout.stride))
            return f"{name}({t(layout)})", getattr(p, name)(layout)
        if name == "right_inverse":
            layout = self.layout(gaps=self.random.random() < 0.3)
            return f"right_inverse({t(layout)})", p.right_inverse(layout)
        if name == "left_inverse":
            return f"left_inverse({t(layout)})", layout
        if name == "complement":
            n = p.cosize(layout) * self.random.randint(1, 3)
            return f"complement({t(layout)}, {n})", p.complement(layout, n)
        if name == "composition":
            other = self.layout(deepest=1)
            assert self.fits(layout, other)
            return f"composition({t(layout, other)})", self.whole(p.composition(layout, other), other)
        if name == "crd2idx" or name == "idx2crd":
            i = self.random.randrange(p.size(layout))
            c = p.idx2crd(i, layout.shape)
            if name == "idx2crd":
                return f"idx2crd({i}, {t(layout.shape)})", c
            return f"crd2idx({t(c, layout.shape, layout.stride)})", p.crd2idx(c, layout.shape, layout.stride)
        if name == "slice":
            cut = lambda s: None if self.random.random() < 0.5 else self.random.randrange(p.product(s))
            c = tuple(cut(layout[i].shape) for i in range(len(layout)))
            assert isinstance(layout.shape, tuple) and p.has_none(c)
            return f"slice({t(c).replace('(', '<').replace(')', '>')}, {t(layout)})", layout(*c) if len(c) > 1 else layout(c)
        if name == "by_mode":
            tiler = tuple(x or p.Layout(1, 0) for x in self.tiler(layout))
            assert isinstance(layout.shape, tuple) and self.fits(layout, tiler)
            return f"composition({t(layout, tiler)})", self.whole(p.composition(layout, tiler), tiler)
        tiler = self.layout(deepest=1) if self.random.random() < 0.5 else self.tiler(layout)
        assert isinstance(tiler, p.Layout) or isinstance(layout.shape, tuple)
        if name.endswith("divide"):
            assert self.fits(layout, tiler)
            result = self.whole(getattr(p, name)(layout, tiler), layout)
        else:
            result = self.whole(getattr(p, name)(layout, tiler), layout, tiler)
        if name.startswith("tiled"):
            zipped = getattr(p, name.replace("tiled", "zipped"))(layout, tiler)
            assert not (isinstance(zipped.shape[1], tuple) and len(zipped.shape[1]) == 1)
        return f"{name}({t(layout, tiler)})", result


def run(ptxb, expressions):
    done = subprocess.run([ptxb, "layout", "--batch"], input="\n".join(expressions) + "\n", text=True, capture_output=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(expressions), f"{len(lines)} lines for {len(expressions)} expressions"
    return lines


def to_lists(value):
    return [to_lists(v) for v in value] if isinstance(value, tuple) else value


def main():
    ptxb, folder = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    pycute = load_pycute(folder)
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 32)
    print("seed", seed)
    cases, refused, maker = [], 0, Cases(pycute, seed)
    while len(cases) < ROUNDS:
        try:
            cases.append(maker.case())
        except AssertionError:  # pycute raises this for layouts that it cannot divide
            refused += 1
    problems, compared, names = [], 0, set()
    for (expression, expected), got in zip(cases, run(ptxb, [c[0] for c in cases])):
        name = expression[:expression.index("(")]
        if "error" in got:
            right = False
            # A left inverse exists only if strides divide each other.
            if name == "left_inverse" and "must be a multiple" in got["error"]:
                continue
        elif name == "left_inverse":
            inverse = lambda i: sum_of(got, i, pycute)
            right = all(expected(inverse(expected(i))) == expected(i) for i in range(pycute.size(expected)))
        elif isinstance(expected, pycute.Layout):
            right = (normal(got["shape"], got["stride"]) == tuple(normal(expected.shape, expected.stride)) and
                     got["table"] == [expected(i) for i in range(pycute.size(expected))])
        else:
            right = got.get("value") == to_lists(expected)
        compared += 1
        names.add(name)
        if not right:
            problems.append(f"{expression}\n  pycute {expected}\n  ptxb   {json.dumps(got)[:300]}")
    for (expression, (shape, stride)), got in zip(FIXED.items(), run(ptxb, list(FIXED))):
        if (got.get("shape"), got.get("stride")) != (shape, stride):
            problems.append(f"{expression}\n  CuTe C++ {shape}:{stride}\n  ptxb     {json.dumps(got)[:300]}")
    print(f"{compared} compared over {len(names)} functions, {len(FIXED)} fixed; {refused} left out, which pycute refuses or shortens")
    if compared < LEAST_COMPARED:
        problems.append(f"only {compared} cases were compared, fewer than {LEAST_COMPARED}")
    print("\n".join(problems[:20]))
    sys.exit(1 if problems else 0)


def sum_of(layout, i, pycute):
    """Returns the layout's value at i, which may be beyond its table."""
    tuples = lambda v: tuple(tuples(x) for x in v) if isinstance(v, list) else v
    return pycute.crd2idx(i, tuples(layout["shape"]), tuples(layout["stride"]))


main()

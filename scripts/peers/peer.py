"""Holds code that the Python peers of gemm_bench and attention_bench share: the protocol of kernels/bench/peers/peer_process.h, the
matrices, and a self-test."""
import argparse
import dataclasses
import mmap
import os
import sys
import traceback

import numpy as np

GRAPH_MICROSECONDS = 2000  # duration of one queued unit, which is long compared with the gap between two units


class Refused(Exception):
    """Raised if the peer cannot do what is requested; the message says why."""


def to_bits(values, dtype):
    """Returns the bits of values, rounded to nearest even."""
    if dtype == "f16":
        return values.astype(np.float16).view(np.uint16)
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bits(bits, dtype):
    """Returns the numbers that bits represent, in float64."""
    if dtype == "f16":
        return np.ascontiguousarray(bits).view(np.float16).astype(np.float64)
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def random_bits(shape, dtype, random):
    return to_bits(random.standard_normal(shape, dtype=np.float32), dtype)


@dataclasses.dataclass
class Problem:
    """A product, which a line of words describes. Other kinds of problems have the same methods, and a class like Matrices."""

    VERB = "problem"
    m: int
    n: int
    k: int
    a: str
    b: str
    d: str
    layout: str
    lda: int
    ldb: int
    ldd: int
    sets: int

    @staticmethod
    def read(words):
        problem = Problem(*(w if w[0].isalpha() else int(w) for w in words))
        problem.require("bf16", "f16")
        return problem

    @staticmethod
    def examples():
        for m, n, k in ((4096, 4096, 4096), (1024, 768, 512), (256, 2048, 8192)):
            yield Problem(m, n, k, "bf16", "bf16", "bf16", "TN", k, k, n, 2)

    def data(self, memory):
        return Matrices(self, memory)

    def bytes(self):
        return 2 * (self.sets * (self.m * self.lda + self.n * self.ldb) + self.m * self.ldd)  # layout is TN

    def flops(self):
        return 2 * self.m * self.n * self.k

    def __str__(self):
        return f"{self.m} x {self.n} x {self.k}"

    @property
    def b_k_major(self):
        return self.layout[0] == "T"

    @property
    def a_k_major(self):
        return self.layout[1] == "N"

    def require(self, *types):
        """Raises Refused unless A, B and D have the same 16-bit type, which must be one of the given types."""
        if not self.a == self.b == self.d or self.a not in types:
            raise Refused(f"it needs A, B and D of one type, which must be one of {', '.join(types)}")


class Matrices:
    """The bits of A, B and D, 16 per element. Rows have the given strides, and are views of the file's memory."""

    def __init__(self, problem, memory):
        p = self.problem = problem
        self.bits = np.frombuffer(memory, dtype=np.uint16)
        a_shape = (p.m, p.lda) if p.a_k_major else (p.k, p.lda)
        b_shape = (p.n, p.ldb) if p.b_k_major else (p.k, p.ldb)
        at = 0
        self.sets = []
        for _ in range(p.sets):
            a, at = self.take(at, a_shape)
            b, at = self.take(at, b_shape)
            self.sets.append((a[:, : p.k if p.a_k_major else p.m], b[:, : p.k if p.b_k_major else p.n]))
        d, _ = self.take(at, (p.m, p.ldd))
        self.output = d[:, : p.n]

    def take(self, at, shape):
        end = at + shape[0] * shape[1]
        return self.bits[at:end].reshape(shape), end

    def fill(self, random):
        for matrices in self.sets:
            for matrix in matrices:
                matrix[:] = random_bits(matrix.shape, self.problem.a, random)

    def samples(self, number):
        """Yields rows of D, their expected values in float64, and the tolerances, for inputs that are both k-major."""
        p = self.problem
        rows = [0, 1, p.m // 2, p.m - 1]
        a, b = self.sets[number]
        truth = from_bits(a[rows], p.a) @ from_bits(b, p.b).T
        yield from_bits(self.output[rows], p.d), truth, 0.01 * np.abs(truth) + 0.02


@dataclasses.dataclass
class Attention:
    """An attention problem, which a line of words describes."""

    VERB = "attention"

    type: str
    batches: int
    queries: int
    keys: int
    heads: int
    key_heads: int
    depth: int
    value_depth: int
    causal: bool
    left: int
    right: int
    lengths: list  # lengths of packed sequences, or an empty list
    sets: int

    @staticmethod
    def read(words):
        kind, *sizes, mask, left, right, lengths, sets = words
        return Attention(kind, *map(int, sizes), mask == "causal", int(left), int(right),
                         [] if lengths == "-" else [int(n) for n in lengths.split(",")], int(sets))

    @staticmethod
    def examples():
        for dtype, sizes, causal, lengths in (("f16", (4, 4096, 4096, 16, 16, 128, 128), False, []),
                                              ("bf16", (8, 2048, 2048, 32, 32, 64, 64), True, []),
                                              ("f16", (8, 2048, 2048, 8, 8, 256, 256), True, []),
                                              ("f16", (2, 2048, 2048, 32, 4, 128, 128), True, []),
                                              ("f16", (3, 2000, 2000, 16, 16, 128, 128), True, [2000, 17, 900])):
            yield Attention(dtype, *sizes, causal, -1, -1, lengths, 2)

    def data(self, memory):
        return Tensors(self, memory)

    def rows(self, of_batch):
        return (sum(self.lengths),) if self.lengths else (self.batches, of_batch)

    def shapes(self):
        """Returns the shapes of Q, K, V and O."""
        q, k = self.rows(self.queries), self.rows(self.keys)
        return [(*q, self.heads, self.depth), (*k, self.key_heads, self.depth), (*k, self.key_heads, self.value_depth),
                (*q, self.heads, self.value_depth)]

    def bytes(self):
        q, k, v, o = (int(np.prod(shape)) for shape in self.shapes())
        return 2 * (self.sets * (q + k + v) + o)

    def flops(self):
        """Returns the number of operations. Windows are not supported, and a causal attention must have as many keys as queries."""
        pairs = sum(n * (n + 1) // 2 if self.causal else n * keys
                    for n, keys in ([(n, n) for n in self.lengths] or [(self.queries, self.keys)] * self.batches))
        return 2 * pairs * self.heads * (self.depth + self.value_depth)

    def offsets(self):
        return np.cumsum([0, *self.lengths], dtype=np.int32)

    def __str__(self):
        length = f"{len(self.lengths)} packed" if self.lengths else f"{self.batches} x {self.queries}"
        return (f"{self.type}{' causal' if self.causal else ''} {length}, {self.heads} heads on {self.key_heads} of {self.depth} and "
                f"{self.value_depth}")


class Tensors:
    """The bits of Q, K and V of each set, and of O: [batch, row, head, column] or, if packed, [row, head, column]."""

    def __init__(self, problem, memory):
        self.problem = problem
        bits = np.frombuffer(memory, dtype=np.uint16)
        at = 0

        def take(shape):
            nonlocal at
            start, at = at, at + int(np.prod(shape))
            return bits[start:at].reshape(shape)

        *inputs, output = problem.shapes()
        self.sets = [tuple(take(shape) for shape in inputs) for _ in range(problem.sets)]
        self.output = take(output)

    def fill(self, random):
        for tensors in self.sets:
            for tensor in tensors:
                tensor[:] = random_bits(tensor.shape, self.problem.type, random)

    def samples(self, number):
        """Yields rows of O, their expected values in float64, and the tolerances."""
        p = self.problem
        draw = np.random.default_rng(2)
        begins = p.offsets() if p.lengths else None
        for _ in range(12):
            batch, head = draw.integers(p.batches), draw.integers(p.heads)
            length = p.lengths[batch] if p.lengths else p.queries
            i = draw.integers(length)
            q, k, v = (from_bits(t[begins[batch]:begins[batch + 1]] if p.lengths else t[batch], p.type) for t in
                       (self.sets[number][0], *(t[..., head // (p.heads // p.key_heads), :] for t in self.sets[number][1:])))
            end = i + 1 if p.causal else len(k)
            scores = k[:end] @ q[i, head] / np.sqrt(p.depth)
            weights = np.exp(scores - scores.max())
            truth = weights / weights.sum() @ v[:end]
            row = begins[batch] + i if p.lengths else (batch, i)
            unit = 2.0 ** (-11 if p.type == "f16" else -8)
            yield from_bits(self.output[row][head], p.type), truth, unit * (2 * np.abs(truth).max() + 1)


class Session:
    """Answers requests. `make(problem, data)` returns an object with three members: `configuration`; launch(set), which returns the bits of
    the output; and burst(launches), which returns microseconds per launch. `kind` is Problem or Attention."""

    def __init__(self, make, kind):
        self.make, self.kind = make, kind
        self.product = self.data = None

    def answer(self, line):
        verb, *words = line.split()
        if verb in ("problem", "attention"):
            self.product = self.data = None
            if verb != self.kind.VERB:
                raise Refused(f"unknown line '{verb}', but '{self.kind.VERB}'")
            problem = self.kind.read(words)
            self.data = problem.data(mmap.mmap(3, 0))
            self.product = self.make(problem, self.data)
            return "ready " + self.product.configuration
        if not self.product:
            raise Refused("there is no problem")
        if verb == "launch":
            self.data.output[:] = self.product.launch(int(words[0]))
            return "done"
        if verb == "burst":
            return f"time {self.product.burst(int(words[0])):.6g}"
        raise Refused(f"'{line}' is not known here")


def one_line(error):
    return " ".join(f"{type(error).__name__}: {error}".split())[:400]


def serve(version, make, kind):
    # The output of libraries is redirected to standard error.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    print(f"peer 1 {version}", file=answers)
    session = Session(make, kind)
    for line in sys.stdin:
        try:
            print(session.answer(line), file=answers)
        except Refused as refusal:
            print(f"refused {refusal}", file=answers)
        except Exception as error:  # the benchmark shows the error, and the next problem may succeed
            traceback.print_exc()
            print(f"refused {one_line(error)}", file=answers)


def self_test(make, kind):
    """Runs a few problems on random data, and checks some of the output."""
    wrong = 0
    for problem in kind.examples():
        data = problem.data(bytearray(problem.bytes()))
        data.fill(np.random.default_rng(1))
        try:
            product = make(problem, data)
        except Refused as refusal:
            print(f"{problem}: refused, {refusal}")
            continue
        data.output[:] = product.launch(1)
        bad = count = 0
        for got, truth, tolerance in data.samples(1):
            bad += int(np.sum(~(np.abs(got - truth) <= tolerance)))
            count += truth.size
        estimate = product.burst(1)
        us = product.burst(int(20000 / max(estimate, 1)) + 1)
        print(f"{problem}: {us:.2f} us, {1e-6 * problem.flops() / us:.1f} TFLOP/s, {product.configuration}, "
              f"{bad} of {count} elements wrong", flush=True)
        wrong += bad
    return 3 if wrong else 0


def parser(text):
    words = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--self-test", action="store_true", help="run without the benchmark, on generated data")
    return words


def run(args, version, make, kind=Problem):
    if args.self_test:
        print(version)
        sys.exit(self_test(make, kind))
    serve(version, make, kind)

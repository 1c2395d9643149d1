"""What the peers of gemm_bench that are written in Python share: the lines of kernels/bench/peers/peer_process.h, the
matrices behind them, and a test of a peer alone."""
import argparse
import dataclasses
import mmap
import os
import sys
import traceback

import numpy as np

GRAPH_MICROSECONDS = 2000  # of what is queued as one: long against the gap between two


class Refused(Exception):
    """The peer cannot, and says why."""


@dataclasses.dataclass
class Problem:
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
        return Problem(*(w if w[0].isalpha() else int(w) for w in words))

    @property
    def b_k_major(self):
        return self.layout[0] == "T"

    @property
    def a_k_major(self):
        return self.layout[1] == "N"

    def require(self, *types):
        """Types of 16 bits alike for A, B and D, of those."""
        if not self.a == self.b == self.d or self.a not in types:
            raise Refused(f"it takes A, B and D of one type of {', '.join(types)}")


class Matrices:
    """The bits of A, B and D, 16 to an element, as rows that the strides separate: views of the file's memory."""

    def __init__(self, problem, memory):
        p = problem
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
        self.d = d[:, : p.n]

    def take(self, at, shape):
        end = at + shape[0] * shape[1]
        return self.bits[at:end].reshape(shape), end


class Session:
    """`make(problem, matrices)` makes what has configuration, launch(set), which gives the bits of D, and
    burst(launches), which gives microseconds per launch."""

    def __init__(self, make):
        self.make = make
        self.product = self.matrices = None

    def answer(self, line):
        verb, *words = line.split()
        if verb == "problem":
            self.product = self.matrices = None
            problem = Problem.read(words)
            problem.require("bf16", "f16")
            self.matrices = Matrices(problem, mmap.mmap(3, 0))
            self.product = self.make(problem, self.matrices)
            return "ready " + self.product.configuration
        if not self.product:
            raise Refused("there is no problem")
        if verb == "launch":
            self.matrices.d[:] = self.product.launch(int(words[0]))
            return "done"
        if verb == "burst":
            return f"time {self.product.burst(int(words[0])):.6g}"
        raise Refused(f"'{line}' is not known here")


def one_line(error):
    return " ".join(f"{type(error).__name__}: {error}".split())[:400]


def serve(version, make):
    # What libraries print goes to the standard error.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    print(f"peer 1 {version}", file=answers)
    session = Session(make)
    for line in sys.stdin:
        try:
            print(session.answer(line), file=answers)
        except Refused as refusal:
            print(f"refused {refusal}", file=answers)
        except Exception as error:  # which the benchmark shows; the next problem may fare better
            traceback.print_exc()
            print(f"refused {one_line(error)}", file=answers)


def to_bf16(values):
    """The bits, rounded to nearest even."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def self_test(make):
    """Runs a few problems on data of its own, and checks rows of D."""
    wrong = 0
    for m, n, k in ((4096, 4096, 4096), (1024, 768, 512), (256, 2048, 8192)):
        problem = Problem(m, n, k, "bf16", "bf16", "bf16", "TN", k, k, n, 2)
        memory = bytearray(2 * (2 * (m * k + n * k) + m * n))
        matrices = Matrices(problem, memory)
        random = np.random.default_rng(1)
        for a, b in matrices.sets:
            for matrix in (a, b):
                matrix[:] = to_bf16(random.standard_normal(matrix.shape, dtype=np.float32))
        try:
            product = make(problem, matrices)
        except Refused as refusal:
            print(f"{m} x {n} x {k}: refused, {refusal}")
            continue
        matrices.d[:] = product.launch(1)
        rows = [0, 1, m // 2, m - 1]
        a, b = matrices.sets[1]
        truth = from_bf16(a[rows]).astype(np.float64) @ from_bf16(b).astype(np.float64).T
        error = np.abs(from_bf16(matrices.d[rows]) - truth)
        bad = int(np.sum(~(error <= 0.01 * np.abs(truth) + 0.02)))
        estimate = product.burst(1)
        us = product.burst(int(20000 / max(estimate, 1)) + 1)
        print(f"{m} x {n} x {k}: {us:.2f} us, {2e-6 * m * n * k / us:.1f} TFLOP/s, {product.configuration}, "
              f"{bad} of {error.size} elements wrong", flush=True)
        wrong += bad
    return 3 if wrong else 0


def parser(text):
    words = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--self-test", action="store_true", help="run alone, on data of its own")
    return words


def run(args, version, make):
    if args.self_test:
        print(version)
        sys.exit(self_test(make))
    serve(version, make)

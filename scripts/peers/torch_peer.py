#!/usr/bin/env python3
"""Runs torch.matmul as a contender in gemm_bench, in a separate process. Without arguments, it answers the requests of gemm_bench.

The launches are replayed as CUDA graphs between two events."""
import functools

import numpy as np
import torch

import peer
from torch_graph import Graphed

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}


class Product:
    def __init__(self, problem, matrices):
        dtype = DTYPES[problem.a]

        def upload(bits):
            stored = torch.from_numpy(np.ascontiguousarray(bits).view(np.int16))
            return stored.cuda().view(dtype)

        self.sets = []
        for a, b in matrices.sets:
            a, b = upload(a), upload(b)
            d = torch.empty(problem.m, problem.n, device="cuda", dtype=dtype)
            self.sets.append((a if problem.a_k_major else a.T, b.T if problem.b_k_major else b, d))
        self.configuration = "torch.matmul, as torch chooses"
        graphed = Graphed([functools.partial(torch.matmul, a, b, out=d) for a, b, d in self.sets])
        self.burst = graphed.burst

    def launch(self, number):
        a, b, d = self.sets[number]
        d.fill_(float("nan"))  # hides the result of a burst
        torch.matmul(a, b, out=d)
        return d.view(torch.int16).cpu().numpy().view(np.uint16)


def main():
    args = peer.parser(__doc__).parse_args()
    peer.run(args, f"torch {torch.__version__}", Product)


if __name__ == "__main__":
    main()

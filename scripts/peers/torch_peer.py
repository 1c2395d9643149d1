#!/usr/bin/env python3
"""torch.matmul as a contender of gemm_bench in a process of its own: without words it answers gemm_bench.

Its launches are replayed as CUDA graphs between two events."""
import numpy as np
import torch

import peer

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
        self.queue(len(self.sets))  # what is made at the first call
        torch.cuda.synchronize()
        each = self.between_events(lambda: self.queue(len(self.sets))) / len(self.sets)
        rounds = max(1, round(peer.GRAPH_MICROSECONDS / max(each, 1) / len(self.sets)))
        self.per_graph = rounds * len(self.sets)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.queue(self.per_graph)

    def queue(self, count):
        for i in range(count):
            a, b, d = self.sets[i % len(self.sets)]
            torch.matmul(a, b, out=d)

    @staticmethod
    def between_events(queue):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        queue()
        end.record()
        end.synchronize()
        return 1e3 * start.elapsed_time(end)

    def launch(self, number):
        a, b, d = self.sets[number]
        d.fill_(float("nan"))  # not what a burst left there
        torch.matmul(a, b, out=d)
        return d.view(torch.int16).cpu().numpy().view(np.uint16)

    def burst(self, launches):
        graphs = max(1, -(-launches // self.per_graph))

        def queue():
            for _ in range(graphs):
                self.graph.replay()

        return self.between_events(queue) / (graphs * self.per_graph)


def main():
    args = peer.parser(__doc__).parse_args()
    peer.run(args, f"torch {torch.__version__}", Product)


if __name__ == "__main__":
    main()

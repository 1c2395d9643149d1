"""Replays PyTorch's launches as CUDA graphs between two events."""
import torch

import peer


def between_events(queue):
    """Returns the time in microseconds of the work that `queue` queues."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    queue()
    end.record()
    end.synchronize()
    return 1e3 * start.elapsed_time(end)


class Graphed:
    """Holds launches in CUDA graphs. `launches` has a function for each set."""

    def __init__(self, launches):
        self.launches = launches
        self.queue(len(launches))  # prepares everything that the first call creates
        torch.cuda.synchronize()
        each = between_events(lambda: self.queue(len(launches))) / len(launches)
        rounds = max(1, round(peer.GRAPH_MICROSECONDS / max(each, 1) / len(launches)))
        self.per_graph = rounds * len(launches)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.queue(self.per_graph)

    def queue(self, count):
        for i in range(count):
            self.launches[i % len(self.launches)]()

    def burst(self, launches):
        """Makes at least `launches` launches, and returns the microseconds per launch."""
        graphs = max(1, -(-launches // self.per_graph))

        def queue():
            for _ in range(graphs):
                self.graph.replay()

        return between_events(queue) / (graphs * self.per_graph)

"""Code for all measurements, which takes the median of alternating bursts of calls, and starts scripts that check products."""
import argparse
import random
import statistics
import time

import torch


def arguments(doc, small, more):
    """Parses the command line. `small` is the help of --small, and `more` maps the names of further options to arguments of add_argument().
    Returns the options, together with the tensors' `device`, the products' `place`, and a random generator `draw`, which is seeded like
    torch's."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--small", action="store_true", help=small)
    for name, words in more.items():
        parser.add_argument(name, **words)
    given = parser.parse_args()
    given.device, given.place = ("cpu", "emulator") if given.small else ("cuda", None)
    given.draw = random.Random(given.seed)
    torch.manual_seed(given.seed)
    return given


def start(given, check_random, small):
    """Checks the requested number of random products; with --small, checks only `small` products and exits."""
    if given.small:
        check_random(small)
        raise SystemExit(0)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    check_random(given.random)


def error_of(d, exact):
    return ((d.double() - exact).norm() / exact.norm().clamp(min=1e-30)).item()


def host(calls, rounds=25, burst=200):
    """Returns the host's microseconds per call for each name in `calls`. Bursts that fit into the GPU's queue alternate."""
    times = {name: [] for name in calls}
    for name, call in calls.items():
        for _ in range(20):
            call()
    for _ in range(rounds):
        for name, call in calls.items():
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(burst):
                call()
            times[name].append((time.perf_counter() - begin) / burst * 1e6)
    return {name: statistics.median(x) for name, x in times.items()}


def device(calls, rounds=11, least_ms=4.0):
    """Returns the GPU's microseconds per call for each name in `calls`. Bursts alternate, and each is timed with two events. If the host
    takes longer than the GPU, the result includes the host's time."""
    bursts = {}
    for name, call in calls.items():
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(5):
            call()
        torch.cuda.synchronize()
        bursts[name] = max(4, int(least_ms * 5e-3 / (time.perf_counter() - begin)))
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            first.record()
            for _ in range(bursts[name]):
                call()
            last.record()
            last.synchronize()
            times[name].append(first.elapsed_time(last) / bursts[name] * 1e3)
    return {name: statistics.median(x) for name, x in times.items()}


def graphs(calls, rounds=11, count=4):
    """Returns the GPU's microseconds per call for each name in `calls`. `count` calls are captured in a graph, so that only the GPU's time
    is measured. If a name has a list of calls, the graph contains these calls one after the other, for example with different operands, so
    that the operands are not in L2."""
    made = {}
    for name, call in calls.items():
        each = call if isinstance(call, list) else [call] * count
        for one in each:
            one()
        made[name] = torch.cuda.CUDAGraph(), len(each)
        with torch.cuda.graph(made[name][0]):
            for one in each:
                one()
    times = device({name: graph.replay for name, (graph, _) in made.items()}, rounds=rounds)
    return {name: us / made[name][1] for name, us in times.items()}


def queued(calls, rounds=9, burst=12, sleep=8_000_000):
    """Returns the GPU's microseconds per call for each name in `calls`. Bursts alternate, and each is queued while the GPU is blocked."""
    times = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(3):
            call()
    for _ in range(rounds):
        for name, call in calls.items():
            first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda._sleep(sleep)
            first.record()
            for _ in range(burst):
                call()
            last.record()
            last.synchronize()
            times[name].append(first.elapsed_time(last) / burst * 1e3)
    return {name: statistics.median(x) for name, x in times.items()}


def table(rows, header):
    """Prints lines of a Markdown table."""
    print("| " + " | ".join(header) + " |", "|" + "---|" * len(header), sep="\n")
    for row in rows:
        print("| " + " | ".join(str(x) for x in row) + " |", flush=True)

"""Operations on rows beside PyTorch's, eager and compiled, and beside a copy that moves as many bytes: bf16, in turns, L2 cold.

  rows.py [--columns N,...] [--mib N] [--operations NAME,...] [--warm]

Each number is the part of the copy's rate: bytes read and written once each, over the median time. --warm compiles PyTorch's alone.
"""
import argparse
import statistics

import torch

import ptxbuilder as pb

F = torch.nn.functional
OPERATIONS = {  # by name: ours, PyTorch's, and how often a matrix is moved forward and backward
    "rms_norm": (lambda x, w: pb.rms_norm(x, w, epsilon=1e-5), lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-5), 2, 3),
    "layer_norm": (lambda x, w, b: pb.layer_norm(x, w, b), lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), 2, 3),
    "softmax": (pb.softmax, lambda x: F.softmax(x, -1), 2, 3),
    "cross_entropy": (pb.cross_entropy, lambda x, t: F.cross_entropy(x, t, reduction="none"), 1, 2),
    "rotary": (pb.rotary, lambda x, cos, sin: turned(x, cos, sin), 2, 2),
    "cumsum": (pb.cumsum, lambda x: x.cumsum(-1), 2, None),
    "embedding": (pb.embedding, F.embedding, 2, None),
    "transpose": (pb.transpose, lambda x: x.t().contiguous(), 2, None),
}


def turned(x, cos, sin):
    a, b = x.chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def inputs_of(name, rows, columns):
    x = torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16).requires_grad_()
    if OPERATIONS[name][3] is None:
        x = x.detach()
    if name == "rotary":  # of 32 heads
        angles = torch.randn(2, x.numel() // (32 * columns), columns // 2, device="cuda").bfloat16()
        return x.detach().view(-1, 32, columns).requires_grad_(), *angles
    if name == "embedding":
        return torch.randint(0, rows, (rows,), device="cuda"), x
    if name == "cross_entropy":
        return x, torch.randint(0, columns, (rows,), device="cuda")
    weights = {"rms_norm": 1, "layer_norm": 2}.get(name, 0)
    return x, *(torch.randn(columns, device="cuda", dtype=torch.bfloat16).requires_grad_() for _ in range(weights))


def calls_of(function, sets):
    """Two functions that take the next set in turn: forward and backward."""
    turn = iter(range(1 << 62))

    def forward():
        with torch.no_grad():
            function(*sets[next(turn) % len(sets)])

    graphs = []
    for inputs in sets:
        if not any(x.requires_grad for x in inputs):
            continue
        y = function(*inputs)
        graphs.append((y, [x for x in inputs if x.requires_grad], torch.randn_like(y)))

    def backward():
        y, of, grad = graphs[next(turn) % len(sets)]
        torch.autograd.grad(y, of, grad, retain_graph=True)

    return forward, backward


def measured(calls, rounds=9, burst=12, sleep=8_000_000):
    """Microseconds of the GPU per call, by name: bursts in turns, queued while the GPU is held up."""
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--columns", default="1024,4096,16384")
    parser.add_argument("--mib", type=int, default=64, help="of a matrix")
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--warm", action="store_true")
    given = parser.parse_args()
    torch._functorch.config.donated_buffer = False  # each graph is gone through many times
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; parts of a copy's rate, {given.mib} MiB a matrix")
    print("| operation | columns | us | ours | eager | compiled | us backward | ours | eager | compiled |\n|" + "---|" * 10)
    for columns in map(int, given.columns.split(",")):
        rows = (given.mib << 20) // (2 * columns)
        for name in given.operations.split(","):
            ours, theirs, moved, moved_back = OPERATIONS[name]
            sets = [inputs_of(name, rows, columns) for _ in range(3)]
            torch._dynamo.reset()
            contenders = {"eager": theirs}
            if not given.no_compile:
                contenders["compiled"] = torch.compile(theirs, dynamic=False)
            if given.warm:
                for call in calls_of(contenders["compiled"], sets[:1])[:1 if moved_back is None else 2]:
                    call()
                continue
            contenders["ours"] = ours
            both = {word: calls_of(function, sets) for word, function in contenders.items()}
            line = [name, columns]
            for way, matrices in enumerate((moved, moved_back)[:1 if moved_back is None else 2]):
                count = matrices * (given.mib << 20) // 4
                copies = [torch.empty(2, count, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
                turn = iter(range(1 << 62))

                def copy():
                    to, of = copies[next(turn) % 2]
                    to.copy_(of)

                took = measured({"copy": copy, **{word: calls[way] for word, calls in both.items()}})
                line += [f"{took['ours']:.1f}"] + [f"{took['copy'] / took[word]:.3f}" if word in took else "" for word in
                                                   ("ours", "eager", "compiled")]
                del copies
            print("| " + " | ".join(map(str, line)) + " |", flush=True)


main()

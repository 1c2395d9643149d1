"""Compares operations on rows with those of PyTorch, eager and compiled, with those of quack if it is installed (scripts/peers/get), and
with a copy that moves the same number of bytes. Everything is bf16; the calls alternate, with a cold L2.

  rows.py [--columns N,...] [--mib N] [--operations NAME,...] [--warm]

Each number is a share of the copy's rate. A rate is the number of bytes that must be read and written, each once, divided by the median
time. --warm only compiles the kernels of PyTorch and quack.
"""
import argparse

import torch

import ptxbuilder as pb
import timing

F = torch.nn.functional
OPERATIONS = {  # our function, PyTorch's, and how many times a matrix is read or written in the forward and in the backward pass
    "rms_norm": (lambda x, w: pb.rms_norm(x, w, epsilon=1e-5), lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-5), 2, 3),
    "layer_norm": (lambda x, w, b: pb.layer_norm(x, w, b), lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), 2, 3),
    "softmax": (pb.softmax, lambda x: F.softmax(x, -1), 2, 3),
    "cross_entropy": (pb.cross_entropy, lambda x, t: F.cross_entropy(x, t, reduction="none"), 1, 2),
    "rotary": (pb.rotary, lambda x, cos, sin: turned(x, cos, sin), 2, 2),
    "cumsum": (pb.cumsum, lambda x: x.cumsum(-1), 2, None),
    "embedding": (pb.embedding, F.embedding, 2, None),
    "transpose": (pb.transpose, lambda x: x.t().contiguous(), 2, None),
}


def quacks():
    """Returns a dict that maps operations to quack's functions, each with a function that converts our operands to those of quack."""
    try:
        from quack.cross_entropy import cross_entropy
        from quack.rmsnorm import layernorm_bwd, layernorm_fwd, rmsnorm
        from quack.softmax import softmax
    except ImportError as error:
        print("left out: quack:", error)
        return {}

    class LayerNorm(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w, b):
            y, scale, mean = layernorm_fwd(x, w, b, 1e-5, True, True)
            ctx.save_for_backward(x, w, scale, mean)
            return y

        @staticmethod
        def backward(ctx, grad):
            x, w, scale, mean = ctx.saved_tensors
            return layernorm_bwd(x, w, grad, scale, mean)

    def same(*given):
        return given

    def of_floats(x, *weights):  # quack's layer norm accepts only float32 weights
        return x, *(w.detach().float().requires_grad_() for w in weights)

    return {"rms_norm": (lambda x, w: rmsnorm(x, w, eps=1e-5), same), "layer_norm": (LayerNorm.apply, of_floats),
            "softmax": (softmax, same), "cross_entropy": (lambda x, t: cross_entropy(x, t, reduction="none"), same)}


def turned(x, cos, sin):
    a, b = x.chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def inputs_of(name, rows, columns):
    x = torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16).requires_grad_()
    if OPERATIONS[name][3] is None:
        x = x.detach()
    if name == "rotary":  # with 32 heads
        angles = torch.randn(2, x.numel() // (32 * columns), columns // 2, device="cuda").bfloat16()
        return x.detach().view(-1, 32, columns).requires_grad_(), *angles
    if name == "embedding":
        return torch.randint(0, rows, (rows,), device="cuda"), x
    if name == "cross_entropy":
        return x, torch.randint(0, columns, (rows,), device="cuda")
    weights = {"rms_norm": 1, "layer_norm": 2}.get(name, 0)
    return x, *(torch.randn(columns, device="cuda", dtype=torch.bfloat16).requires_grad_() for _ in range(weights))


def calls_of(function, sets):
    """Returns two functions, forward and backward. Each uses the next set of operands at each call."""
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--columns", default="1024,4096,16384")
    parser.add_argument("--mib", type=int, default=64, help="of a matrix")
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--warm", action="store_true")
    given = parser.parse_args()
    torch._functorch.config.donated_buffer = False  # needed because each backward graph runs many times
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; shares of a copy's rate, {given.mib} MiB a matrix")
    words, peers = ("ours", "eager", "compiled", "quack"), quacks()
    print("| operation | columns | us | " + " | ".join(words) + " | us backward | " + " | ".join(words) + " |\n|" + "---|" * 12)
    for columns in map(int, given.columns.split(",")):
        rows = (given.mib << 20) // (2 * columns)
        for name in given.operations.split(","):
            ours, theirs, moved, moved_back = OPERATIONS[name]
            sets = [inputs_of(name, rows, columns) for _ in range(3)]
            torch._dynamo.reset()
            contenders = {"eager": theirs}
            if not given.no_compile:
                contenders["compiled"] = torch.compile(theirs, dynamic=False)
            own = {}
            if name in peers:
                function, made_of = peers[name]
                own["quack"] = [made_of(*inputs) for inputs in sets]
                try:
                    for call in calls_of(function, own["quack"][:1]):
                        call()
                    contenders["quack"] = function
                except Exception as error:
                    print(f"left out: quack's {name} of {columns} columns: {error!r:.100}")
            if given.warm:
                for word in contenders.keys() - {"eager"}:
                    for call in calls_of(contenders[word], own.get(word, sets)[:1])[:1 if moved_back is None else 2]:
                        call()
                continue
            contenders["ours"] = ours
            both = {word: calls_of(function, own.get(word, sets)) for word, function in contenders.items()}
            line = [name, columns]
            for way, matrices in enumerate((moved, moved_back)[:1 if moved_back is None else 2]):
                count = matrices * (given.mib << 20) // 4
                copies = [torch.empty(2, count, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
                turn = iter(range(1 << 62))

                def copy():
                    to, of = copies[next(turn) % 2]
                    to.copy_(of)

                took = timing.queued({"copy": copy, **{word: calls[way] for word, calls in both.items()}})
                line += [f"{took['ours']:.1f}"] + [f"{took['copy'] / took[word]:.3f}" if word in took else "" for word in words]
                del copies
            print("| " + " | ".join(map(str, line)) + " |", flush=True)


main()

"""A PyTorch layer of experts with our products, forward and backward, under torch.compile. A router chooses k experts for each token. The
results are compared with float64.

The program runs on a GPU if there is one, and then prints its time and the time with torch._grouped_mm; otherwise products run on the
emulator.
"""
import statistics

import torch
import torch.nn.functional as F

import ptxbuilder as pb

on_gpu = torch.cuda.is_available()
place = torch.device("cuda" if on_gpu else "cpu")


def probabilities(x, router):
    wide = torch.promote_types(x.dtype, torch.float32)
    return F.softmax(x.to(wide) @ router.to(wide), -1)


def layer(x, router, up, down, k, grouped_mm, chosen=None):
    """Returns the weighted sum of the chosen experts' results. x is [tokens, d], router [d, experts], up [experts, d, 2 f] and down
    [experts, f, d]. The first product reads each row of x in place. The second writes the results of a token to consecutive rows, which are
    summed in a fixed order, so that a step is bitwise reproducible. The host reads none of the data, so that a graph can capture the step.
    If probabilities are nearly equal, another precision may choose other experts; to compare two precisions, pass `chosen`."""
    experts, all_weights = router.shape[1], probabilities(x, router)
    chosen = all_weights.topk(k)[1] if chosen is None else chosen
    weight = all_weights.gather(1, chosen)
    weight = weight / weight.sum(-1, keepdim=True)
    order = chosen.flatten().argsort(stable=True)  # rows by expert
    ends = (chosen.flatten()[:, None] == torch.arange(experts, device=x.device)).sum(0).cumsum(0).int()
    gate, value = grouped_mm(x, up, ends, a_rows=order // k).chunk(2, -1)
    rows = grouped_mm(F.silu(gate) * value, down, ends, d_rows=order)
    return (rows.view(*chosen.shape, -1) * weight[:, :, None].to(rows.dtype)).sum(1)


def ours(a, b, ends, **rows):
    return pb.grouped_mm(a, b, ends, device=None if on_gpu else "emulator", **{word: x.int() for word, x in rows.items()})


def by_copies(product, a, b, ends, a_rows=None, d_rows=None):
    y = product(a if a_rows is None else a[a_rows], b, ends)
    return y if d_rows is None else torch.zeros_like(y).index_copy(0, d_rows, y)


def theirs(a, b, ends, **rows):
    return by_copies(lambda a, b, ends: torch._grouped_mm(a, b, offs=ends), a, b, ends, **rows)


def one_by_one(a, b, ends):
    starts = [0, *ends.tolist()]
    return torch.cat([a[first:end] @ b[e] for e, (first, end) in enumerate(zip(starts, starts[1:]))])


def exact(a, b, ends, **rows):
    return by_copies(one_by_one, a, b, ends, **rows)


def operands(tokens, d, f, experts):
    shapes = (tokens, d), (d, experts), (experts, d, 2 * f), (experts, f, d)
    return [(torch.randn(shape, device=place) / shape[-2]**0.5 ** (i > 0)).bfloat16() for i, shape in enumerate(shapes)]


def step(f, x, *weights, k, grouped_mm, grad, chosen=None):
    given = [w.detach().requires_grad_() for w in (x, *weights)]
    y = f(*given, k, grouped_mm, chosen)
    return (y.detach(), *torch.autograd.grad(y, given, grad))


k = 2
given = operands(*((4096, 2048, 1024, 32) if on_gpu else (40, 64, 32, 5)))
grad = torch.randn_like(given[0])
compiled = torch.compile(layer, fullgraph=True, backend="inductor" if on_gpu else "aot_eager")
chosen = probabilities(*given[:2]).topk(k)[1]
found = step(compiled, *given, k=k, grouped_mm=ours, grad=grad, chosen=chosen)
right = step(layer, *[x.double() for x in given], k=k, grouped_mm=exact, grad=grad.double(), chosen=chosen)
for name, a, b in zip(("y", "of x", "of the router", "of up", "of down"), found, right):
    error = ((a.double() - b).norm() / b.norm()).item()
    print(f"{name}: off by {error:.4f}")
    assert error < 0.02, f"{name} is wrong"

if on_gpu:
    def milliseconds(grouped_mm):
        times = []
        for _ in range(20):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            step(compiled, *given, k=k, grouped_mm=grouped_mm, grad=grad)
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end))
        return statistics.median(times[5:])

    print(f"a step: {milliseconds(ours):.3f} ms, by torch._grouped_mm {milliseconds(theirs):.3f} ms")

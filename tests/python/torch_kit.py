"""Holds helpers that the tests of PyTorch share, on the CPU with the emulator and on a GPU: comparisons in float64, and products with all
of their operands. A test that imports it runs with a Python whose PyTorch is new enough, or is skipped."""
import sys

import kit

kit.use("torch", "numpy")
import numpy as np  # noqa: E402
import torch  # noqa: E402
import reference  # noqa: E402

if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    print(f"SKIPPED: PyTorch 2.10 or newer is needed, and this is {torch.__version__}")
    sys.exit(77)

random = np.random.default_rng(7)
functions = reference.activations(torch)


def check(got, expected, bound, *words):
    if kit.check(got.shape == expected.shape, *words, got.shape, expected.shape):
        error = ((got.double() - expected.double()).norm() / expected.double().norm().clamp(min=1e-30)).item()
        kit.check(error <= bound, *words, f"off by {error:.2e}, more than {bound:.2e}")


def wide(x):
    return x.detach().double().cpu().numpy()


def tensors_of(case, place):
    drawn, words = reference.drawn_product(case, random)
    return {name: torch.from_numpy(np.array(x)).to(place, getattr(torch, kind)) for name, (x, kind) in drawn.items()}, words


def with_tensors(words, place):
    """Returns the arguments with numpy arrays replaced by PyTorch tensors."""
    return {name: torch.from_numpy(x).to(place) if isinstance(x, np.ndarray) else x for name, x in words.items()}


def check_attention_gradients(attend, place, cases=reference.DIFFERENTIABLE):
    """Calls attention directly and compiled, and compares its gradients with those in float64."""
    for case in cases:
        operands = [torch.from_numpy(random.standard_normal(shape)).to(place, torch.bfloat16) for shape in reference.shapes(case)]
        for way, has_lse in ((attend, False), (torch.compile(attend, fullgraph=True, backend="aot_eager"), True)):
            given, words = [x.clone().requires_grad_() for x in operands], with_tensors(case[-1], place)
            if "sinks" in words:
                given.append(words.pop("sinks").requires_grad_())
            results = way(*given[:3], **dict(zip(["sinks"], given[3:])), **words, return_lse=True)[:1 + has_lse]
            grads = [torch.from_numpy(random.standard_normal(tuple(x.shape))).to(x) for x in results]
            found = torch.autograd.grad(results, given, grads)
            exact = reference.attention_gradients(*map(wide, (*operands, *grads)), **case[-1])
            for name, got, expected in zip(("dQ", "dK", "dV", "dsinks"), found, exact):
                check(got, torch.from_numpy(np.ascontiguousarray(expected)).to(place), 2**-6, name, case)


def by_compiler(product, backend="aot_eager"):
    return torch.compile(product, fullgraph=True, backend=backend)


def check_beside(ways, cases, place):
    """Tests the products in `cases`. The first of `ways` is the eager call, which is also tested with a preallocated D (`out=`)."""
    for case in cases:
        tensors, words = tensors_of(case, place)
        exact = {name: wide(x) for name, x in tensors.items()}
        for way in ways:
            amax = torch.zeros(1, device=place) if "amax" in case[4] else None
            d = way(**tensors, **words, amax=amax)
            kit.check(str(d.dtype) == "torch." + words["out_dtype"], case, d.dtype)
            problem = reference.wrong_product(wide(d), None if amax is None else amax.item(), exact, words)
            kit.check(not problem, case, problem, way)
        out = torch.zeros(*d.shape[:-1], d.shape[-1] + 16, device=place).to(d.dtype)[..., :d.shape[-1]]
        amax = torch.zeros(1, device=place) if "amax" in case[4] else None
        kit.check(ways[0](**tensors, **words, amax=amax, out=out) is out and torch.equal(out.float(), d.float()), case, "out=")


def exactly(a, b, activation=None, gate=False, slope_of=None, beta=1.0, out_dtype=None, **operands):
    """Computes the product with PyTorch functions, which have derivatives."""
    alpha = operands.pop("alpha", 1.0)
    operands |= {"alpha": alpha} if isinstance(alpha, torch.Tensor) else {}
    x, _ = reference.with_operands({"a": a, "b": b, **operands}, 1.0 if "alpha" in operands else alpha, beta)
    if gate:
        return functions[activation](x[..., 0::2]) * x[..., 1::2]
    if slope_of is None:
        return functions[activation](x)
    slope, = torch.autograd.grad(functions[activation](slope_of).sum(), slope_of, create_graph=True)
    return x * slope


def check_gradients_beside(ways, cases, place):
    """For cases in which A, B and D have more than 8 bits, compares the gradients of all tensors with those that PyTorch computes in
    float64. A product with an amax must be refused, because it has no gradients."""
    for case in cases:
        if "8" in case[2] + case[3] or 0 in case[0]:
            continue
        tensors, words = tensors_of(case, place)
        for x in tensors.values():
            x.requires_grad_()
        doubled = {name: x.detach().double().requires_grad_() for name, x in tensors.items()}
        expected = exactly(**doubled, **words)
        weight = torch.randn_like(expected)
        gradients = torch.autograd.grad((expected * weight).sum(), list(doubled.values()), allow_unused=True)
        for way in ways:
            d = way(**tensors, **words)
            check(d, expected, 2**-7, case, way)
            got = torch.autograd.grad((d * weight).sum(), list(tensors.values()), allow_unused=True)
            for name, x, y in zip(tensors, got, gradients):
                kit.check(x.dtype == tensors[name].dtype and x.shape == tensors[name].shape, case, name)
                # The gradient of a single number is a sum of numbers with both signs, so its tolerance is larger.
                check(x, torch.zeros_like(x).double() if y is None else y, 2**-6 if x.numel() > 1 else 2**-4, case, name, way)
        for more in (dict(amax=torch.zeros(1, device=place)), dict(scale_result=torch.ones(1, device=place)),
                     dict(out_dtype=torch.float8_e4m3fn), dict(out=torch.zeros(d.shape, dtype=d.dtype, device=place))):
            with kit.refused("out: a given result has no gradient" if "out" in more else "not supported if a gradient of the product is "
                                                                                         "requested"):
                ways[0](**{**tensors, **words, **more})

"""Compares contractions of named modes with numpy.einsum, on the emulator: letters, strides and types. Also tests refused calls, and the
gradients of PyTorch and JAX if this Python has them."""
import importlib.util
import itertools
import os

import kit

os.environ.update(kit.quick_xla())
kit.use("numpy", "ml_dtypes")
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

import ptxbuilder as pb  # noqa: E402

random = np.random.default_rng(1)


def drawn(shape, dtype=ml_dtypes.bfloat16):
    return random.integers(-4, 5, shape).astype(dtype)


def expected(subscripts, a, b):
    return np.einsum(subscripts, a.astype(np.float64), b.astype(np.float64))


def refused(word, *arguments, **words):
    try:
        pb.einsum(*arguments, **{"device": "emulator", **words})
    except ValueError as error:
        kit.check(word in str(error), f"{word!r} is not in: {error}")
    else:
        kit.check(False, f"not refused: {word}")


# Integers below 2^8 are exact in all types, and so are their sums.
for subscripts, a, b in (("mbk,nbk->mnb", (20, 6, 32), (24, 6, 32)), ("abk,nk->ban", (3, 20, 24), (16, 24)), ("xk,ky", (9, 17), (17, 5)),
                         ("bm,bn->bmn", (3, 8), (3, 16)), ("mk,k->m", (20, 24), (24,)), ("mk,mk->", (4, 8), (4, 8)), ("m,n->nm", (8,), (16,)),
                         ("mkb,nkb->mnb", (8, 16, 3), (16, 16, 3))):
    a, b = drawn(a), drawn(b)
    d = pb.einsum(subscripts, a, b, out_dtype="f32", device="emulator")
    kit.check(np.array_equal(d, expected(subscripts, a, b)), subscripts)
# Tests any order of dimensions and any steps, including negative ones.
a, b = drawn((10, 40, 3))[:, ::-1][:, ::2].transpose(1, 2, 0), drawn((20, 9, 10))
out = np.zeros((9, 3), np.float32).T
kit.check(pb.einsum("kbm, knm -> bn", a, b, out=out, device="emulator") is out)
kit.check(np.array_equal(out, expected("kbm,knm->bn", a, b)))
for dtype, out_dtype, words in ((np.float16, "f16", {}), (np.float32, "f32", {"tf32": True}), (ml_dtypes.float8_e4m3fn, "bf16", {"precise": True})):
    a, b = drawn((4, 6, 20), dtype), drawn((20, 8, 4), dtype)
    d = pb.einsum("bmk,knb->nbm", a, b, alpha=0.5, device="emulator", **words)
    kit.check(str(d.dtype) == pb._common.name_of(out_dtype) and
              np.allclose(d.astype(np.float64), expected("bmk,knb->nbm", a, b) / 2, rtol=1 / 128, atol=0), dtype)

a, b = drawn((64, 32)), drawn((48, 32))
kit.check("m is 'm' of 64" in pb.einsum_explained("mk,nk->mn", a, b, device="emulator"))
kit.check("B is copied: a stride of 31 elements along 'n'" in
          pb.einsum_explained("mk,nk->mn", a[:, :24], drawn((48, 31))[:, :24], device="emulator"))

kit.check(pb.einsum("mk,kn->nm", np.zeros((0, 7), np.float16), np.zeros((7, 3), np.float16), device="emulator").shape == (3, 0), "no rows")
refused("'.' of A", "...k,nk->n", a, b)
refused("is not a string", 3, a, b)
refused("names one operand", "mk->mk", a, b)
refused("'x' of the result is in neither operand", "mk,nk->mx", a, b)
refused("'mkj' of 'mkj,nk->mn' names 3 dimensions, but A has 2", "mkj,nk->mn", a, b)
refused("mode 'k' has 16 elements in B, but 32 in A", "mk,nk->mn", a, b[:, :16])
refused("mode 'm' of 64 elements is only in A; sum over it first", "mk,nk->n", a, b)
refused("set `tf32`", "mk,nk->mn", a.astype(np.float32), b.astype(np.float32))
refused("D: its shape is (64, 47)", "mk,nk->mn", a, b, out=np.zeros((64, 47), np.float32))

if importlib.util.find_spec("torch"):
    import torch

    for subscripts, of_a, of_b in (("mbk,nbk->mnb", (20, 3, 16), (8, 3, 16)), ("kma,kn->nam", (16, 8, 3), (16, 24))):
        a, b = (torch.from_numpy(random.standard_normal(shape)).bfloat16().requires_grad_() for shape in (of_a, of_b))
        d = pb.einsum(subscripts, a, b, device="emulator")
        wanted = torch.einsum(subscripts, a.double(), b.double())
        kit.check(torch.allclose(d.double(), wanted, rtol=1e-2, atol=1e-1), subscripts)
        grad = torch.from_numpy(random.standard_normal(tuple(d.shape))).bfloat16()
        for x, y in zip(torch.autograd.grad(d, (a, b), grad), torch.autograd.grad(wanted, (a, b), grad.double())):
            kit.check(x.shape == y.shape and torch.allclose(x.double(), y.double(), rtol=1e-2, atol=1e-1), subscripts, "gradient")
    with torch.no_grad():
        compiled = torch.compile(lambda a, b: pb.einsum("kma,kn->nam", a, b, device="emulator"), backend="eager", fullgraph=True)
        kit.check(torch.equal(compiled(a, b), pb.einsum("kma,kn->nam", a, b, device="emulator")), "compiled")
        out = torch.empty_like(d)
        kit.check(pb.einsum("kma,kn->nam", a.detach(), b.detach(), out=out, device="emulator") is out and torch.equal(out, d))

    def of_a(a):
        return pb.einsum("mk,nk->mn", a, b, device="emulator").float()

    a, b = (torch.from_numpy(random.standard_normal(shape)).bfloat16() for shape in ((4, 16), (8, 16)))
    by_transform = torch.func.grad(lambda a: of_a(a).square().sum())(a)
    x = a.clone().requires_grad_()
    once, = torch.autograd.grad(of_a(x).square().sum(), x, create_graph=True)
    kit.check(torch.equal(once, by_transform), "torch.func.grad")
    twice, = torch.autograd.grad(once.float().sum(), x)
    wanted = 2 * (b.double().t() @ b.double()).sum(0)
    kit.check(torch.allclose(twice.double(), wanted.expand(4, 16), rtol=2e-2, atol=2e-2 * wanted.abs().max()), "a second derivative")
    kit.check(torch.func.jacrev(of_a)(a).shape == (4, 8, 4, 16), "torch.func.jacrev")
    with kit.refused("jvp", kind=NotImplementedError):  # otherwise, a tangent would be lost
        torch.func.jvp(of_a, (a,), (a,))
    with torch.autocast("cpu", torch.bfloat16):
        kit.check(pb.einsum("mk,nk->mn", a.float(), b.float(), device="emulator").dtype == torch.bfloat16, "autocast")
    with kit.refused("D overlaps itself: it has a stride of 2 elements along 'p'"):
        pb.einsum("pqk,nk->pqn", torch.zeros(4, 4, 16).half(), torch.zeros(8, 16).half(), device="emulator",
                  out=torch.zeros(200).half().as_strided((4, 4, 8), (2, 8, 1)))

if importlib.util.find_spec("jax"):
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_platforms", "cpu")
    subscripts = "kma,nk->nam"
    a, b = jnp.asarray(drawn((16, 8, 3))), jnp.asarray(drawn((24, 16)))
    d, back = jax.vjp(lambda a, b: pb.einsum(subscripts, a, b, out_dtype="f32"), a, b)
    kit.check(np.array_equal(d, expected(subscripts, np.asarray(a), np.asarray(b))), "JAX")
    grad = jnp.asarray(drawn(d.shape, np.float32))
    for x, letters, other in zip(back(grad), ("nam,nk->kma", "kma,nam->nk"), ((grad, b), (a, grad))):
        wanted = expected(letters, *map(np.asarray, other))
        kit.check(np.allclose(np.asarray(x, np.float64), wanted, rtol=1 / 128, atol=0), "JAX's gradient")
    for word, letters in (("'m' is twice in A", "mma,nk->na"), ("elements in B, but", "kma,nm->kan")):
        try:
            pb.einsum(letters, jnp.zeros((16, 16, 3)) if word[1] == "m" else a, b)
        except ValueError as error:
            kit.check(word in str(error), error)
        else:
            kit.check(False, "not refused", letters)
kit.end()

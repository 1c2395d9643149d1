"""Tests convolutions of JAX arrays on the CPU: windows, types, jax.jit, first and second derivatives compared with JAX's own, and refused
calls."""
import jax_cpu  # noqa: F401
import jax
import jax.numpy as jnp
import numpy as np

import kit
import ptxbuilder as pb
from jax_kit import check, drawn, wide

jax.config.update("jax_enable_x64", True)  # the reference uses float64
ACTIVATIONS = {None: lambda z: z, "relu": jax.nn.relu, "gelu": lambda z: jax.nn.gelu(z, approximate=True)}


def exactly(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1, activation=None):
    stride, padding, dilation = ((one, one) if isinstance(one, int) else one for one in (stride, padding, dilation))
    y = jax.lax.conv_general_dilated(x, w, stride, [(one, one) for one in padding], rhs_dilation=dilation, feature_group_count=groups)
    return ACTIVATIONS[activation](y if bias is None else y + bias[:, None, None])


def doubled(*operands):
    return [jnp.asarray(wide(x)) for x in operands]


for of_x, of_w, words in (((2, 16, 7, 6), (8, 16, 3, 3), {"padding": 1, "activation": "gelu"}),
                          ((2, 16, 9, 8), (8, 8, 3, 2), {"stride": (2, 3), "padding": (1, 0), "groups": 2}),
                          ((1, 8, 6, 6), (8, 8, 1, 1), {"stride": 2, "activation": "relu"}),
                          ((1, 3, 9, 9), (16, 3, 3, 3), {"dilation": 2, "padding": 2})):
    x, w, bias = drawn(*of_x), drawn(*of_w), drawn(of_w[0])

    def ours(x, w, bias):
        return pb.conv2d(x, w, bias, **words)

    expected, back = jax.vjp(lambda *given: exactly(*given, **words), *doubled(x, w, bias))
    for way in (ours, jax.jit(ours)):
        y = way(x, w, bias)
        kit.check(y.dtype == jnp.bfloat16, words)
        check(y, expected, 2**-8, words)
    grad = drawn(*expected.shape)
    found = jax.jit(lambda x, w, bias, grad: jax.vjp(ours, x, w, bias)[1](grad))(x, w, bias, grad)
    for name, got, right, like in zip(("x", "w", "bias"), found, back(*doubled(grad)), (x, w, bias)):
        kit.check(got.dtype == like.dtype, words, "the type of the gradient of", name)
        check(got, right, 2**-6, words, "the gradient of", name)

# Tests results of other types, numpy operands, and an array with channels last, which is not copied under jax.jit.
x, w = drawn(2, 16, 6, 5, dtype=jnp.float16), drawn(16, 16, 3, 3, dtype=jnp.float16)
check(pb.conv2d(x, w, out_dtype="f32"), exactly(*doubled(x, w)), 1e-5, "f32")
check(pb.conv2d(x, np.asarray(w), device="emulator"), exactly(*doubled(x, w)), 2**-11, "an array of numpy's")
check(pb.conv2d(x.astype(jnp.float32), w.astype(jnp.float32), tf32=True), exactly(*doubled(x, w)), 2**-9, "tf32")
last = jnp.transpose(x, (0, 2, 3, 1))
of_last = jax.jit(lambda last: jnp.transpose(pb.conv2d(jnp.transpose(last, (0, 3, 1, 2)), w), (0, 2, 3, 1)))
check(of_last(last), np.transpose(exactly(*doubled(x, w)), (0, 2, 3, 1)), 2**-11, "channels last")
for call, operand, is_moved in ((of_last, last, False), (jax.jit(lambda x: pb.conv2d(x, w)), x, True)):
    moved = [line for line in call.lower(operand).compile().as_text().splitlines() if "transpose(" in line and "2,6,5,16" in line]
    kit.check(bool(moved) == is_moved, "channels last are not moved", moved)
check(jax.vmap(pb.conv2d, (0, None))(jnp.stack([x, -x]), w), np.stack([exactly(*doubled(x, w)), exactly(*doubled(-x, w))]), 2**-11, "vmap")
none = jnp.zeros((0, 16, 6, 5), jnp.float16)
of_none = jax.grad(lambda x, w: pb.conv2d(x, w).astype(jnp.float32).sum(), (0, 1))(none, w)
kit.check(of_none[0].shape == none.shape and not of_none[1].any(), "no images")

# The batch is divided between two devices, so the gradient of w is summed over them.
mesh, P = jax.sharding.Mesh(np.array(jax.devices()), ("n",)), jax.sharding.PartitionSpec
of_two = jax.shard_map(lambda x, w: pb.conv2d(x, w), mesh=mesh, in_specs=(P("n"), P()), out_specs=P("n"))
check(jax.jit(of_two)(x, w), exactly(*doubled(x, w)), 2**-11, "two devices")
check(jax.jit(jax.grad(lambda w: of_two(x, w).astype(jnp.float32).sum()))(w), jax.grad(lambda w: exactly(*doubled(x), w).sum())(*doubled(w)),
      2**-9, "w's gradient of two devices")

# Tests second derivatives, even if the incoming gradient of the first has no gradient itself, as for a sum.
for words in ({"padding": 1}, {"stride": 2, "padding": 1, "groups": 2}, {"dilation": 2, "padding": 2}):
    x, w = drawn(2, 16, 6, 5), drawn(16, 16 // words.get("groups", 1), 3, 3)
    for loss in (jnp.sum, lambda y: 0.01 * (y**3).sum()):
        def twice(call, *given):
            def of_first(*given):
                first = jax.grad(lambda *given: loss(call(*given, **words).astype(jnp.float64)), (0, 1))(*given)
                return sum(jnp.square(one.astype(jnp.float64)).sum() for one in first)
            return jax.jit(jax.grad(of_first, (0, 1)))(*given)

        for got, right in zip(twice(pb.conv2d, x, w), twice(exactly, *doubled(x, w))):
            check(got, right, 1e-2, words, "second derivative")

# A gradient that the hardware cannot compute is refused when it is requested, while the gradient of w is not refused.
x, w = drawn(1, 8, 1, 300), drawn(8, 8, 1, 200)


eights = (drawn(1, 16, 4, 4, dtype=jnp.float8_e4m3fn), drawn(16, 16, 1, 1, dtype=jnp.float8_e4m3fn))


def total(x, w):
    return pb.conv2d(x, w).astype(jnp.float32).sum()


check(jax.grad(total, 1)(x, w), jax.grad(lambda w: exactly(*doubled(x), w).sum())(*doubled(w)), 2**-7, "of w alone")
for words, call in (("x: the windows of its gradient begin 199 pixels before", lambda: jax.grad(total)(x, w)),
                    ("x of float8_e4m3fn has no gradient", lambda: jax.grad(total, 1)(*eights)),
                    ("x: its shape is (8, 1, 300); it must have 4 dimensions", lambda: pb.conv2d(x[0], w)),
                    ("filters of 4 channels for 1 groups of x's 8", lambda: pb.conv2d(x, w[:, :4])),
                    ("device: JAX's arrays are processed where they are", lambda: pb.conv2d(x, w, device="cuda"))):
    with kit.refused(words):
        call()
kit.end()

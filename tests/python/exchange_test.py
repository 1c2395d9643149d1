"""Tests how the extension uses a framework on a GPU, with a fake framework and a mock driver: the framework's stream in every call, memory
for results (which is freed if a call is refused), and the cost of a call.

  exchange_test.py FOLDER MOCK   the folder of fake_framework, and the driver
"""
import ctypes
import os
import struct
import sys
import time
import types

import kit
import struct_kernel

sys.path.insert(0, sys.argv[1])
import fake_framework as framework  # noqa: E402

framework.open(sys.argv[2], (128, 128, 128, 4, 4, 4))  # parameters of a product's kernel
from ptxbuilder import _ext  # noqa: E402

BF16, F16, F32, F64 = (4, 16), (2, 16), (2, 32), (2, 64)
modes, tracing, grad, autocast, asked = [0], [False], [False], [False], []
forward_ad = types.SimpleNamespace(_current_level=-1)
profiler = types.SimpleNamespace(_is_profiler_enabled=False)


def use_eager(tracing_state):
    _ext.use_eager(framework.Tensor, framework.Tensor, lambda: modes[0], lambda: tracing[0], tracing_state, lambda: grad[0], lambda: autocast[0],
                   lambda: asked.append("deterministic") is None, forward_ad, profiler, {None: 0, "relu": 1}, {"bf16": 4 << 8 | 16}, lambda x: None)


use_eager(0)


def tensor(place, rows=512, columns=512, dtype=BF16, device=0):
    return framework.tensor(place << 32, *dtype, rows, columns, device)


WORDS = [word for word, *_ in _ext.OPERANDS]
NONE = (None,) * len(WORDS)


def product(a, b, out=None, activation=None, out_dtype=None, device=None, is_below=False, alpha=1.0, gate=False, transpose_a=False, transpose_b=False, tf32=False, **operands):
    return _ext.eager_product(a, b, out, alpha, None, activation, out_dtype, transpose_a, transpose_b, False, tf32, gate, device, is_below,
                              *(operands.get(word) for word in WORDS if word != "alpha"))


def change(call):
    """Returns how a call has changed the counters, and the call's result."""
    before = framework.seen()
    given = call()
    after = framework.seen()
    return {name: after[name] - before[name] for name in ("launches", "allocated", "streams_asked")}, after["stream"], given


a, b, d = tensor(1), tensor(2), tensor(3)
product(a, b, d)  # compiles the kernel
for stream in (0, 77, 2):
    framework.set_stream(stream)
    seen, launched_on, given = change(lambda: product(a, b, d))
    kit.check(seen == {"launches": 1, "allocated": 0, "streams_asked": 1} and launched_on == stream and given is d, seen, launched_on)
seen, _, given = change(lambda: product(a, b))
kit.check(seen == {"launches": 1, "allocated": 1, "streams_asked": 1} and type(given) is framework.Tensor, seen)
seen, _, given = change(lambda: [product(a, b) for _ in range(3)] and None)
kit.check(seen["allocated"] == 0, "results are freed with their last reference", seen)

# If something else must handle a call, nothing is launched and no result remains.
for what, call in (("a mode", lambda: (modes.__setitem__(0, 1), product(a, b), modes.__setitem__(0, 0))[1]),
                   ("a type that is none", lambda: product(tensor(1, dtype=F64), tensor(2, dtype=F64))),
                   ("two types", lambda: product(a, tensor(2, dtype=F16))), ("shapes", lambda: product(a, tensor(2, 500))),
                   ("two GPUs", lambda: product(a, tensor(2, device=1))), ("D on another", lambda: product(a, b, tensor(3, device=1))),
                   ("no memory, as a fake tensor's", lambda: product(tensor(0), b)), ("D is A", lambda: product(a, b, a)),
                   ("a device", lambda: product(a, b, device=0)), ("an activation", lambda: product(a, b, activation="tanh")),
                   ("alpha of many elements", lambda: product(a, b, alpha=tensor(4, 512, 1, F32))),
                   ("a scale of another type", lambda: product(a, b, scale_a=tensor(4, 512, 1))),
                   ("a scale of other rows", lambda: product(a, b, scale_a=tensor(4, 500, 1, F32))),
                   ("a scale on another GPU", lambda: product(a, b, scale_a=tensor(4, 512, 1, F32, 1))),
                   ("a scale that is none", lambda: product(a, b, scale_a=1.0)), ("a gate of no activation", lambda: product(a, b, gate=True)),
                   ("D over the amax", lambda: product(a, b, d, amax=tensor(3, 1, 1, F32))),
                   ("a flag that is not a bool", lambda: product(a, b, d, transpose_a=1)),
                   ("a type's name", lambda: product(a, b, out_dtype="f8")), ("no tensor", lambda: product(a, 3))):
    seen, _, given = change(call)
    kit.check(given is NotImplemented and seen["launches"] == seen["allocated"] == 0, what, seen, given)
forward_ad._current_level = 0
kit.check(product(a, b, d) is NotImplemented, "there may be dual tensors")
forward_ad._current_level = -1
grad[0] = True
kit.check(change(lambda: product(a, b, d))[0]["launches"] == 1, "gradients are on, but nothing asks for one")
grad[0] = False
modes[0] = 1
kit.check(change(lambda: product(a, b, d, is_below=True))[0]["launches"] == 1, "below PyTorch's dispatcher modes have handled it")
modes[0] = 0
wide = [tensor(i, dtype=F32) for i in (1, 2, 3)]
autocast[0] = True
kit.check(change(lambda: product(*wide, tf32=True, transpose_b=True))[0]["launches"] == 0, "torch.autocast converts f32")
kit.check(change(lambda: product(a, b, d))[0]["launches"] == 1, "and nothing else")
autocast[0] = False
kit.check(change(lambda: product(*wide, tf32=True, transpose_b=True))[0]["launches"] == 1, "nothing converts f32")
profiler._is_profiler_enabled = True
kit.check(product(a, b, d) is NotImplemented, "a profiler is to see a name")
profiler._is_profiler_enabled = False
# Rows are added to the contents of a given result, unless results must be bitwise reproducible.
index = framework.tensor(4 << 32, 0, 32, 512, 1, 0)
kit.check(product(a, b, add_to_rows=index) is NotImplemented and not asked, "rows are added to nothing")
kit.check(product(a, b, d, add_to_rows=index) is NotImplemented and asked, "sums in no order", asked)
asked.clear()
kit.check(change(lambda: product(a, b, d))[0]["launches"] == 1 and not asked, "a product repeats to the bit", asked)
# The extension checks for torch.jit.trace through Python, and through the address of PyTorch's state.
state = ctypes.c_void_p(None)
where = ctypes.CFUNCTYPE(ctypes.c_void_p)(lambda: ctypes.addressof(state))
for is_known in (False, True):
    if is_known:
        use_eager(ctypes.cast(where, ctypes.c_void_p).value)
    for is_on in (True, False):
        tracing[0], state.value = is_on and not is_known, 1 if is_on and is_known else None
        kit.check(change(lambda: product(a, b, d))[0]["launches"] == (0 if is_on else 1), "a call is traced", is_known, is_on)
use_eager(0)
on_other = [tensor(i, device=1) for i in (1, 2, 3)]
kit.check(change(lambda: product(*on_other))[0]["launches"] == 1, "on the second GPU")
with kit.refused("B: its memory is on device 1 of type 2, but the product's device is GPU 0"):
    _ext.product(a, tensor(2, device=1), d, 1.0, 0.0, 0, 0, 0, None, None, *NONE)
seen, launched_on, _ = change(lambda: _ext.product(a, b, d, 1.0, 0.0, 0, 0, 0, None, 99, *NONE))
kit.check(seen["streams_asked"] == 0 and launched_on == 99, "a stream that is given", seen, launched_on)

# Tests convolutions of images whose channels are last. With windows of one pixel, their kernel is that of the product above.
x, w = framework.image(1 << 32, 8, 512, 8, 8, False), framework.image(2 << 32, 512, 512, 1, 1, False)


def convolution(x=x, w=w, bias=None, stride=1, padding=0, dilation=1, groups=1, activation=None, precise=False, tf32=False, device=None):
    return _ext.eager_convolution(x, w, bias, stride, padding, dilation, groups, activation, None, precise, tf32, device)


for taken in (convolution, lambda: convolution(stride=(1, 1), padding=(0, 0), dilation=(3, 1), precise=True)):
    seen, _, given = change(taken)
    kit.check(seen == {"launches": 1, "allocated": 1, "streams_asked": 1}, seen)
    kit.check(framework.dims(given) == ((8, 512, 8, 8), (512 * 64, 1, 512 * 8, 512)), framework.dims(given))
    given = None
for what, call in (("channels first in memory", lambda: convolution(x=framework.image(1 << 32, 8, 512, 8, 8, True))),
                   ("no images", lambda: convolution(x=framework.image(1 << 32, 0, 512, 8, 8, False))),
                   ("a matrix", lambda: convolution(x=a)), ("other channels", lambda: convolution(w=framework.image(2 << 32, 512, 256, 1, 1, False))),
                   ("filters above the image", lambda: convolution(w=framework.image(2 << 32, 512, 512, 9, 1, False))),
                   ("a stride of 0", lambda: convolution(stride=0)), ("a stride that is a bool", lambda: convolution(stride=True)),
                   ("three strides", lambda: convolution(stride=(1, 1, 1))), ("padding in words", lambda: convolution(padding="same")),
                   ("padding below 0", lambda: convolution(padding=-1)), ("no group", lambda: convolution(groups=0)),
                   ("an activation", lambda: convolution(activation="tanh")), ("a flag that is not a bool", lambda: convolution(precise=1)),
                   ("a bias of another type", lambda: convolution(bias=tensor(4, 1, 512))), ("a device", lambda: convolution(device="cuda")),
                   ("a mode", lambda: (modes.__setitem__(0, 1), convolution(), modes.__setitem__(0, 0))[1])):
    seen, _, given = change(call)
    kit.check(given is NotImplemented and seen["launches"] == seen["allocated"] == 0, what, seen, given)

# Calls of ranks find the exchange memory that was stored for their group, GPU, stream and use. They return to Python if there is no such
# memory, if they are on a stream other than that of the last calls, or if the library refuses them. If Python has prepared everything,
# NotImplemented becomes an exception.
ABOVE, BELOW, READY = range(3)
group, kept_bytes, ends = object(), 16 << 20, framework.tensor(6 << 32, 0, 32, 4, 1, 0)
framework.open(sys.argv[2], (8, 8, 8, 8, 4, 4, 4, 8, 8, 8, 4, 8))


def keep(use, bytes=kept_bytes, stream=5):
    _ext.keep_exchange(group, 0, stream, use, (8 << 32, 9 << 32), bytes, 1)


def norm(x=tensor(1, 8, 64), residual=tensor(2, 8, 64), epsilon=1e-6, group=group, way=ABOVE):
    return _ext.ranked_norm(x, residual, None, epsilon, 0, group, way)


def gathered(a=tensor(1, 64, 128), b=tensor(2, 128, 64), out_dtype=None, scatters=0, group=group, way=ABOVE):
    return _ext.ranked(a, b, None, None, out_dtype, scatters, 0, group, way)


framework.set_stream(5)
kit.check(norm() is NotImplemented, "no exchange memory")
with kit.refused("there is no exchange memory for this call"):
    norm(way=READY)
keep(0, stream=4), keep(1)
kit.check(norm() is NotImplemented, "a stream that does not follow the last calls")
kit.check(change(lambda: norm(way=READY))[0]["launches"] == 1, "Python has made the stream follow, or it is captured")
_ext.follow_stream(0, 5)
for way in (ABOVE, BELOW, READY):
    seen, launched_on, given = change(lambda: norm(way=way))
    kit.check(seen == {"launches": 1, "allocated": 2, "streams_asked": 1} and launched_on == 5 and len(given) == 2, way, seen, given)
    given = None
at = framework.parameters()
kit.check(at[:2] == [1 << 32, 2 << 32] and at[7:9] == [8 << 32, 9 << 32] and at[9] == 9 << 32 and at[10] == 1, "addresses and the rank", at)
kit.check(gathered() is NotImplemented, "memory of another use, or of another stream")
keep(0), keep(2)
framework.open(sys.argv[2], (128, 8, 128, 128, 128, 8, 8, 4, 4, 4, 4))
seen, _, given = change(gathered)
kit.check(seen["launches"] == seen["allocated"] == 1 and framework.dims(given)[0][:2] == (128, 64), seen)
given = None
keep(1, 1000)  # replaces the stored memory
grad[0] = True
kit.check(change(gathered)[0]["launches"] == 1, "gradients are on, but nothing asks for one")
grad[0] = False
for what, call in (("too little memory", norm), ("another group", lambda: gathered(group=object())),
                   ("no group", lambda: gathered(group=None)),
                   ("other sizes", lambda: gathered(b=tensor(2, 64, 64))),
                   ("a type that is none", lambda: gathered(tensor(1, 64, 128, F64))),
                   ("a type of a result that is none", lambda: gathered(out_dtype="f8")), ("a tuple", lambda: gathered((1, 2))),
                   ("rows that no two ranks have", lambda: gathered(tensor(1, 63, 128), scatters=1)),
                   ("an epsilon in words", lambda: norm(epsilon="1")), ("another GPU", lambda: gathered(tensor(1, 64, 128, device=1))),
                   ("ends of no type", lambda: _ext.ranked_dispatch(a, tensor(3, 4, 1), 512, 0, group, ABOVE)),
                   ("as many rows as never", lambda: _ext.ranked_dispatch(a, ends, -1, 0, group, ABOVE)),
                   ("a mode", lambda: (modes.__setitem__(0, 1), gathered(), modes.__setitem__(0, 0))[1])):
    seen, _, given = change(call)
    kit.check(given is NotImplemented and seen["launches"] == seen["allocated"] == 0, what, seen, given)
for words, call in (("exchange memory of rank 0 has 1000 B", norm),
                    ("B: it is 64 x 64, but must be 64 x 128", lambda way: gathered(b=tensor(2, 64, 64), way=way)),
                    ("A: 63 rows; their number must be a multiple of the 2 ranks",
                     lambda way: gathered(tensor(1, 63, 128), scatters=1, way=way)),
                    ("an end for each expert", lambda way: _ext.ranked_dispatch(a, ends, 512, 0, group, way))):
    with kit.refused(words):
        call(way=READY)
keep(1)
framework.open(sys.argv[2], ())  # the mock ignores the parameters of the kernels below, which alternate

# Tests the cost of calls, with and without a launch. The call without a launch has no rows. The bounds are loose, because other programs
# may be running.
none, none_out = tensor(1, 0), tensor(3, 0)
kit.check(change(lambda: product(none, b, none_out))[0]["launches"] == 0)
for name, call in (("a product on the mock", lambda: product(a, b, d)), ("one without rows", lambda: product(none, b, none_out)),
                   ("a convolution", convolution), ("a norm of ranks", norm), ("a product of ranks", gathered)):
    times = []
    for _ in range(50):
        begin = time.perf_counter()
        for _ in range(200):
            call()
        times.append((time.perf_counter() - begin) / 200 * 1e6)
    print(f"{name}: {min(times):.2f} us")
    kit.check(min(times) < 20, name, min(times))
# Tests a loaded kernel. In a forked child, nothing must reach the driver.
framework.open(sys.argv[2], (24, 8, 4))
program, _ = _ext.program(struct_kernel.files(), None, 0, "")


def launch():
    fields = (("x", tensor(1, dtype=F32), False), 32, b"\0\0\0@", ("to", tensor(2, dtype=F32), True))
    _ext.launch(program, (1, 1, 1), (("struct", fields), ("y", tensor(3, dtype=F32), True), b"\0\0\0\0"), None, None)


kit.check(change(launch)[0]["launches"] == 1, "a kernel that was loaded")
# Tests XLA's handlers. A handler that XLA does not capture waits for scalars in the GPU's memory.
known, waiting = (_ext.handlers()[name, "CUDA"] for name in ("ptxbuilder_kernel", "ptxbuilder_kernel_waits"))
kit.check(framework.may_be_captured(known) and not framework.may_be_captured(waiting))
count, bias = ctypes.c_int32(32), ctypes.c_float(1.5)
buffers = ((11, 1 << 32, 32), (11, 2 << 32, 32), (11, 3 << 32, 32), (4, ctypes.addressof(count), -1), (11, ctypes.addressof(bias), -1))
words = (_ext.XLA_STRUCT, 3, _ext.XLA_STRUCT, 4, _ext.XLA_ARGUMENT, 0, _ext.XLA_INTEGER_AT, 3, _ext.XLA_BITS, 0, _ext.XLA_ARGUMENT, 1,
         _ext.XLA_ARGUMENT, 2, _ext.XLA_BITS_AT, 4)
path = struct_kernel.files() + "\n"
for stream, value in ((77, 1.5), (78, -2.0)):
    framework.set_stream(stream)
    bias.value = value
    (seen, launched_on, error) = change(lambda: framework.run_kernel(waiting, path, words, buffers))
    kit.check(error is None and seen["launches"] == 1 and launched_on == stream, error, seen, launched_on)
    kit.check(framework.parameters()[1:] == [3 << 32, *struct.unpack("<I", struct.pack("<f", value))], framework.parameters())
count.value = -1
error = framework.run_kernel(waiting, path, words, buffers)
kit.check("the integer -1 was given: it does not fit" in (error or ""), error)
count.value = 32
framework.set_capturing(True)
seen, _, error = change(lambda: framework.run_kernel(waiting, path, words, buffers))
framework.set_capturing(False)
kit.check("a scalar in the GPU's memory, for which the call waits" in (error or "") and seen["launches"] == 0, error, seen)
pid = os.fork()
if pid == 0:
    for call in (launch, lambda: _ext.product(a, b, d, 1.0, 0.0, 0, 0, 0, None, None, *NONE)):
        with kit.refused("forked from one that had used a device"):
            call()
    os._exit(kit.failures)
kit.check(os.waitpid(pid, 0)[1] == 0, "a child that is forked")
kit.end()

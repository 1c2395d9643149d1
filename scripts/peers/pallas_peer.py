#!/usr/bin/env python3
"""Runs JAX Pallas' hopper_matmul as a contender in gemm_bench, in a separate process. Without arguments, it answers the requests of
gemm_bench.

The kernel multiplies A[m,k] by B[k,n]. A B that is stored as [n,k] is transposed in advance, untimed, and the configuration mentions this.
The configurations that the kernel's own tuning tries are timed for each problem, and the best one is used. An executable contains many
products, which are timed with events on a stream that waits for the first and the last product."""
import ctypes
import functools
import inspect
import os
import re
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the GPU is shared with the benchmark
# Common subexpressions must not be eliminated, because an executable repeats products of the same matrices.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_disable_hlo_passes=cse"

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu as module

import peer

DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}
MOST_PRODUCTS = 128  # limit for one executable, unless there are more sets
LEAD_IN = 1500  # microseconds of work that is queued before the timed work, so that the host stays ahead


class Events:
    """Two CUDA events on a separate stream."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.stream, self.start, self.end = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)  # CU_STREAM_NON_BLOCKING
        self.call("cuEventCreate", ctypes.byref(self.start), 0)
        self.call("cuEventCreate", ctypes.byref(self.end), 0)

    def call(self, name, *arguments):
        status = getattr(self.cuda, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} gives status {status}")

    def record(self, event, array):
        """Records an event as soon as the array is ready. Exporting the array through DLPack makes the stream wait for it."""
        array.__dlpack__(stream=self.stream.value)
        self.call("cuEventRecord", event, self.stream)

    def microseconds(self):
        self.call("cuEventSynchronize", self.end)
        milliseconds = ctypes.c_float()
        elapsed = "cuEventElapsedTime_v2" if hasattr(self.cuda, "cuEventElapsedTime_v2") else "cuEventElapsedTime"
        self.call(elapsed, ctypes.byref(milliseconds), self.start, self.end)
        return 1e3 * milliseconds.value


def configurations(m, n, k):
    """Returns the configurations that hopper_matmul's own tuning tries and that divide the problem evenly, beginning with those that are
    usually best."""
    dimension = module.MatmulDimension
    for width in (8, 16, 4):
        for tile_m, tile_n in ((128, 128), (128, 64), (256, 64), (256, 128)):
            for warpgroups in dimension:
                rows = tile_m * (2 if warpgroups == dimension.M else 1)
                columns = tile_n * (2 if warpgroups == dimension.N else 1)
                for minor in dimension:
                    if m % rows == 0 and n % columns == 0 and k % 64 == 0:
                        yield module.TuningConfig(tile_m=tile_m, tile_n=tile_n, tile_k=64, max_concurrent_steps=4,
                                                  grid_minor_dim=minor, grid_tile_width=width, wg_dimension=warpgroups)


def matmul(config):
    """Returns a function that computes the product, and that is compiled once, however often an executable contains it."""
    takes_c = "c" in inspect.signature(module.matmul).parameters
    return jax.jit(lambda a, b: module.matmul(a, b, None, config) if takes_c else module.matmul(a, b, config))


class Executable:
    """Runs `count` products one after another, and uses the sets alternately."""

    def __init__(self, config, sets, count):
        product = matmul(config)

        def all_products(operands):
            return [product(*operands[i % len(operands)]) for i in range(count)]

        self.count = count
        self.sets = sets
        self.compiled = jax.jit(all_products).lower(sets).compile()
        found = len(re.findall(r'custom_call_target="mosaic_gpu', self.compiled.as_text()))
        if found != count:
            raise peer.Refused(f"{count} products were compiled into {found}")

    def queue(self):
        return self.compiled(self.sets)[-1]


class Product:
    def __init__(self, events, tune_seconds, problem, matrices):
        if not any(configurations(problem.m, problem.n, problem.k)):
            raise peer.Refused("no configuration of hopper_matmul divides the problem")
        self.events = events
        self.sets = [self.upload(problem, a, b) for a, b in matrices.sets]
        self.tune(problem, tune_seconds)

    @staticmethod
    def upload(problem, a, b):
        def array(bits, transposed):
            stored = jax.device_put(np.ascontiguousarray(bits).view(DTYPES[problem.a]))
            return jax.jit(jnp.transpose)(stored) if transposed else stored

        return array(a, not problem.a_k_major), array(b, problem.b_k_major)

    def time(self, executable, runs, each):
        """Returns the microseconds per product. `each` is an estimate of this time."""
        for _ in range(max(1, round(LEAD_IN / (each * executable.count)))):
            result = executable.queue()
        self.events.record(self.events.start, result)
        for _ in range(runs):
            result = executable.queue()
        self.events.record(self.events.end, result)
        return self.events.microseconds() / (runs * executable.count)

    def tune(self, problem, seconds):
        end = time.monotonic() + seconds
        best = None
        tried = failed = 0
        why = ""
        every = list(configurations(problem.m, problem.n, problem.k))
        few = min(len(self.sets), 16)
        for config in every:
            if best and time.monotonic() > end:
                break
            tried += 1
            try:
                executable = Executable(config, self.sets[:few], few)
                executable.queue().block_until_ready()
                each = self.time(executable, 1, 100)
                each = self.time(executable, max(1, round(3000 / (each * few))), each)
            except Exception as error:  # the tile does not fit; hopper_matmul's own tuning skips it too
                failed += 1
                why = peer.one_line(error)
                continue
            if best is None or each < best[0]:
                best = (each, config)
        if best is None:
            raise peer.Refused(f"none of {tried} configurations of hopper_matmul works: {why}")
        self.each, self.config = best
        self.single = matmul(self.config)
        self.executable = self.long_executable()
        c = self.config
        transposed = [name for name, yes in (("A", not problem.a_k_major), ("B", problem.b_k_major)) if yes]
        self.configuration = (
            f"2 warpgroups of {c.tile_m}x{c.tile_n}x{c.tile_k} along {c.wg_dimension}, {c.max_concurrent_steps} stages, "
            f"minor {c.grid_minor_dim}, width {c.grid_tile_width}, best of {tried - failed} of {len(every)}"
            + (f", of a transposed {' and '.join(transposed)}" if transposed else ""))

    def long_executable(self):
        sets = len(self.sets)
        rounds = min(round(peer.GRAPH_MICROSECONDS / self.each / sets), MOST_PRODUCTS // sets)
        try:
            return Executable(self.config, self.sets, sets * max(1, rounds))
        except peer.Refused:
            return Executable(self.config, self.sets, sets)

    def launch(self, number):
        return np.asarray(self.single(*self.sets[number])).view(np.uint16)

    def burst(self, launches):
        return self.time(self.executable, max(1, -(-launches // self.executable.count)), self.each)


def main():
    words = peer.parser(__doc__)
    words.add_argument("--tune-seconds", type=float, default=20, help="most seconds to tune each problem (20)")
    args = words.parse_args()
    make = functools.partial(Product, Events(), args.tune_seconds)
    jax.device_put(np.zeros(1)).block_until_ready()  # fails here if there is no GPU
    if jax.default_backend() != "gpu":
        raise SystemExit("pallas_peer: JAX has no GPU here")
    peer.run(args, f"JAX {jax.__version__}, Pallas' hopper_matmul", make)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Runs the attention of another library as a contender in attention_bench, in a separate process. Without --self-test, it answers the
requests of attention_bench.

The kernels of cuDNN and FlashAttention-2 are part of PyTorch. FlashAttention-3 and FlashAttention's CuTe kernels are measured if python3
can import them. Triton's kernel is in triton_attention.py. Pallas' kernel is JAX's attention_mgpu, whose blocks are tuned for each problem.
PyTorch launches are replayed as CUDA graphs between two events, and Pallas calls are queued one by one."""
import functools
import math
import os
import sys

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the GPU is shared with the benchmark

import numpy as np

import peer


def need_gpu():
    import torch
    if not torch.cuda.is_available():
        raise ImportError("PyTorch finds no GPU")
    return torch


def uploaded(problem, tensors):
    """Returns the PyTorch tensors of each set."""
    import torch
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[problem.type]
    return [tuple(torch.from_numpy(np.array(t).view(np.int16)).cuda().view(dtype) for t in of_set) for of_set in tensors.sets]


def check_taken(problem):
    if problem.type not in ("f16", "bf16"):
        raise peer.Refused("only f16 and bf16 are supported here")
    if problem.left >= 0 or (problem.right >= 0 and not problem.causal):
        raise peer.Refused("windows are not supported here")


class TorchCalls:
    """Calls a PyTorch function. `call_for(problem, sets)` returns a function that computes O from Q, K and V, and a string that describes
    this function."""

    def __init__(self, call_for, problem, tensors):
        from torch_graph import Graphed
        check_taken(problem)
        self.sets = uploaded(problem, tensors)
        self.call, self.configuration = call_for(problem, self.sets)
        self.burst = Graphed([functools.partial(self.call, *of_set) for of_set in self.sets]).burst

    def launch(self, number):
        import torch
        return self.call(*self.sets[number]).contiguous().view(torch.int16).cpu().numpy().view(np.uint16)


def sdpa(backend):
    """Returns the version of one of PyTorch's backends of scaled_dot_product_attention, and a function that creates its calls."""
    torch = need_gpu()
    from torch.nn.attention import SDPBackend, sdpa_kernel
    chosen = getattr(SDPBackend, backend)

    def call_for(problem, sets):
        if problem.lengths:
            raise peer.Refused("this function does not support packed sequences")
        if problem.causal and problem.queries != problem.keys:
            raise peer.Refused("its causal mask needs as many keys as queries")
        options = {"is_causal": problem.causal}
        if problem.heads != problem.key_heads:
            options["enable_gqa"] = True

        def call(q, k, v):
            with sdpa_kernel([chosen]):
                return torch.nn.functional.scaled_dot_product_attention(
                    q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), **options).transpose(1, 2)

        return call, f"scaled_dot_product_attention by {backend}"

    library = f"cuDNN {torch.backends.cudnn.version()}, " if backend == "CUDNN_ATTENTION" else ""
    return f"{library}PyTorch {torch.__version__}", functools.partial(TorchCalls, call_for)


def flash_attention(module):
    """Returns the version of FlashAttention-3 or of FlashAttention's CuTe kernels, and a function that creates their calls."""
    torch = need_gpu()
    imported = __import__(module, fromlist=["flash_attn_func"])

    def call_for(problem, sets):
        options = {"causal": problem.causal}
        function = imported.flash_attn_func
        if problem.lengths:
            offsets, longest = torch.from_numpy(problem.offsets()).cuda(), max(problem.lengths)
            options.update(cu_seqlens_q=offsets, cu_seqlens_k=offsets, max_seqlen_q=longest, max_seqlen_k=longest)
            function = imported.flash_attn_varlen_func

        def call(q, k, v):
            out = function(q, k, v, **options)
            return out[0] if isinstance(out, tuple) else out

        return call, module

    return f"{module} {getattr(imported, '__version__', '')}, PyTorch {torch.__version__}", functools.partial(TorchCalls, call_for)


def triton():
    need_gpu()
    import triton as library
    import triton_attention as module

    def call_for(problem, sets):
        from torch_graph import between_events
        configurations = module.CONFIGURATIONS.get(problem.depth)
        if (problem.lengths or not configurations or problem.depth != problem.value_depth or problem.heads != problem.key_heads
                or problem.queries % 128 or problem.queries != problem.keys):
            raise peer.Refused("it supports heads of 64, 128 and 256 columns, as many key heads as query heads, and whole blocks")
        timed = []
        for configuration in configurations:
            call = functools.partial(module.call, *sets[0], problem.causal, configuration)
            call()  # compiles the kernel
            timed.append((min(between_events(call) for _ in range(3)), configuration))
        best = min(timed)[1]
        return (lambda q, k, v: module.call(q, k, v, problem.causal, best),
                "{}x{}, {} warps, {} stages, best of {}".format(*best, len(timed)))

    return f"Triton {library.__version__}", functools.partial(TorchCalls, call_for)


class PallasCalls:
    """Calls the kernel of Pallas. XLA would merge several calls in one executable, so each call is queued separately."""

    def __init__(self, jax, module, events, problem, tensors):
        import concurrent.futures

        import ml_dtypes
        check_taken(problem)
        if problem.lengths or problem.depth % 64 or problem.depth != problem.value_depth or problem.queries != problem.keys:
            raise peer.Refused("it supports one length, and a multiple of 64 columns")
        self.events = events
        dtype = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}[problem.type]
        # The kernel does not scale the scores, so Q is scaled in advance. This rounds Q once more unless the factor is a power of two.
        scaled = jax.jit(lambda q: (q.astype(np.float32) / math.sqrt(problem.depth)).astype(q.dtype))
        uploads = ((jax.device_put(np.array(t).view(dtype)) for t in of_set) for of_set in tensors.sets)
        self.sets = [(scaled(q), k, v) for q, k, v in uploads]
        configurations = [
            module.TuningConfig(block_q=block_q, block_kv=block_kv, max_concurrent_steps=2, use_schedule_barrier=barrier,
                                causal=problem.causal)
            for block_q in (64, 128) for block_kv in (256, 128, 64) for barrier in (True, False) if problem.queries % block_kv == 0]

        def compiled(config):
            return jax.jit(functools.partial(module.attention, config=config)).lower(*self.sets[0]).compile()

        best, why = None, "no configuration divides the keys"
        with concurrent.futures.ThreadPoolExecutor() as threads:
            for config, made in [(config, threads.submit(compiled, config)) for config in configurations]:
                try:
                    call = made.result()
                    took = min(self.time(call, 4) for _ in range(3))
                except Exception as error:  # noqa: BLE001  the tile is too large; its own tuning skips it too
                    why = peer.one_line(error)
                    continue
                if best is None or took < best[0]:
                    best = (took, config, call)
        if best is None:
            raise peer.Refused(why)
        _, config, self.compiled = best
        self.configuration = (f"{config.block_q}x{config.block_kv}{', schedule barrier' if config.use_schedule_barrier else ''}, "
                              f"best of {len(configurations)}")

    def time(self, call, count):
        """Returns the microseconds per call. Queues two untimed calls, and then `count` calls, which use the sets alternately."""
        for i in range(2):
            result = call(*self.sets[i % len(self.sets)])
        self.events.record(self.events.start, result)
        for i in range(count):
            result = call(*self.sets[i % len(self.sets)])
        self.events.record(self.events.end, result)
        return self.events.microseconds() / count

    def launch(self, number):
        return np.asarray(self.compiled(*self.sets[number])).view(np.uint16)

    def burst(self, launches):
        return self.time(self.compiled, launches)


def pallas():
    import pallas_peer  # imported first, because it sets how XLA compiles
    import jax
    from jax.experimental.pallas.ops.gpu import attention_mgpu
    if jax.default_backend() != "gpu":
        raise ImportError("JAX has no GPU here")
    return f"JAX {jax.__version__}", functools.partial(PallasCalls, jax, attention_mgpu, pallas_peer.Events())


PEERS = {"cudnn": ("cuDNN", functools.partial(sdpa, "CUDNN_ATTENTION")),
         "flash2": ("FlashAttention-2", functools.partial(sdpa, "FLASH_ATTENTION")),
         "flash3": ("FlashAttention-3", functools.partial(flash_attention, "flash_attn_interface")),
         "cute": ("FlashAttention CuTe", functools.partial(flash_attention, "flash_attn.cute")),
         "triton": ("Triton", triton),
         "pallas": ("Pallas", pallas)}


def tell_available():
    """Prints NAME=PEER for each peer that can be imported, and the reasons for the others on standard error."""
    for key, (name, load) in PEERS.items():
        try:
            load()
            print(f"{name}={key}")
        except Exception as error:  # noqa: BLE001  any exception of an import
            print(f"left out: {name}, since python3 cannot import it: {peer.one_line(error)}", file=sys.stderr)


def main():
    words = peer.parser(__doc__)
    words.add_argument("--peer", choices=PEERS, help="whose attention to run")
    words.add_argument("--available", action="store_true", help="print NAME=PEER for each peer that can be imported, and exit")
    args = words.parse_args()
    if args.available:
        return tell_available()
    if not args.peer:
        words.error("--peer is required")
    version, make = PEERS[args.peer][1]()
    return peer.run(args, version, make, peer.Attention)


if __name__ == "__main__":
    main()

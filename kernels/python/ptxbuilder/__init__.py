"""Matrix products, attention and any kernel for NVIDIA Hopper, on tensors of PyTorch, JAX, NumPy and CuPy.

    d = ptxbuilder.matmul(a, b)                  # on the framework's current stream
    o = ptxbuilder.attention(q, k, v, causal=True)
    kernel = ptxbuilder.load("saxpy.cubin")      # any kernel that has a sidecar
    ptxbuilder.warm_up("matmul", [(4096, 4096, 4096)], "bf16")
"""
import sys

from . import _ext
from ._attention import attention, decode, dropout_mask, mla_decode
from ._convolution import conv2d
from ._einsum import einsum, einsum_explained
from ._kernel import Kernel, load
from ._packed import PackedWeights, pack_weights, packed_mm, unpack_weights
from ._product import grouped_mm, matmul, scaled_mm
from ._rows import (append, cross_entropy, cumsum, embedding, layer_norm, mla_append, quantize_128x1, quantize_1x128, rms_norm, rms_scale,
                    rotary, softmax, top_k, transpose)
from ._sparse import SparseMatrix, compress_2_4, decompress_2_4
from ._warm_up import warm_up

if "torch" in sys.modules:
    from . import _torch  # imported before PyTorch's compiler traces a call

    _torch.take_over()

__all__ = ["Kernel", "Linear", "PackedWeights", "SparseMatrix", "all_gather_matmul", "all_reduce_rms_norm", "all_to_all_combine",
           "all_to_all_dispatch", "append", "attention",
           "compress_2_4", "conv2d", "cross_entropy", "cumsum", "decode", "decompress_2_4", "dropout_mask", "einsum", "einsum_explained",
           "embedding", "grouped_mm", "layer_norm", "load", "matmul", "matmul_all_reduce", "matmul_reduce_scatter", "mla_append",
           "mla_decode", "pack_weights", "packed_mm", "quantize_128x1", "quantize_1x128", "ragged_dot", "rms_norm", "rms_scale", "rotary",
           "scaled_dot_product_attention", "scaled_mm", "softmax", "top_k", "transpose", "unpack_weights", "warm_up"]
__version__ = ".".join(str(_ext.VERSION // part % 100) for part in (10000, 100, 1))


def __getattr__(name):
    # The modules below import PyTorch or JAX; no other module of the package imports a framework that the caller does not use.
    if name == "ragged_dot":
        from ._jax.product import ragged_dot as found
    elif name == "Linear":
        from ._torch.linear import Linear as found
    elif name in ("all_gather_matmul", "all_reduce_rms_norm", "all_to_all_combine", "all_to_all_dispatch", "matmul_all_reduce",
                  "matmul_reduce_scatter"):
        from ._torch import ranks
        found = getattr(ranks, name)
    elif name == "scaled_dot_product_attention":
        from ._torch.sdpa import scaled_dot_product_attention as found
    else:
        raise AttributeError(f"module 'ptxbuilder' has no attribute {name!r}")
    return found

"""The operations on JAX arrays, called through XLA's foreign function interface, on a GPU or, with the emulator, on the CPU."""
from .attention import attention
from .convolution import conv2d
from .einsum import einsum
from .kernel import call
from .packed import packed_kit, packed_mm
from .product import matmul, sparse
from .rows import rows

__all__ = ["attention", "call", "conv2d", "einsum", "matmul", "packed_kit", "packed_mm", "rows", "sparse"]

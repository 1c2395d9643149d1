"""The operations on PyTorch tensors."""
from .attention import attention
from .convolution import conv2d
from .einsum import einsum
from .kernel import call
from .packed import packed_kit, packed_mm
from .product import matmul, take_over
from .rows import rows
from .tensors import sparse

__all__ = ["attention", "call", "conv2d", "einsum", "matmul", "packed_kit", "packed_mm", "rows", "sparse", "take_over"]

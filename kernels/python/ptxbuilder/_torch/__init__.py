"""PyTorch's tensors."""
from .attention import attention
from .einsum import einsum
from .kernel import call
from .product import matmul, take_over
from .rows import rows

__all__ = ["attention", "call", "einsum", "matmul", "rows", "take_over"]

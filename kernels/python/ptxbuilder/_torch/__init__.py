"""PyTorch's tensors."""
from .attention import attention
from .kernel import call
from .product import matmul, take_over

__all__ = ["attention", "call", "matmul", "take_over"]

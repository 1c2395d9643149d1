"""PyTorch's tensors."""
from .attention import attention
from .kernel import call
from .product import matmul

__all__ = ["attention", "call", "matmul"]

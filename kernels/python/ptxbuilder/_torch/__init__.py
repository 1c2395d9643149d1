"""PyTorch's tensors."""
from .attention import attention
from .kernel import call
from .product import matmul, take_over
from .scaled import matmul_beside

__all__ = ["attention", "call", "matmul", "matmul_beside", "take_over"]

"""JAX's arrays: XLA's foreign function interface, on a GPU and, by the emulator, on the CPU."""
from .attention import attention
from .kernel import call
from .product import matmul
from .scaled import matmul_beside

__all__ = ["attention", "call", "matmul", "matmul_beside"]

"""JAX's arrays: XLA's foreign function interface, on a GPU and, with the emulator, on the CPU."""
from .attention import attention
from .einsum import einsum
from .kernel import call
from .product import matmul, sparse
from .rows import rows

__all__ = ["attention", "call", "einsum", "matmul", "rows", "sparse"]

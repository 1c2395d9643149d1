"""Defines a kernel that neighbours_test.py compiles. The kernel needs its own file, because Triton reads its source."""
import triton
import triton.language as tl


@triton.jit
def twice(x):
    i = tl.arange(0, 128)
    tl.store(x + i, tl.load(x + i) * 2)

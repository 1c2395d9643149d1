"""Compiling before a capture, and before what is timed."""
from . import _attention, _ext, _product
from ._beside import check_beside, halved
from ._common import device_of, name_of, output_of


def warm_up(operation, shapes, dtype, device=0, **words):
    """Compiles the kernels of an operation for each of the shapes, and loads them: before a capture, before serving.

        warm_up("matmul", [(m, n, k), (batches, m, n, k)], "bf16")
        warm_up("attention", [((2, 4096, 32, 128), (2, 4096, 8, 128))], "bf16", causal=True)

    The operands are of `dtype` and lie without gaps. The shapes of an attention are those of Q and of K and V, or of Q, K and
    V. `words` are as those of matmul(), but `bias`, `c`, `scale_a`, `scale_b`, `scale_result`, `amax`, `slope_of` and
    `return_lse` are True where there is one, `alpha_tensor` where alpha is one or a scale has one element, and `b_dtype` is B's
    type where it is another; or as those of attention() but for packed sequences.
    """
    if operation not in _OPERATIONS:
        raise ValueError(f"operation {operation!r} is none of {', '.join(map(repr, _OPERATIONS))}")
    for shape in shapes:
        if not isinstance(shape, (tuple, list)):
            raise ValueError(f"shapes: {shape!r} is none; they are a list of tuples, as [(m, n, k)]")
        _OPERATIONS[operation](device_of(device), tuple(shape), name_of(dtype), **words)


def _matmul(device, shape, name, *, b_dtype=None, out_dtype=None, transpose_a=False, transpose_b=False, bias=False, c=False,
            alpha=1.0, beta=None, activation=None, precise=False, tf32=False, alpha_tensor=False, scale_a=False, scale_b=False,
            scale_result=False, amax=False, slope_of=False, gate=False):
    if len(shape) not in (3, 4):
        raise ValueError(f"shape {shape}: of a product it is (m, n, k) or (batches, m, n, k)")
    *batch, m, n, k = shape
    out_name = name_of(out_dtype) if out_dtype else output_of(name)
    flags = (_ext.TF32 * bool(tf32) | _ext.PRECISE * bool(precise) | _ext.TRANSPOSE_A * bool(transpose_a)
             | _ext.TRANSPOSE_B * bool(transpose_b) | _ext.GATE * bool(gate))
    check_beside(activation, c or None, gate, slope_of or None)
    a = (*batch, k, m) if transpose_a else (*batch, m, k)
    b = (*batch, n, k) if transpose_b else (*batch, k, n)
    whole = (*batch, m, n)
    d, addend = (halved(whole) if gate else whole, out_name), "bfloat16" if out_name.startswith("float8") else out_name
    beside = [(shape, kind) if has else None
              for has, shape, kind in ((alpha_tensor, (1,), "float32"), (scale_a, (*batch, m), "float32"),
                                       (scale_b, (*batch, n), "float32"), (scale_result, (1,), "float32"), (amax, (1,), "float32"),
                                       (slope_of, whole, addend))]
    _product.workspace_of(device, (a, name), (b, name_of(b_dtype) if b_dtype else name), d, (whole, addend) if c else None,
                          ((n,), addend) if bias else None, alpha, (1.0 if c else 0.0) if beta is None else beta, activation,
                          flags, beside if any(beside) else ())


def _of_attention(device, shape, name, *, return_lse=False, **words):
    if len(shape) not in (2, 3) or not all(isinstance(x, (tuple, list)) for x in shape):
        raise ValueError(f"shape {shape}: of an attention it is (Q's, K's and V's) or (Q's, K's, V's)")
    q, k, v = (*shape, shape[-1])[:3]
    numbers = _attention.numbers_of(**words)
    _attention.workspace_of(device, (tuple(q), name), (tuple(k), name), (tuple(v), name), (None, None), numbers, return_lse)


_OPERATIONS = {"matmul": _matmul, "attention": _of_attention}

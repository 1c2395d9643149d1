"""Compiles kernels before a capture or a measurement."""
from . import _attention, _ext, _product
from ._common import device_of, name_of, output_of
from ._sparse import metadata_shape, shares


def warm_up(operation, shapes, dtype, device=0, **words):
    """Compiles and loads the kernels of an operation for each of the shapes, for instance before a capture or before serving.

        warm_up("matmul", [(m, n, k), (batches, m, n, k)], "bf16")
        warm_up("attention", [((2, 4096, 32, 128), (2, 4096, 8, 128))], "bf16", causal=True)

    The operands are assumed to have the type `dtype` and no gaps. For attention, give two shapes, of Q and of K and V, or three, of Q, of K
    and of V. `words` are arguments of matmul(), or of attention() without packed sequences. If the call will have a tensor such as `bias`,
    `c`, `scale_a`, `b_metadata` of sparse weights or `sinks` of attention(), pass True for it; `return_lse` is also True or False.
    `alpha_tensor` is True if alpha will be a tensor or a scale will have one element, and `b_dtype` is B's type if it differs from A's.
    """
    if operation not in _OPERATIONS:
        raise ValueError(f"operation {operation!r} is not one of {', '.join(map(repr, _OPERATIONS))}")
    for shape in shapes:
        if not isinstance(shape, (tuple, list)):
            raise ValueError(f"shapes: {shape!r} is not a list of shapes; pass a list of tuples, such as [(m, n, k)]")
        _OPERATIONS[operation](device_of(device), tuple(shape), name_of(dtype), **words)


def _matmul(device, shape, name, *, b_dtype=None, out_dtype=None, transpose_a=False, transpose_b=False, alpha=1.0, beta=None,
            activation=None, precise=False, tf32=False, gate=False, alpha_tensor=False, **operands):
    if len(shape) not in (3, 4):
        raise ValueError(f"shape {shape}: for a product it must be (m, n, k) or (batches, m, n, k)")
    *batch, m, n, k = shape
    unknown = operands.keys() - set(_product.Operands._fields)
    if unknown:
        raise TypeError(f"warm_up(\"matmul\") got an unexpected keyword argument {sorted(unknown)[0]!r}")
    has = _product.Operands(**{word: there or None for word, there in {**operands, "alpha": alpha_tensor}.items()})
    _product.check_together(activation, has.c, gate, has.slope_of)
    out_name = name_of(out_dtype) if out_dtype else output_of(name)
    beta = (1.0 if has.c else 0.0) if beta is None else beta
    options = _product.Options(alpha, beta, activation, out_name, transpose_a, transpose_b, precise, tf32, gate, device)
    flags = _product.flags_of(options) | _ext.TRANSPOSE_A * bool(transpose_a) | _ext.TRANSPOSE_B * bool(transpose_b)
    k_of_a, k_of_b = (k // share for share in shares(has))
    a = (*batch, k_of_a, m) if transpose_a else (*batch, m, k_of_a)
    b = (*batch, n, k_of_b) if transpose_b else (*batch, k_of_b, n)
    whole = (*batch, m, n)
    types = {"f32": "float32", "s32": "int32", "s64": "int64", "addend": "bfloat16" if out_name.startswith("float8") else out_name}
    shapes = {"one": (1,), "rows": (*batch, m), "columns": (*batch, n), "columns_of_all": (n,), "elements": whole,
              "row_blocks": (*batch, *metadata_shape(m, k)), "column_blocks": (*batch, *metadata_shape(n, k))}
    given = [(shapes[row.shape], types[row.type]) if there else None for row, there in zip(_product.ROWS, has)]
    _product.workspace_of(device, (a, name), (b, name_of(b_dtype) if b_dtype else name),
                          (_product.halved(whole) if gate else whole, out_name), options, flags, given)


def _of_attention(device, shape, name, *, return_lse=False, sinks=False, **words):
    if len(shape) not in (2, 3) or not all(isinstance(x, (tuple, list)) for x in shape):
        raise ValueError(f"shape {shape}: for attention it must be (Q's, K's and V's) or (Q's, K's, V's)")
    q, k, v = (*shape, shape[-1])[:3]
    numbers = _attention.numbers_of(**words)
    heads = q[1 if numbers[-1] & _ext.HEADS_FIRST else 2]
    extras = _attention.Extras(sinks=((heads,), "float32") if sinks else None,
                               dropout_seed=((4,), "int32") if _attention.dropout_of(numbers) > 0 else None)
    _attention.workspace_of(device, (tuple(q), name), (tuple(k), name), (tuple(v), name), extras, numbers, return_lse)


_OPERATIONS = {"matmul": _matmul, "attention": _of_attention}

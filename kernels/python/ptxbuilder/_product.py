"""Matrix products for the tensors of any framework."""
import math
from collections import namedtuple

from . import _ext
from ._ext import eager_product  # imported into this module, because each call finds the name faster than an attribute of _ext
from ._common import (ACTIVATIONS, activation_of, as_they_lie, check_flags, check_number, device_of, door_of, fold, name_of, output_of,
                      untouched, warn_of_work)
from ._sparse import SparseMatrix, shares

# An operand other than A, B and D, as described in the library's table: its word in matmul(); its name in errors; its type, "f32", "addend"
# (D's type, or bf16 if D has 8 bits), "s32" or "s64"; its shape, "one", "rows", "columns", "columns_of_all", "elements", "groups",
# "rows_by_k", "columns_by_k", "blocks", "row_blocks" or "column_blocks"; and its role, "groups", "placement", "gather", "scatter",
# "sparsity", "block_factor", "factor", "residual", "addend", "inputs", "greatest" or "result_factor".
Row = namedtuple("Row", "word, label, type, shape, role")
ROWS = tuple(Row(*row) for row in _ext.OPERANDS)
Operands = namedtuple("Operands", [row.word for row in ROWS], defaults=(None,) * len(ROWS))  # a tensor or None for each of ROWS
ALPHA = Operands._fields.index("alpha")
Options = namedtuple("Options", "alpha, beta, activation, out_dtype, transpose_a, transpose_b, precise, tf32, gate, device")

NO_GRADIENT = ("{}: not supported if a gradient of the product is requested: leave it out, or request no gradient (call it under "
               "torch.no_grad(), or with jax.lax.stop_gradient())")


def is_traced():
    """Returns whether torch.compile is tracing, since it cannot trace the extension. Once PyTorch is imported, PyTorch's own function
    replaces this function."""
    return True


# The arguments are not keyword-only, because Python would look up the default of each keyword-only argument in a dict, which takes 0.2 to
# 0.3 us per call.
def matmul(a, b, bias=None, c=None, alpha=1.0, beta=None, activation=None, out=None, out_dtype=None, transpose_a=False,
           transpose_b=False, precise=False, tf32=False, device=None, scale_a=None, scale_b=None, scale_result=None, amax=None,
           slope_of=None, gate=False, row_bias=None, offs=None, scale_a_1x128=None, scale_b_128x128=None, scale_b_1x128=None,
           a_rows=None, d_rows=None, a_metadata=None, b_metadata=None, add_to_rows=None, counts=None, b_addresses=None):
    """Returns D = activation(alpha A B + beta C + bias + row_bias), rounded once, as a tensor of A's framework.

    A is [.., m, k] and B is [.., k, n], or their transposes; batches are broadcast. Both are f16, both are bf16, or both are f32, which the
    tensor cores truncate to tf32, so `tf32` must be set. Or each is int8 or uint8, or each is e4m3fn or e5m2. D has `out_dtype`, a type of
    the framework or a name such as "f32": f16, bf16, f32, e4m3fn or e5m2, and for integers int32; the default is the operands' type, or
    bf16 for 8-bit floats. C is [.., m, n], bias is [n] and row_bias is [.., m] or [.., m, 1], of D's type, or bf16 if D has 8 bits; beta is
    1 if C is given. `activation` is {activations}; gelu is the approximation with tanh. With `precise`, sums of 8-bit floats are added to
    f32 sums every 128 elements along k.

    Scales are float32 in device memory, like those of torch._scaled_mm. `scale_a`, [.., m] or [.., m, 1], multiplies the rows of A, and
    `scale_b`, [.., n] or [.., 1, n], multiplies the columns of B; a scale with one element multiplies the entire product. `alpha` may also
    be a tensor with one element. D is multiplied by `scale_result`, which has one element, before it is rounded and, if it has 8 bits,
    clamped. `amax`, which has one element, is replaced with the largest |D|, taken before `scale_result` and rounding, if that is greater;
    set it to 0 first. JAX arrays cannot be written: there, matmul() returns (D, amax) if amax is True or an array, and only D if amax is
    False.

    With `gate`, D[.., j] = activation(x[.., 2 j]) x[.., 2 j + 1] for x = alpha A B + bias, which has twice as many columns as D. With
    `slope_of`, [.., m, n] of C's type, D = x activation'(slope_of), the backward pass through an activation.

    With `offs`, int32 in device memory, A [m, k] has the rows of groups one after the other. Group g ends at offs[g], B is [groups, k, n],
    and each group is multiplied by its own matrix. A group may be empty; for rows after the last group, A B is 0. bias and scale_b are then
    [groups, n], and scale_a is [m]. Alternatively, groups divide k, with A [m, k] and B [k, n]; D is then [groups, m, n] and holds the
    product of each group's part. This requires 16-bit types, and is fastest if A is the transpose of a matrix that is laid out like B. The
    host does not read `offs`. An end that is less than the previous one or outside the tensor is replaced with the nearest valid end. Only
    A and B have gradients, and only if nothing is applied after the sum.

    With `counts`, int32 [groups] in device memory, instead of `offs`, each group has m/groups rows of A and D, as for experts with a fixed
    capacity, and only the first counts[g] rows of group g are multiplied. The other rows take no time: in a new D they may hold anything,
    and in `out` they remain unchanged. The length of D's rows must be a multiple of 16 bytes. There is no gradient.

    With `b_addresses`, int64 [groups] in device memory, the matrix of group g of rows begins at address b_addresses[g], as PyTorch's
    data_ptr() returns it. All these matrices have the same shape, type and strides; B [k, n] is any matrix in the same device's memory that
    has them too. Addresses and the strides of rows must be multiples of 16 bytes. The host does not read the addresses, so they may change
    between replays of a captured graph; the caller must keep the matrices alive. A has a gradient. The matrices have no gradient, or zeros
    in JAX, where int64 needs jax_enable_x64.

    With `a_rows`, int32 [m] in device memory, row i of the product uses row a_rows[i] of A, which is [any, k] with contiguous k. For
    instance, the row of a token that an expert processes is read in place instead of being copied. A row may occur any number of times; if
    A has no row with the given number, such as -1, zeros are used. `offs` may divide the rows into groups. `scale_a` and `scale_a_1x128`
    are indexed by the product's rows, so these few numbers must be gathered in advance. Batches and groups of k are not allowed. The
    gradient of a row of A is the sum of the gradients of all its uses, added in float32, on a GPU in no particular order.

    With `d_rows`, int32 [m], row i of the product becomes row d_rows[i] of D. In a new D, which has m rows, each row number must occur
    once. `out` may have any number of rows; its other rows remain unchanged, and a result whose row does not exist in `out`, such as -1, is
    dropped. `scale_a`, for example the weights of an expert router, is indexed by the product's rows. The length of D's rows must be a
    multiple of 16 bytes. To add several results of a token reproducibly, store them in consecutive rows, and add these. Batches, groups of
    k and C are not allowed.

    With `add_to_rows`, int32 [m], row i of the product is rounded and added to row add_to_rows[i] of D, in memory: to the contents of `out`
    or, without `out`, to a copy of `c`, [any, n]. Any number of rows may be added to the same row, and a result whose row does not exist in
    D, such as -1, is dropped. For example, this adds a token's results from several experts, multiplied by the router's weights, `scale_a`.
    The order of additions is not fixed, so the last bits of the sums may differ from call to call, least of all in float32; matmul()
    rejects add_to_rows if torch.use_deterministic_algorithms() is set. D is f16, bf16 or f32. Otherwise the rules of `d_rows` apply, and
    `amax` is not allowed. If a gradient is requested, the framework adds the rows, and `c` and `scale_a` have gradients, too.

    8-bit floats may have block scales, which are also float32. For every 128 elements along k, A has a scale for each row in
    `scale_a_1x128` [.., k/128, m]. B has either a scale for each column in `scale_b_1x128` [.., k/128, n], or a scale for every 128 columns
    in `scale_b_128x128` [.., n/128, k/128]. Quotients are rounded up; with `offs`, the scales of B begin with a dimension of groups. Scales
    with gaps are copied. The sum over every 128 elements along k is multiplied by the scales before it is added to float32 sums.
    scaled_mm() accepts block scales in PyTorch's layout. They have no gradient.

    A may be a SparseMatrix from compress_2_4(), which represents [.., m, k] and stores two of every four elements along k. Alternatively,
    with `transpose_b`, B may be a SparseMatrix that represents [.., n, k], like the weights of a layer. The tensor cores then take half the
    time. The two parts of a SparseMatrix may also be passed separately, as A and `a_metadata`, or as B and `b_metadata`. Sparse matrices
    cannot be combined with block scales, and a sparse A cannot be combined with `offs` or `a_rows`. They have no gradient.

    The call runs on the framework's current stream and the GPU of the operands. Operands on the CPU need a `device`: "emulator", or "cuda"
    to copy them to a GPU and the result back. `out` is written and returned; JAX does not support it. D is differentiable in A, B, C, bias,
    `alpha`, `scale_a`, `scale_b` and `slope_of`. If one of these requires a gradient, the framework computes the operations after the sum,
    and `amax`, `scale_result` and an 8-bit D are rejected. If an operand breaks a rule, raises a ValueError that names both.
    """
    if not is_traced():
        d = eager_product(a, b, out, alpha, beta, activation, out_dtype, transpose_a, transpose_b, precise, tf32, gate, device, False,
                          c, bias, scale_a, scale_b, slope_of, scale_result, amax, row_bias, offs, counts, b_addresses, a_rows, d_rows,
                          add_to_rows, scale_a_1x128, scale_b_128x128, scale_b_1x128, a_metadata, b_metadata)
        if d is not NotImplemented:
            return d
    if isinstance(a, SparseMatrix) or isinstance(b, SparseMatrix):
        for name, x, metadata in (("a_metadata", a, a_metadata), ("b_metadata", b, b_metadata)):
            if isinstance(x, SparseMatrix) and metadata is not None:
                raise ValueError(f"{name} cannot be given with a SparseMatrix, which has its own metadata")
        a, a_metadata = a if isinstance(a, SparseMatrix) else (a, a_metadata)
        b, b_metadata = b if isinstance(b, SparseMatrix) else (b, b_metadata)
        return matmul(a, b, bias, c, alpha, beta, activation, out, out_dtype, transpose_a, transpose_b, precise, tf32, device, scale_a,
                      scale_b, scale_result, amax, slope_of, gate, row_bias, offs, scale_a_1x128, scale_b_128x128, scale_b_1x128, a_rows,
                      d_rows, a_metadata, b_metadata, add_to_rows, counts, b_addresses)
    if beta is None:
        beta = 1.0 if c is not None else 0.0
    check_number("alpha", alpha)
    check_number("beta", beta)
    check_flags(transpose_a=transpose_a, transpose_b=transpose_b, precise=precise, tf32=tf32, gate=gate)
    check_together(activation, c, gate, slope_of)
    if add_to_rows is not None and (c is None) == (out is None):
        raise ValueError(f"add_to_rows: {'neither out nor C is' if c is None else 'both out and C are'} given; pass one of "
                         "them: rows are added to the contents of out, or to a copy of C")
    number, alpha = (alpha, None) if isinstance(alpha, (int, float)) else (1.0, alpha)
    operands = Operands(c=c, bias=bias, alpha=alpha, scale_a=scale_a, scale_b=scale_b, slope_of=slope_of, scale_result=scale_result,
                        amax=amax, row_bias=row_bias, offs=offs, a_rows=a_rows, d_rows=d_rows, scale_a_1x128=scale_a_1x128,
                        scale_b_128x128=scale_b_128x128, scale_b_1x128=scale_b_1x128, a_metadata=a_metadata, b_metadata=b_metadata,
                        add_to_rows=add_to_rows, counts=counts, b_addresses=b_addresses)
    options = Options(number, beta, activation, out_dtype, transpose_a, transpose_b, precise, tf32, gate, device)
    return door_of(a).matmul(a, b, out, operands, options)


if matmul.__doc__:  # python -OO removes docstrings
    matmul.__doc__ = matmul.__doc__.replace("{activations}", " or ".join(f'"{word}"' for word in ACTIVATIONS if word))


def check_together(activation, c, gate, slope_of):
    """Rejects arguments that cannot be combined with a gate or with a slope."""
    if (gate or slope_of is not None) and activation is None:
        raise ValueError(f"{'gate' if gate else 'slope_of'} needs an activation, but it is None")
    if gate and slope_of is not None:
        raise ValueError("gate and slope_of cannot be used together: a product is a gate or a backward pass")
    if gate and c is not None:
        raise ValueError("gate cannot be used with C, which would have two columns for each of D: add it afterwards")


def what_rows_are_added_to(operands, options):
    """Returns C, and the operands and options without C. The rows are added to a copy of C."""
    if options.beta != 1:
        raise ValueError(f"beta: {options.beta}; with add_to_rows it must be 1, since rows are added to an unscaled C: multiply C before")
    if options.out_dtype is not None and name_of(options.out_dtype) != name_of(operands.c.dtype):
        raise ValueError(f"C: its type is {name_of(operands.c.dtype)}, but that of the rows that are added to it is "
                         f"{name_of(options.out_dtype)}")
    return operands.c, operands._replace(c=None), options._replace(beta=0.0)


def has_more(operands, options):
    """Returns whether there is a gate or an operand other than A, B, C and a bias. If there is, the library's kernels do not compute the
    derivatives of the product."""
    return options.gate or any(x is not None for row, x in zip(ROWS, operands) if row.word not in ("c", "bias"))


def alpha_as_given(operands, options, is_tensor):
    """Returns the operands and options after moving alpha to the options, unless alpha is a tensor of the framework."""
    alpha = operands.alpha
    if alpha is None or is_tensor(alpha):
        return operands, options
    return operands._replace(alpha=None), options._replace(alpha=float(alpha))


def by_label(operands):
    return {row.label: x for row, x in zip(ROWS, operands)}


def with_role(operands, *roles):
    """Returns (row, tensor) for each given operand that has one of the roles."""
    return [(row, x) for row, x in zip(ROWS, operands) if x is not None and row.role in roles]


# ---- Scales ----

_RECIPES = {"TensorWise": "scale_{}", "RowWise": "scale_{}", "BlockWise1x128": "scale_{}_1x128", "BlockWise128x128": "scale_{}_128x128"}


def scaled_mm(mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None, swizzle_b=None, bias=None,
              output_dtype="bf16", contraction_dim=(), use_fast_accum=False, *, device=None):
    """A replacement for torch.nn.functional.scaled_mm with the same arguments, for any framework: multiplies [m, k] by [k, n], both 8-bit
    floats with scales.

    A recipe is PyTorch's ScalingType or its name: TensorWise, RowWise, BlockWise1x128 or, only for B, BlockWise128x128. Either both
    operands have block scales or neither has, and recipes with several scales, such as for blocks of 16 or 32, are rejected. Scales have
    PyTorch's layout: 1x128 scales are [m, k/128] for A and [n, k/128] for B, with contiguous columns, and 128x128 scales are [k/128,
    n/128], also with contiguous columns; their first dimension may have up to three more elements. Scales in other layouts are copied, and
    float8_e8m0fnu is converted to float32. ptxbuilder.matmul() supports more operations after the sum.
    """
    for which, swizzle in (("swizzle_a", swizzle_a), ("swizzle_b", swizzle_b)):
        if getattr(swizzle, "name", swizzle) not in (None, "NO_SWIZZLE"):
            raise ValueError(f"{which}: {swizzle}; it must be NO_SWIZZLE or None, since Hopper's products do not swizzle scales")
    if len(contraction_dim):
        raise ValueError(f"contraction_dim: {contraction_dim}; it must be (), since A's columns are multiplied with B's rows")
    words = {}
    for which, recipe, scale in (("a", scale_recipe_a, scale_a), ("b", scale_recipe_b, scale_b)):
        name = getattr(recipe, "name", recipe)
        word = _RECIPES.get(name, "").format(which) if isinstance(name, str) else ""
        if not word or word == "scale_a_128x128":
            raise ValueError(f"scale_recipe_{which}: {recipe}; it must be one of "
                             f"{', '.join(x for x in _RECIPES if which == 'b' or '128x' not in x)}")
        if name.startswith("BlockWise"):
            if scale.ndim != 2:
                raise ValueError(f"scale_{which}: {scale.ndim} dimensions; scales of blocks must have 2")
            scale = scale.swapaxes(0, 1)
        if str(scale.dtype).endswith("float8_e8m0fnu"):
            scale = scale.float() if hasattr(scale, "float") else scale.astype("float32")
        blocks = -(-mat_a.shape[-1] // 128)
        if name == "BlockWise128x128" and blocks <= scale.shape[1] < blocks + 4:
            scale = scale[:, :blocks]
        words[word] = scale
    return matmul(mat_a, mat_b, bias=bias, out_dtype=output_dtype, precise=not use_fast_accum, device=device, **words)


# ---- Groups ----


def grouped_mm(mat_a, mat_b, offs=None, bias=None, out_dtype=None, *, a_rows=None, d_rows=None, d_weights=None, b_addresses=None,
               device=None):
    """A replacement for torch._grouped_mm with the same arguments, for any framework: computes one product for each group of rows, of
    columns or of k.

    The shapes determine the groups:
    - [m, k] and [groups, k, n]: groups of rows, with their ends in `offs`, int32 in device memory; the result is [m, n].
    - [groups, m, k] and [k, n]: groups of columns; the result is [m, n].
    - [m, k] and [k, n]: groups of k; the result is [groups, m, n].
    - [groups, m, k] and [groups, k, n], without `offs`: the matrices are multiplied one by one.

    A bias, [groups, n], requires groups of rows. The host does not read the ends. The result is differentiable in both operands if there is
    no bias; ptxbuilder.matmul() supports more operations after the sum.

    With `a_rows`, int32 [m], the rows of groups are gathered: row i of the product uses row a_rows[i] of mat_a. With `d_rows`, int32 [m],
    row i is multiplied by d_weights[i] and becomes row d_rows[i] of the result; `d_weights`, float32 [m], is the scale_a of matmul(). With
    `b_addresses`, int64 [groups], the matrix of group g begins at address b_addresses[g], and mat_b [k, n] is one of these matrices.
    matmul() describes these arguments.
    """
    if offs is not None and mat_a.ndim == 3 and mat_b.ndim == 2:
        if bias is not None:
            raise ValueError("bias cannot be used with groups of columns, only with groups of rows")
        for word, x in (("a_rows", a_rows), ("d_rows", d_rows), ("d_weights", d_weights), ("b_addresses", b_addresses)):
            if x is not None:
                raise ValueError(f"{word} cannot be used with groups of columns, only with groups of rows")
        return grouped_mm(mat_b.swapaxes(0, 1), mat_a.swapaxes(1, 2), offs, None, out_dtype, device=device).swapaxes(0, 1)
    return matmul(mat_a, mat_b, bias=bias, offs=offs, out_dtype=out_dtype, device=device, a_rows=a_rows, d_rows=d_rows,
                  scale_a=d_weights, b_addresses=b_addresses)


def sizes_of(operands):
    """Returns the tensor with the ends of groups or with their numbers of rows; None if there are no groups."""
    return operands.offs if operands.offs is not None else operands.counts


def groups_k(a, b, operands, of_b=1):
    """Returns whether groups divide k rather than rows. Raises ValueError if the operands' shapes do not match. `of_b` is the ratio of the
    length of k to the number of elements that B stores along k."""
    word, offs = "counts" if operands.offs is None else "offs", sizes_of(operands)
    if name_of(offs.dtype) != "int32" or offs.ndim != 1:
        raise ValueError(f"{word}: {tuple(offs.shape)} of {name_of(offs.dtype)}; it must be [groups] of int32")
    if a.ndim != 2 or b.ndim not in (2, 3):
        raise ValueError(f"A and B: they have {a.ndim} and {b.ndim} dimensions; they must have 2 and 3 if rows are in groups, and 2 and 2 "
                         "if k is")
    if a.shape[-1] != b.shape[-2] * of_b:
        raise ValueError(f"B: {b.shape[-2] * of_b} rows, but A has {a.shape[-1]} columns")
    if operands.b_addresses is not None:
        addresses = operands.b_addresses
        if name_of(addresses.dtype) != "int64" or tuple(addresses.shape) != tuple(offs.shape):
            raise ValueError(f"b_addresses: {tuple(addresses.shape)} of {name_of(addresses.dtype)}; it must be {tuple(offs.shape)} of "
                             "int64")
        if b.ndim != 2:
            raise ValueError(f"b_addresses: B has {b.ndim} dimensions; it must be one of the matrices, [k, n]")
        return False
    if b.ndim == 3 and b.shape[0] != offs.shape[0]:
        raise ValueError(f"B: {b.shape[0]} matrices, but {word} has the {'ends' if word == 'offs' else 'rows'} of {offs.shape[0]} groups")
    if b.ndim == 2 and operands.offs is None:
        raise ValueError("counts: B has 2 dimensions; it must have a matrix for each group of rows, [groups, k, n]")
    return b.ndim == 2


def rows_of(a, a_rows):
    """Returns the number of rows of A in the product, which is the number of gathered rows if there are `a_rows`."""
    if a_rows is None:
        return a.shape[-2]
    if name_of(a_rows.dtype) != "int32" or a_rows.ndim != 1:
        raise ValueError(f"a_rows: {tuple(a_rows.shape)} of {name_of(a_rows.dtype)}; it must be [m] of int32")
    if a.ndim != 2:
        raise ValueError(f"a_rows: A has {a.ndim} dimensions; it must be a matrix: multiply its batches one by one")
    return a_rows.shape[0]


def grouped_shape(a, b, operands, of_b=1):
    if not groups_k(a, b, operands, of_b):
        return rows_of(a, operands.a_rows), b.shape[-1]
    if operands.a_rows is not None:
        raise ValueError("a_rows cannot be used with k in groups, since it selects rows of the product")
    return operands.offs.shape[0], a.shape[0], b.shape[1]


def gathered_shape(a, b, a_rows, of_b=1):
    """Returns the shape of the product of a matrix's gathered rows and one matrix B. `of_b` is the ratio of the length of k to the number
    of elements that B stores along k."""
    rows = rows_of(a, a_rows)
    if b.ndim != 2 or a.shape[-1] != b.shape[-2] * of_b:
        raise ValueError(f"B: its shape is {tuple(b.shape)}; with a_rows and without offs it must be [{a.shape[-1]}, n], with as many rows "
                         "as A has columns")
    return rows, b.shape[1]


def groups_of(operands, b):
    """Returns the number of groups of rows as a shape, (groups,); returns () for groups of k."""
    return tuple(operands.b_addresses.shape) if operands.b_addresses is not None else tuple(b.shape[:-2])


def gradients_of_groups(product, turned, a, b, grad, needs, of_k):
    """Returns the gradients of A and B, or None for a gradient that is not needed. product(a, b, like) computes them for the same groups,
    which divide k if `of_k` is true, else rows.
    """
    if of_k:
        return (turned(product(b, turned(grad), a)) if needs[0] else None, product(turned(a), grad, b) if needs[1] else None)
    return product(grad, turned(b), a) if needs[0] else None, product(turned(a), grad, b) if needs[1] else None


def only_offs(operands, options):
    """Rejects operands that have no gradient if there are groups."""
    if operands.counts is not None:
        raise ValueError(NO_GRADIENT.format("counts"))
    others = [row.word for row, x in zip(ROWS, operands) if x is not None and row.role not in ("groups", "placement", "gather", "scatter")]
    others += [word for word in ("alpha", "activation") if getattr(options, word) not in (None, 1.0)]
    for word in others:
        raise ValueError(NO_GRADIENT.format(f"{word} with offs"))


# ---- The layout of operands ----


def halved(shape):
    """Returns the shape of the result of a gate, given the shape of the product."""
    *others, columns = shape
    if columns % 2:
        raise ValueError(f"gate: B has {columns} columns; their number must be even, since they come in pairs")
    return (*others, columns // 2)


def _check_float32(label, x):
    if not hasattr(x, "dtype"):
        raise ValueError(f"{label}: {x!r} is not a tensor; it must be a tensor of float32")
    if name_of(x.dtype) != "float32":
        raise ValueError(f"{label}: its type is {name_of(x.dtype)}; it must be float32")


def one(label, x):
    """Rejects a tensor that is not float32 or does not have exactly one element."""
    _check_float32(label, x)
    if math.prod(x.shape) != 1:
        raise ValueError(f"{label}: its shape is {tuple(x.shape)}; it must have one element")
    return x


def in_lines(operands, rows, columns):
    """Returns the operands that are not matrices, as (row, tensor, shape). Operands of rows have the shape `rows`, the shape of A without
    k, and operands of columns have the shape `columns`, the shape of B without k. The shape of a factor with one element is "one",
    regardless of its row."""
    all_in_lines = []
    for row, x in zip(ROWS, operands):
        if x is None or row.shape in ("elements", "groups") or row.role in (
                "gather", "scatter", "sparsity", "block_factor"):
            continue
        if row.type == "f32":
            _check_float32(row.label, x)
        shape = "one" if row.role == "factor" and math.prod(x.shape) == 1 else row.shape
        if shape == "one":
            x = one(row.label, x)
        elif shape in ("rows", "columns"):
            lines, with_one = (rows, (*rows, 1)) if shape == "rows" else (columns, (*columns[:-1], 1, columns[-1]))
            if tuple(x.shape) != tuple(lines) and tuple(x.shape) != tuple(with_one):  # Dynamo cannot evaluate `in` for shapes with symbols
                raise ValueError(f"{row.label}: its shape is {tuple(x.shape)}; it must be {tuple(lines)} or "
                                 f"{tuple(with_one)}{', or have one element' if row.role == 'factor' else ''}")
            x = x.reshape(lines)
        all_in_lines.append((row, x, shape))
    return all_in_lines


def block_factors(operands, rows, columns, depth):
    """Returns the block factors as (row, tensor), after checking that their shapes match those of A and B."""
    blocks = -(-depth // 128)
    for row, x in with_role(operands, "block_factor"):
        _check_float32(row.label, x)
        batch, *line = {"rows_by_k": (rows[:-1], blocks, rows[-1]), "columns_by_k": (columns[:-1], blocks, columns[-1]),
                        "blocks": (columns[:-1], -(-columns[-1] // 128), blocks)}[row.shape]
        if tuple(x.shape) != (*batch, *line):
            raise ValueError(f"{row.label}: its shape is {tuple(x.shape)}; it must be {(*batch, *line)}")
        yield row, x


def laid(kit, operands, rows, columns, folded, shape, depth):
    """Returns the operands in the extension's form, for a folded product of `depth`."""
    *batch, m, n = shape
    by_word, has_groups = {}, sizes_of(operands) is not None
    for row, x, kind in in_lines(operands, tuple(rows), tuple(columns)):
        if kind == "rows":
            x = kit.compact(kit.broadcast_to(x, (*batch, m)).reshape(folded[:-1]))
        elif kind == "columns":  # shared by all rows of all batches, if these were folded into one matrix
            x = kit.compact(x.reshape(columns) if has_groups else x.reshape(n) if len(folded) == 2
                            else kit.broadcast_to(x, (*batch, n)).reshape(folded[0], n))
        elif kind == "one" and row.role == "factor":
            x = x.reshape(1) if by_word.get("alpha") is None else by_word["alpha"] * x.reshape(1)
            row = ROWS[ALPHA]
        by_word[row.word] = x
    for row, x in block_factors(operands, tuple(rows), tuple(columns), depth):
        if not has_groups and batch:
            lines = x.shape[-2:]
            if len(folded) == 3:
                x = kit.broadcast_to(x, (*batch, *lines)).reshape(folded[0], *lines)
            elif row.shape == "rows_by_k":  # for all rows of all batches, which were folded into one matrix
                x = kit.broadcast_to(x, (*batch, *lines)).reshape(-1, *lines).swapaxes(0, 1).reshape(lines[0], folded[0])
            else:
                x = x.reshape(lines)
        by_word[row.word] = kit.compact(x)
    for row, x in with_role(operands, "groups", "placement", "gather", "scatter"):
        by_word[row.word] = kit.compact(x)
    for row, x in with_role(operands, "sparsity"):
        words = x.shape[-2:]
        if not has_groups and batch and len(folded) == 3:
            x = kit.broadcast_to(x, (*batch, *words)).reshape(folded[0], *words)
        elif not has_groups and batch and row.shape == "row_blocks":
            raise ValueError(f"{row.label}: batches of A with one B would be multiplied as one matrix: give B the same number of batches, "
                             "or compress the rows of all batches as one matrix")
        elif not has_groups and batch:
            x = x.reshape(words)
        by_word[row.word] = kit.compact(x)
    for row, x in zip(ROWS, operands):
        if x is not None and row.shape == "elements":
            if tuple(x.shape) != tuple(shape):
                raise ValueError(f"{row.label}: its shape is {tuple(x.shape)}, but that of the product is {tuple(shape)}")
            by_word[row.word] = x.reshape(folded)
    return Operands(**by_word)


def run(kit, a, b, out, operands, options, stream=None):
    """Computes one product of tensors of any rank with any strides; `kit` has the framework's functions that create tensors and pass them.

    If the library rejects the layout of an operand, the operand is copied, so that it is contiguous along k, and the call is tried again
    once.
    """
    if operands.add_to_rows is not None and out is None:
        c, operands, options = what_rows_are_added_to(operands, options)
        out = kit.copy(c)
    a = a.swapaxes(-1, -2) if options.transpose_a else a
    b = b.swapaxes(-1, -2) if options.transpose_b else b
    of_a, of_b = shares(operands)
    has_groups = sizes_of(operands) is not None
    of_k = has_groups and groups_k(a, b, operands, of_b)
    if not has_groups and operands.a_rows is not None:
        folded = shape = gathered_shape(a, b, operands.a_rows, of_b)
        lines = (shape[:-1], shape[-1:])
    elif not has_groups:
        lines = (a.shape[:-1], (*b.shape[:-2], *b.shape[-1:]))
        a, b, folded, shape = fold(kit.broadcast_shapes, kit.broadcast_to, a, b, (of_a, of_b))
    else:
        folded = shape = grouped_shape(a, b, operands, of_b)
        lines = (shape[:-1], (*(shape[:-2] if of_k else groups_of(operands, b)), shape[-1]))
    operands = laid(kit, operands, *lines, folded, shape, of_a * a.shape[-1])
    device = device_of(options.device)
    if device == _ext.EMULATOR:
        warn_of_work(math.prod(folded) * of_a * a.shape[-1])
    if options.gate:
        folded, shape = halved(folded), halved(shape)
    out_dtype = options.out_dtype
    name = name_of(a.dtype if out_dtype is None and out is None else out_dtype or out.dtype)
    if out_dtype is None and out is None:
        name = output_of(name)
    is_made = out is None
    if is_made:
        result = out = kit.empty(a, folded, name)
    else:
        if with_role(operands, "scatter") and out.ndim == 2 and out.shape[1] == shape[-1]:
            folded = shape = tuple(out.shape)
        if tuple(out.shape) != shape:
            raise ValueError(f"D: its shape is {tuple(out.shape)}, but that of the product is {shape}")
        if out_dtype is not None and name_of(out.dtype) != name:
            raise ValueError(f"D: its type is {name_of(out.dtype)}, but out_dtype is {name}")
        result = kit.view(out, folded)
    values = (float(options.alpha), float(options.beta), activation_of(options.activation), flags_of(options), 0, device, stream)
    result = kit.tensor(result)
    matrices = [i for i, row in enumerate(ROWS) if row.shape == "elements"]
    given = [None if x is None or i in matrices else kit.tensor(x) for i, x in enumerate(operands)]

    def as_it_lies(x, is_a):  # the rows have length k; with groups of k, they have lengths m and n
        return x if is_a != of_k else x.swapaxes(-1, -2)

    def call(a, b, *elements):
        for i, x in zip(matrices, elements):
            given[i] = None if x is None else kit.tensor(x)
        _ext.product(kit.tensor(as_it_lies(a, True)), kit.tensor(as_it_lies(b, False)), result, *values, *given)

    # A copy of B is contiguous along k, as some types require. With b_addresses, B must not be copied, because a copy would contain only
    # one of the matrices.
    a, b, elements = as_it_lies(a, True), as_it_lies(b, False), [operands[i] for i in matrices]
    if operands.b_addresses is not None:
        as_they_lie(lambda a, *elements: call(a, b, *elements), kit.compact, a, *elements)
    else:
        as_they_lie(call, kit.compact, a, b, *elements)
    return out.reshape(shape) if is_made and folded != shape else out


def flags_of(options):
    """Returns the flags for the options. The tensors have already been transposed as requested."""
    return _ext.TF32 * bool(options.tf32) | _ext.PRECISE * bool(options.precise) | _ext.GATE * bool(options.gate)


def workspace_of(device, a, b, d, options, flags, operands):
    """Compiles a product of compact tensors, each given as (shape, type's name), and returns the size of its workspace in bytes."""
    a, b, d, *operands = untouched(a, b, d, *operands)
    return _ext.product_workspace(device, a, b, d, float(options.alpha), float(options.beta), activation_of(options.activation), flags,
                                  *operands)


# ---- Operations after the sum, computed with the framework's own functions, which it can differentiate ----


def multiplied(x, lines):
    """Returns the float32 sum x times the factors in `lines`, the result of in_lines()."""
    for row, factor, shape in lines:
        if row.role == "factor":
            x = x * _spread(factor, shape)
    return x


def added(x, operands, lines, beta, cast):
    """Returns x plus beta C plus all addends; `cast` converts C and the addends to x's type."""
    for row, c in with_role(operands, "residual"):
        x = x + beta * cast(c)
    for row, addend, shape in lines:
        if row.role == "addend":
            x = x + _spread(cast(addend), shape)
    return x


def _spread(x, shape):
    if shape == "one":
        return x.reshape(())
    return x[..., :, None] if shape == "rows" else x[..., None, :] if shape == "columns" else x


def activated(x, operands, gate, function, slope):
    """Returns the activation of x, or x times the activation's slope. slope(x, inputs) returns x times the slope at `inputs`."""
    if gate:
        halved(x.shape)  # raises ValueError if the number of columns is odd
        return function(x[..., 0::2]) * x[..., 1::2]
    for _, inputs in with_role(operands, "inputs"):
        return slope(x, inputs)
    return function(x)


def check_elements(operands, shape, dtype):
    """Rejects the matrices and addends that the library would reject. Used for products with a requested derivative."""
    for row, x in zip(ROWS, operands):
        wanted = {"elements": shape, "columns_of_all": shape[-1:]}.get(row.shape)
        if x is not None and row.type == "addend" and (x.dtype != dtype or wanted is not None and x.shape != wanted):
            raise ValueError(f"{row.label}: {tuple(x.shape)} of {x.dtype}; it must be "
                             f"{tuple(wanted) if wanted is not None else 'a tensor'} of {dtype}")

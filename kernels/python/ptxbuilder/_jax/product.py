"""The product of JAX arrays, traced or not, as a JAX primitive. If its only operands are A, B, C and a bias, its derivatives use the same
kernels. With more operands, JAX functions compute the operations after the sum, and JAX derives their derivatives."""
import functools
import math
import types

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from .. import _ext, _numpy, _product
from .._common import activation_of, fold, name_of, output_of, warn_of_work
from .._product import NO_GRADIENT, ROWS, Operands, Options
from .._sparse import shares
from .ffi import alike, check_arrays, described
from .ffi import device as traced_device
from .ffi import ffi_call, refuse_device

_KIT = types.SimpleNamespace(broadcast_to=jnp.broadcast_to, compact=lambda x: x)
GREATEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
_TRANSPOSES = _ext.TRANSPOSE_A | _ext.TRANSPOSE_B
_BARE = {"beta": 0.0, "activation": None}  # the options of a bilinear product


def turned(x):
    return jnp.swapaxes(x, -1, -2)


def call(a, b, operands, options):
    """Computes a product of matrices or of batches of matrices, stored as `options` describe. Returns (D,), or (D, other results)."""
    name = options.out_dtype
    flags = _product.flags_of(options) | _ext.TRANSPOSE_A * options.transpose_a | _ext.TRANSPOSE_B * options.transpose_b

    of_k = operands.offs is not None and b.ndim == 2 and operands.b_addresses is None
    if of_k:  # with groups of k, the rows have lengths m and n
        a = a if flags & _ext.TRANSPOSE_A else turned(a)
        b = turned(b) if flags & _ext.TRANSPOSE_B else b
        flags = flags & ~_TRANSPOSES | _ext.TRANSPOSE_A

    adds = operands.add_to_rows is not None

    def as_it_lies(a, b, flags):
        rows, columns = a.shape[-1 if flags & _ext.TRANSPOSE_A else -2], b.shape[-2 if flags & _ext.TRANSPOSE_B else -1]
        rows = rows if operands.a_rows is None else operands.a_rows.shape[0]
        groups = operands.offs.shape if of_k else ()
        shape = (*groups, *a.shape[:-2], rows, columns // 2 if options.gate else columns)
        if adds:
            shape = operands.c.shape
        of_a, of_b, *given = described(a, b, *(operands._replace(c=None) if adds else operands))
        workspace = _product.workspace_of(traced_device(), of_a, of_b, (shape, name), options, flags, given)
        return shape, flags, a, b, workspace

    try:
        shape, flags, a, b, workspace = as_it_lies(a, b, flags)
    except ValueError:  # some types must be contiguous along k
        if operands.b_addresses is not None:  # a copy of B would contain only one of the matrices
            raise
        a = turned(a) if flags & _ext.TRANSPOSE_A else a
        b = b if flags & _ext.TRANSPOSE_B else turned(b)
        shape, flags, a, b, workspace = as_it_lies(a, b, flags & ~_TRANSPOSES | _ext.TRANSPOSE_B)
    given, results, aliases = [a, b], [(shape, name)], {}
    for i, (row, x) in enumerate(zip(ROWS, operands)):
        if x is None:
            continue
        if row.role == "greatest":
            aliases[len(given)] = len(results)
            results.append((x.shape, "float32"))
        elif adds and row.word == "c":  # C shares the memory of D
            aliases[len(given)] = 0
        given.append(x)
        flags |= _ext.HAS_OPERAND << i
    return ffi_call("ptxbuilder_matmul", results, workspace, given, [options.alpha, options.beta],
                    [activation_of(options.activation), flags], aliases)


def _in_f32(function):
    return lambda z: function(z.astype(jnp.float32)).astype(z.dtype)


_FUNCTIONS = {None: lambda x: x, "relu": jax.nn.relu, "gelu": functools.partial(jax.nn.gelu, approximate=True), "silu": jax.nn.silu,
              "relu_squared": lambda x: jnp.square(jax.nn.relu(x))}
SMOOTH = {name: _in_f32(function) for name, function in _FUNCTIONS.items() if name not in (None, "relu")}


def _warn(a, b, options):
    if traced_device() == _ext.EMULATOR:
        warn_of_work(math.prod(a.shape) * b.shape[-2 if options.transpose_b else -1])


# ---- Products with no other operands than C and a bias ----

# A primitive whose operands are A, B, and C and bias if `words` lists them. A and B are matrices or have the same number of batches, and
# are stored as `options` describe; `out_dtype` is a type's name. The rules of the primitive use the primitive itself, so that jvp, vmap and
# transposition can be combined in any order.
_product_p = Primitive("ptxbuilder_matmul")


def _bound(a, b, operands, options):
    given = {word: x for word, x in operands._asdict().items() if x is not None}
    return _product_p.bind(a, b, *given.values(), words=tuple(given), options=options)


def _computed(a, b, *beside, words, options):
    return call(a, b, Operands(**dict(zip(words, beside))), options)[0]


_product_p.def_impl(jax.jit(_computed, static_argnames=("words", "options")))
mlir.register_lowering(_product_p, mlir.lower_fun(_computed, multiple_results=False))


@_product_p.def_abstract_eval
def _(a, b, *beside, **words):
    d, = jax.make_jaxpr(functools.partial(_computed, **words))(a, b, *beside).out_avals  # reports what is wrong
    _warn(a, b, words["options"])
    return d


def _with_batches(operands, dims, *, words, options):
    """Implements the rule for jax.vmap: the mapped dimension becomes another batch dimension."""
    size, = {x.shape[dim] for x, dim in zip(operands, dims) if dim is not None}
    operands = [x if dim is None else jnp.moveaxis(x, dim, 0) for x, dim in zip(operands, dims)]
    (a, b, *beside), (of_a, of_b, *of_beside) = operands, (dim is not None for dim in dims)
    beside, are_mapped = Operands(**dict(zip(words, beside))), dict(zip(words, of_beside))
    a = turned(a) if options.transpose_a else a
    b = turned(b) if options.transpose_b else b
    rank = max(a.ndim - of_a, b.ndim - of_b)

    def ahead(x, is_ahead):  # adds a new first dimension with one element if the operand lacks the dimension
        x = x if is_ahead else x[None]
        return x.reshape(x.shape[0], *(1,) * (rank + 1 - x.ndim), *x.shape[1:])

    a, b = ahead(a, of_a), ahead(b, of_b)
    batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2], (size,) + (1,) * (rank - 2))
    shape = (*batch, a.shape[-2], b.shape[-1])
    c, bias, beta = beside.c, beside.bias, options.beta
    if c is not None:
        c = jnp.broadcast_to(ahead(c, are_mapped["c"]), shape)
    if bias is not None and are_mapped["bias"]:  # a bias for each batch is added to C, which has batches
        bias = jnp.broadcast_to(ahead(bias, True), shape)
        bias, c, beta = None, bias if c is None else (beta * c + bias).astype(bias.dtype), 1.0
    if batch != jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2]):
        a = jnp.broadcast_to(a, (*batch, *a.shape[-2:]))
    return general(a, b, bias, c, options._replace(beta=beta, transpose_a=False, transpose_b=False)), 0


batching.primitive_batchers[_product_p] = _with_batches


def _moved(primals, tangents, *, words, options):
    """Implements the rule for jax.jvp: returns D and its tangent, which is linear in the tangents of the operands."""
    name, activation = options.out_dtype, options.activation
    if name in GREATEST:
        raise ValueError(NO_GRADIENT.format(f"out_dtype of {name}"))
    a, b = primals[:2]
    moving = {word: x for word, x in zip(("a", "b", *words), tangents) if not isinstance(x, ad.Zero)}
    if a.dtype.itemsize == 1 and {"a", "b"} & set(moving):
        raise ValueError(f"A and B of {a.dtype} have no gradients")
    # The derivatives of smooth activations need the activations' inputs, which are kept.
    d = _product_p.bind(*primals, words=words, options=options._replace(activation=None) if activation in SMOOTH else options)
    bare, terms = options._replace(**_BARE), []
    if "a" in moving:
        terms.append(_bound(moving["a"], b, Operands(), bare))
    if "b" in moving:
        terms.append(_bound(a, moving["b"], Operands(), bare))
    if "c" in moving:
        terms.append(moving["c"] * jnp.asarray(options.beta, d.dtype))
    if "bias" in moving:  # converts to f32 first, so that the sum in the transposed function has type f32
        terms.append(jnp.broadcast_to(moving["bias"].astype(jnp.float32), d.shape).astype(d.dtype))
    moved = functools.reduce(jnp.add, terms)
    if activation == "relu":
        return d, jnp.where(d > 0, moved, jnp.zeros_like(moved))
    return jax.jvp(SMOOTH[activation], (d,), (moved,)) if activation in SMOOTH else (d, moved)


ad.primitive_jvps[_product_p] = _moved


def factor_of(grad, dtype):
    """Returns (factor, unit) for an incoming gradient: the factor has type `dtype`, and times the unit it is the gradient. The unit is
    None, or a power of two that brings bf16 or f32 numbers into the range of f16. If an element is infinite or NaN, the unit is 1."""
    if dtype != jnp.float16 or grad.dtype == dtype or grad.size == 0:
        return grad.astype(dtype), None
    most = jnp.abs(jax.lax.stop_gradient(grad)).max().astype(jnp.float32)
    exponent = jnp.clip(jnp.nan_to_num(jnp.floor(jnp.log2(most)), nan=14, posinf=14), -100, 127) - 14
    unit = jnp.ldexp(jnp.float32(1), exponent.astype(jnp.int32))
    return (grad / unit).astype(dtype), unit


def in_unit(product, unit, dtype):
    """Returns product(dtype) times the unit that factor_of() returned, rounded once."""
    return product(dtype) if unit is None else (product(jnp.float32) * unit).astype(dtype)


def _transposed(dz, a, b, *beside, words, options):
    """Implements the rule for transposition: returns the gradient of A or of B, whichever is undefined. There are no other operands,
    because the rule for jax.jvp creates only products without them."""
    transpose_a, transpose_b = options.transpose_a, options.transpose_b
    is_a = ad.is_undefined_primal(a)
    unknown, known = (a.aval, b) if is_a else (b.aval, a)
    if isinstance(dz, ad.Zero):
        return (ad.Zero(unknown), None) if is_a else (None, ad.Zero(unknown))
    factor, unit = factor_of(dz, known.dtype)

    def product(x, y, turn_x, turn_y):
        return in_unit(lambda dtype: _bound(x, y, Operands(), options._replace(out_dtype=name_of(dtype), transpose_a=turn_x,
                                                                                transpose_b=turn_y)), unit, unknown.dtype)

    if is_a:
        return product(b, factor, transpose_b, True) if transpose_a else product(factor, b, False, not transpose_b), None
    return None, product(factor, a, True, transpose_a) if transpose_b else product(a, factor, not transpose_a, False)


ad.primitive_transposes[_product_p] = _transposed


def folded(a, b, transpose_a, transpose_b, of_k=(1, 1)):
    """Returns (A, B, whether A is transposed, whether B is transposed, the folded shape, the shape) like fold(), but without copies. `of_k`
    is the result of shares()."""
    if a.ndim == b.ndim <= 3 and a.shape[:-2] == b.shape[:-2]:
        k, k_of_b = a.shape[-2 if transpose_a else -1], b.shape[-1 if transpose_b else -2]
        if a.ndim < 2 or k * of_k[0] != k_of_b * of_k[1]:
            fold(jnp.broadcast_shapes, jnp.broadcast_to, a, turned(b) if transpose_b else b, of_k)  # reports what is wrong
            raise ValueError(f"B: {k_of_b} rows, but A has {k} columns")
        shape = (*a.shape[:-2], a.shape[-1 if transpose_a else -2], b.shape[-2 if transpose_b else -1])
        return a, b, transpose_a, transpose_b, shape, shape
    a = turned(a) if transpose_a else a
    a, b, whole, shape = fold(jnp.broadcast_shapes, jnp.broadcast_to, a, turned(b) if transpose_b else b, of_k)
    return (a, turned(b) if transpose_b else b, False, transpose_b, whole, shape)  # B in its stored layout


def _laid(a, b, operands, options):
    """Returns A, B, operands and options in the form that call() accepts, and the product's shape."""
    of_a, of_b, transpose_a, transpose_b, whole, shape = folded(a, b, options.transpose_a, options.transpose_b, shares(operands))
    operands = _product.laid(_KIT, operands, (*a.shape[:-2], shape[-2]), (*b.shape[:-2], shape[-1]), whole, shape,
                              a.shape[-2 if options.transpose_a else -1])
    return of_a, of_b, operands, options._replace(transpose_a=transpose_a, transpose_b=transpose_b), shape


@functools.partial(jax.jit, static_argnums=4)
def general(a, b, bias, c, options):
    a, b, bias, c = alike(a, b, bias, c)
    a, b, operands, options, shape = _laid(a, b, Operands(c=c, bias=bias), options)
    d = _bound(a, b, operands, options)
    return d if d.shape == shape else d.reshape(shape)


# ---- Products with more operands ----


@functools.lru_cache(maxsize=None)
def _whole(options):
    """Returns a function of a dict of tensors, indexed by word, that computes their product: (D,), or (D, other results). `options` are
    known when it is traced."""
    activation, name = options.activation, options.out_dtype

    def operands_of(t):
        return Operands(**{word: x for word, x in t.items() if word not in ("a", "b")})

    def whole(t):
        a, b, operands, laid, shape = _laid(t["a"], t["b"], operands_of(t), options)
        if options.gate:
            _product.halved(shape)  # reports what is wrong
        d, *written = call(a, b, operands, laid)
        _warn(a, b, laid)
        return (d.reshape(_product.halved(shape) if options.gate else shape), *written)

    def pieces(t):
        operands = operands_of(t)
        for row, _ in _product.with_role(operands, "sparsity", "block_factor"):
            raise ValueError(f"{row.word} is not supported under jax.vmap, which would need one product for each batch: pass A and B with "
                             "batches")
        a, b = turned(t["a"]) if options.transpose_a else t["a"], turned(t["b"]) if options.transpose_b else t["b"]
        lines = _product.in_lines(operands, a.shape[:-1], (*b.shape[:-2], b.shape[-1]))
        x = general(t["a"], t["b"], None, None, options._replace(**_BARE, alpha=1.0, out_dtype="float32", gate=False))
        x = _product.multiplied(options.alpha * x, lines)
        x = _product.added(x, operands, lines, options.beta, lambda y: y.astype(x.dtype))
        function = _FUNCTIONS[activation]

        def slope(x, inputs):
            inputs = inputs.astype(x.dtype)
            return x * jax.vjp(function, inputs)[1](jnp.ones_like(inputs))[0]

        d = y = _product.activated(x, operands, options.gate, function, slope)
        for _, factor in _product.with_role(operands, "result_factor"):
            d = d * factor.reshape(())
        d = jnp.clip(d, -GREATEST[name], GREATEST[name]) if name in GREATEST else d
        greatest = [jnp.maximum(x, jnp.abs(y).max(initial=0)) for _, x in _product.with_role(operands, "greatest")]
        return (d.astype(name), *greatest)

    @custom_vmap
    def batched(t):
        return whole(t)

    @batched.def_vmap
    def _(size, is_mapped, t):
        is_mapped = dict(zip(sorted(t), jax.tree.leaves(is_mapped)))
        one_of_all = {n: jax.ShapeDtypeStruct(x.shape[1:] if is_mapped[n] else x.shape, x.dtype) for n, x in t.items()}
        jax.eval_shape(whole, one_of_all)  # reports what is wrong
        results = jax.vmap(pieces, ({n: 0 if is_mapped[n] else None for n in t},), axis_size=size)(t)
        return results, (True,) * len(results)

    @jax.custom_jvp
    def function(t):
        return batched(t)

    @functools.partial(function.defjvp, symbolic_zeros=True)
    def _(primals, tangents):
        (t,), (tangents,) = primals, tangents
        for row, _ in _product.with_role(operands_of(t), "sparsity", "block_factor", "greatest", "result_factor"):
            raise ValueError(NO_GRADIENT.format(row.word))
        if name in GREATEST:
            raise ValueError(NO_GRADIENT.format(f"out_dtype of {name}"))
        jax.eval_shape(whole, t)  # reports what is wrong
        moving = {word: x for word, x in tangents.items() if not isinstance(x, SymbolicZero)}
        return jax.jvp(lambda some: pieces({**t, **some}), ({word: t[word] for word in moving},), (moving,))

    return function


@functools.partial(jax.jit, static_argnums=1)
def _jitted(t, options):
    return _whole(options)(dict(zip(t, alike(*t.values()))))


# ---- Products of groups ----


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _in_groups(t, options):
    of_a = turned(t["a"]) if options.transpose_a else t["a"]
    of_b = turned(t["b"]) if options.transpose_b else t["b"]
    operands = Operands(**{word: x for word, x in t.items() if word not in ("a", "b")})
    shape = _product.grouped_shape(of_a, of_b, operands, shares(operands)[1])  # reports what is wrong
    columns = (*(shape[:-2] or _product.groups_of(operands, of_b)), shape[-1])
    c = operands.c
    if operands.add_to_rows is not None:  # set aside, because laid() expects C to have the shape of D
        operands = operands._replace(c=None)
    operands = _product.laid(_KIT, operands, shape[:-1], columns, shape, shape, of_a.shape[-1])
    if operands.add_to_rows is not None:
        operands = operands._replace(c=c)
    _warn(t["a"], t["b"], options)
    d, *written = call(t["a"], t["b"], operands, options)
    return (d, *written)


def _keep_groups(t, options):
    return _in_groups(t, options), t


def _gradients_of_groups(options, t, grads):
    _product.only_offs(Operands(**{word: x for word, x in t.items() if word not in ("a", "b")}), options)
    plain = Options(1.0, 0.0, None, None, False, False, options.precise, options.tf32, False, None)

    def product(x, y, like):
        return in_unit(lambda dtype: _in_groups({"a": x, "b": y, "offs": t["offs"]}, plain._replace(out_dtype=name_of(dtype)))[0], unit,
                        like.dtype)

    a, b = turned(t["a"]) if options.transpose_a else t["a"], turned(t["b"]) if options.transpose_b else t["b"]
    a_rows, d_rows = t.get("a_rows"), t.get("d_rows")
    grad = grads[0] if d_rows is None else _gathered(grads[0], d_rows)
    rows = a if a_rows is None else _gathered(a, a_rows)
    factor, unit = factor_of(grad, a.dtype)
    if "b_addresses" in t:  # passed as they are, because a transposed copy of B would contain only one of the matrices
        some = {word: t[word] for word in ("b", "offs", "b_addresses")}
        of_b = plain._replace(transpose_b=not options.transpose_b)
        da = in_unit(lambda dtype: _in_groups({"a": factor, **some}, of_b._replace(out_dtype=name_of(dtype)))[0], unit, a.dtype)
        db = jnp.zeros_like(b)
    else:
        da, db = _product.gradients_of_groups(product, turned, rows, b, factor, (True, True), b.ndim == 2)
    if a_rows is not None:
        da = summed_by_row(a, a_rows, da)
    zeros = {word: np.zeros(x.shape, jax.dtypes.float0) for word, x in t.items() if word in ("offs", "a_rows", "d_rows", "b_addresses")}
    return ({"a": turned(da) if options.transpose_a else da, "b": turned(db) if options.transpose_b else db, **zeros},)


def _gathered(a, rows):
    """Returns a copy of the rows of A; rows that do not exist in A are zeros."""
    return a.at[jnp.where(rows < 0, a.shape[0], rows)].get(mode="fill", fill_value=0)


def summed_by_row(a, rows, of_rows):
    """Returns the gradient of A, given the gradients of its gathered rows. The gradients of a row that was used several times are added."""
    sums, = jax.linear_transpose(lambda x: _gathered(x, rows), jax.ShapeDtypeStruct(a.shape, jnp.float32))(of_rows.astype(jnp.float32))
    return sums.astype(a.dtype)


_in_groups.defvjp(_keep_groups, _gradients_of_groups)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _added(t, options):
    """Returns C plus the rows of the product."""
    return _in_groups(t, options)


def _keep_added(t, options):
    """Returns the result, computed with JAX functions so that JAX can differentiate it, and its derivatives."""
    beside = ("a", "b", "c", "add_to_rows", "scale_a")
    _product.only_offs(Operands(**{word: x for word, x in t.items() if word not in beside}), options)  # weights are applied last
    reals = {word: x for word, x in t.items() if jnp.issubdtype(x.dtype, jnp.floating)}
    others = {word: x for word, x in t.items() if word not in reals}

    def added(reals):
        c, rows, weights = reals["c"], t["add_to_rows"], reals.get("scale_a")
        some = {word: x for word, x in {**others, **reals}.items() if word not in ("c", "add_to_rows", "scale_a")}
        d = _in_groups(some, options)[0].astype(jnp.float32)
        d = d if weights is None else d * weights.reshape(-1, 1)
        rows = jnp.where(rows < 0, c.shape[0], rows)
        return (c.astype(jnp.float32).at[rows].add(d, mode="drop").astype(c.dtype),)

    d, back = jax.vjp(added, reals)
    return d, (back, {word: np.zeros(x.shape, jax.dtypes.float0) for word, x in others.items()})


def _gradients_of_added(options, kept, grads):
    back, others = kept
    return ({**back(grads)[0], **others},)


_added.defvjp(_keep_added, _gradients_of_added)


@functools.partial(jax.jit, static_argnums=1)
def _jitted_groups(t, options):
    t = dict(zip(t, alike(*t.values())))
    return _added(t, options) if "add_to_rows" in t else _in_groups(t, options)


def ragged_dot(lhs, rhs, group_sizes, precision=None, preferred_element_type=None, group_offset=None):
    """A replacement for jax.lax.ragged_dot with the same arguments: multiplies groups of rows of lhs [m, k] by the matrices of rhs [groups,
    k, n]. `group_sizes`, integers [groups], holds the numbers of rows.

    Rows after the last group are 0. The result is differentiable in lhs and rhs. `precision` must be None, because f32 is rejected, and
    `group_offset` must also be None. ptxbuilder.matmul() with `offs`, the ends of the groups, supports more operations after the sum.
    """
    if precision is not None or group_offset is not None:
        raise ValueError("precision and group_offset: they must be None; 16-bit operands are summed in f32, and all groups are present")
    offs = jnp.cumsum(group_sizes, dtype=jnp.int32)
    return _product.matmul(lhs, rhs, offs=offs, out_dtype=preferred_element_type)


# ---- Functions for all products ----


def sparse(make, *matrix):
    """Calls a function of _sparse.py with a matrix on the host."""
    return tuple(map(jnp.asarray, make(_numpy, *map(np.asarray, matrix))))


def _check_known(out, device, **numbers):
    """Rejects options that JAX arrays do not support, and traced values that must be known when a product is traced."""
    if out is not None:
        raise ValueError("out: JAX's arrays cannot be written: leave it out")
    refuse_device(device)
    for name, value in numbers.items():
        if isinstance(value, jax.core.Tracer):
            raise ValueError(f"{name}: it is traced, but must be known when the product is traced: multiply the operand or the result")


def _as_array(row, x):
    if row.role == "greatest":  # True and False mean whether amax is requested
        return {True: jnp.zeros((), jnp.float32), False: None}[x] if isinstance(x, bool) else _product.one(row.label, x)
    if row.word == "alpha" and x.weak_type:  # a traced Python number
        return x.astype(jnp.float32)
    return x


def _one_group(a, b, operands, options):
    """Returns the product of a matrix's gathered rows and one matrix, computed as a product with one group of all rows."""
    m, n = _product.gathered_shape(turned(a) if options.transpose_a else a, turned(b) if options.transpose_b else b, operands.a_rows,
                                   shares(operands)[1])
    of_columns = {row.word: x[None] for row, x in zip(ROWS, operands) if x is not None and (
        row.shape in ("column_blocks", "columns_by_k", "blocks") or row.shape in ("columns", "columns_of_all") and x.shape == (n,))}
    return b[None], operands._replace(offs=jnp.full((1,), m, jnp.int32), **of_columns)


def matmul(a, b, out, operands, options):
    operands, options = _product.alpha_as_given(operands, options, lambda x: isinstance(x, jax.Array))
    _check_known(out, options.device, beta=options.beta)
    check_arrays({"B": b}, **{row.label: x for row, x in zip(ROWS, operands) if row.role != "greatest"})
    operands = Operands(*(None if x is None else _as_array(row, x) for row, x in zip(ROWS, operands)))
    name = name_of(options.out_dtype) if options.out_dtype is not None else output_of(name_of(a.dtype))
    if operands.add_to_rows is not None:
        c, _, options = _product.what_rows_are_added_to(operands, options)
        name = name_of(c.dtype)
    activation_of(options.activation)
    options = Options(float(options.alpha), float(options.beta), options.activation, name, bool(options.transpose_a),
                      bool(options.transpose_b), bool(options.precise), bool(options.tf32), bool(options.gate), None)
    if _product.with_role(operands, "gather", "scatter") and _product.sizes_of(operands) is None:
        b, operands = _one_group(a, b, operands, options)
    if _product.sizes_of(operands) is not None:
        given = {word: x for word, x in operands._asdict().items() if x is not None}
        results = _jitted_groups({"a": a, "b": b, **given}, options)
        return results if len(results) > 1 else results[0]
    if not _product.has_more(operands, options):
        return general(a, b, operands.bias, operands.c, options)
    given = {word: x for word, x in operands._asdict().items() if x is not None}
    results = _jitted({"a": a, "b": b, **given}, options)
    return results if len(results) > 1 else results[0]

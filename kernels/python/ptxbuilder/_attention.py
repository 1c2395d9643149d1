"""Attention for the tensors of any framework."""
import math
from collections import namedtuple

from . import _ext
from ._common import as_they_lie, check_flags, check_number, check_offsets, device_of, door_of, is_whole, name_of, untouched, warn_of_work


# The tensors other than Q, K, V, O and lse, in the order of the extension's arguments. Each may be None.
Extras = namedtuple("Extras", "query_offsets key_offsets sinks dropout_seed key_lengths block_table k_scale v_scale q_scale tree_mask",
                    defaults=(None,) * 10)
NO_EXTRAS = Extras()
_UNSAID = tuple(_ext.ATTENTION_NUMBERS.values())
_DROPOUT = list(_ext.ATTENTION_NUMBERS).index("dropout")
BYTES_OF_ROW = 656  # bytes of a row of 8-bit latent keys: 512 values, 4 scales and 64 rotary columns


def attention(q, k, v, *, causal=False, scale=None, window=None, softcap=0.0, layout="bshd", return_lse=False, out=None,
              query_offsets=None, key_offsets=None, max_queries=None, max_keys=None, top_left=False, deterministic=False,
              sinks=None, dropout=0.0, dropout_seed=None, key_lengths=None, block_table=None, k_scale=None, v_scale=None, q_scale=None,
              promote=0, device=None):
    """Returns O = softmax(scale Q K^T) V for each head, as a tensor of Q's framework; with `return_lse`, returns (O, lse).

    Q is [batch, queries, heads, columns], K is [batch, keys, key heads, columns], and V is [batch, keys, key heads, value columns]; with
    layout="bhsd", heads come before rows. All are f16 or all are bf16, with up to 256 columns; the number of heads is a multiple of the
    number of key heads. O has the shape of Q, but as many columns as V; lse is float32 [batch, heads, queries], the logarithm of the sum of
    exp(scores).

    `scale` is 1 / sqrt(columns) by default. With offset = keys - queries and `window` = (left, right), query i sees the keys from i +
    offset - left to i + offset + right, where -1 means no limit. `causal` means that right is 0, and with `top_left` the offset is 0. If a
    query sees no key, its row of O is zeros and its lse is -inf. With a `softcap` above 0, scores s become softcap tanh(s / softcap).

    Packed sequences: tensors do not have the batch dimension. `query_offsets` and `key_offsets`, int32 with one element more than there are
    sequences, hold the position at which each sequence begins and the position at which the last sequence ends (FlashAttention's
    cu_seqlens). `max_queries` and `max_keys` are the lengths of the longest sequences. lse is then [heads, rows of Q]. V must be finite in
    all rows, including the rows of other sequences and the rows after the last sequence, because a tile reads beyond a sequence's end, and
    0 times NaN is NaN. Similarly, a NaN in V that a mask hides from a query may affect that query, even without packed sequences; a NaN in
    K does not.

    `sinks` has a float32 for each head of Q: the score of an additional key without a value that every query of the head sees. lse includes
    it.

    `dropout`, at least 0 and below 1, is the fraction of the weights that is dropped, rounded to a multiple of 1/65536; the other weights
    are multiplied by 1 / (1 - dropout). `dropout_seed` and the position of a weight determine whether it is dropped, so the gradient drops
    the same weights. The seed is int32 [4] on Q's device, with 64 bits of a seed and 64 bits of an offset, low words first; or a number; or
    two numbers, (seed, offset). By default, PyTorch's default generator draws the seed. dropout_mask() returns which weights are kept.

    Caches: `key_lengths`, int32 [batch], holds the number of keys of each batch. Masks use these numbers instead of the number of rows of
    K, and the rows after a batch's keys may hold anything. With `block_table`, int32 [batch, n], K and V are [page, row, heads, columns],
    and the keys of a batch are in the pages that the batch's row of the table lists. `max_keys` is the largest number of keys of a batch,
    by default all rows of n pages; a batch with more keys is treated as if it had `max_keys` keys. K and V may be float8_e4m3fn if Q is f16
    or bf16: their elements are multiplied by `k_scale` and `v_scale`, float32 [1] or [key heads] on Q's device, which must both be given or
    both be omitted. Scales must not be negative. A negative scale on the host is rejected; on a GPU, a negative scale of K or Q makes the
    rows of its heads NaN. Caches have no gradient. decode() offers this operation with the argument names that inference servers use.
    Queries may also be packed with caches: then only `query_offsets` and `max_queries` are given.

    Q, K and V may all be float8_e4m3fn, without key_lengths. O is then bfloat16, or has the type of `out`. The products have 8-bit
    operands, and the softmax's weights are rounded to e4m3, with a relative error of up to 2^-4 each, which causes most of the error of O.
    `q_scale`, `k_scale` and `v_scale` have the same number of factors, or all are omitted. The tensor cores keep only about 14 bits of a
    sum of 8-bit products, so if `promote` is above 0, the sums that make up O are added to f32 sums after every `promote` keys (for a V of
    up to 128 columns). There is no gradient.

    The call runs on the framework's current stream, like matmul(). O and lse are differentiable once in Q, K, V and sinks. Unless
    `deterministic` or torch.use_deterministic_algorithms() is set, two runs may differ in the last bits of Q's gradient. If an operand
    breaks a rule, raises a ValueError that names both.
    """
    if v is None:
        raise ValueError("V is None; only mla_decode() takes keys that are their own values")
    numbers = numbers_of(causal, scale, window, softcap, layout, top_left, query_offsets, key_offsets, max_queries, max_keys, deterministic,
                         dropout, key_lengths is not None, block_table is not None, promote)
    has_extras = (query_offsets is not None or key_offsets is not None or sinks is not None or dropout_seed is not None
                  or key_lengths is not None or block_table is not None or k_scale is not None or v_scale is not None
                  or q_scale is not None)
    extras = (Extras(query_offsets, key_offsets, sinks, dropout_seed, key_lengths, block_table, k_scale, v_scale, q_scale) if has_extras
              else NO_EXTRAS)
    return door_of(q).attention(q, k, v, extras, numbers, return_lse, out, device)


def decode(q, k_cache, v_cache, seq_lens, block_table=None, *, query_offsets=None, max_queries=None, scale=None, window=None, softcap=0.0,
           sinks=None, k_scale=None, v_scale=None, tree_mask=None, cache_layout="NHD", max_seq_len=None, return_lse=False, out=None,
           device=None):
    """Returns O for a few new queries of each sequence; with `return_lse`, returns (O, lse). A query sees the keys of its sequence up to
    its own key.

    q is [batch, heads, columns] or [batch, queries, heads, columns], for the last tokens of each sequence. The keys and values of these
    tokens must already be in the caches. `seq_lens`, int32 [batch] on the device, is the number of keys of each sequence, including those
    of q. A length of 0 yields zeros. The host does not read the lengths: a length that is negative, or exceeds the capacity of the caches
    or `max_seq_len`, is treated as the largest possible length. Without `block_table`, the caches are [batch, keys, key heads, columns];
    with it, int32 [batch, n], they are [page, row, key heads, columns], or with cache_layout="HND" [page, key heads, row, columns]. A
    captured CUDA graph remains valid if lengths and tables change, up to `max_seq_len` keys (by default all rows of n pages). The keys of
    all sequences are divided evenly among CTAs, regardless of the length of each sequence.

    Caches of float8_e4m3fn: `k_scale` and `v_scale`, float32 [1] or [key heads] on the device, both with the same number of elements,
    multiply the caches' elements; append() divides by the same scales. With a block_table, they may also be [pages, 1] or [pages, key
    heads], with scales for each page; elements are then multiplied before they are rounded to the type of q. Scales must not be negative
    and must have no gaps. The rows of block_table must have no gaps either, but the table may be a part of a larger table.

    Mixed batches: with `query_offsets`, int32 [batch + 1] on the device (vLLM's query_start_loc), q is [tokens, heads, columns], and the
    queries of a sequence in this call begin at the sequence's offset. They may be all tokens of a prompt, a part of a prompt, the last
    token, or none. `max_queries` is the largest number of queries of a sequence, and lse is [heads, tokens]. One launch computes the
    attention of all sequences, and their keys are divided among CTAs.

    Trees of tokens, for speculative decoding: with `tree_mask`, int32 or uint32 [batch, queries] on the device, or if packed [tokens], the
    mask determines which keys of the new tokens a query sees. A sequence has at most 32 queries, and its last keys belong to them. Bit j of
    a query's mask is 1 if the query sees the key of query j. Normally these are the query's own key, and the keys of the tokens that lead
    to it. All queries see the earlier keys.

    With `window`, a query sees this many keys before its own; attention() describes scale, softcap and sinks. lse is float32 [batch, heads]
    or [batch, heads, queries]. There is no gradient.
    """
    if cache_layout not in ("NHD", "HND"):
        raise ValueError(f"cache_layout {cache_layout!r} is not one of 'NHD' and 'HND'")
    _check_cached(q, {"k_cache": k_cache, "v_cache": v_cache}, seq_lens, block_table, max_seq_len, window, out)
    if query_offsets is not None and q.ndim != 3:
        raise ValueError(f"q: {q.ndim} dimensions; with query_offsets it must be [tokens, heads, columns]")
    if block_table is not None and query_offsets is None and q.shape[0] == 0:  # No sequence has pages.
        k_cache, v_cache, block_table, max_seq_len = k_cache[:0], v_cache[:0], None, None
    if cache_layout == "HND":
        k_cache, v_cache = k_cache.swapaxes(1, 2), v_cache.swapaxes(1, 2)
    is_causal = tree_mask is None
    numbers = numbers_of(is_causal, scale, _window_of(window, is_causal), softcap, query_offsets=query_offsets, max_queries=max_queries,
                         max_keys=max_seq_len, has_lengths=True, has_pages=block_table is not None)
    extras = Extras(query_offsets=query_offsets, sinks=sinks, key_lengths=seq_lens, block_table=block_table, k_scale=k_scale,
                    v_scale=v_scale, tree_mask=tree_mask)
    return _over_caches(q, k_cache, v_cache, extras, numbers, return_lse, out, device)


def mla_decode(q, kv_cache, seq_lens, block_table=None, *, scale, causal=True, window=None, tree_mask=None, max_seq_len=None,
               return_lse=False, out=None, device=None):
    """Returns multi-head latent attention with absorbed weights over a cache whose rows are both keys and values: O or, with `return_lse`,
    (O, lse).

    q is [batch, heads, 576] or [batch, queries, heads, 576], for the last tokens of each sequence: 512 columns for the latent vectors and
    64 with the rotary embedding. `kv_cache` is [batch, keys, 576], or with a `block_table`, int32 [batch, n], [page, row, 576], where the
    number of rows of a page is a multiple of 8; a dimension of 1 may precede the columns. All heads share these keys, and the values are
    the keys' first 512 columns. O has the shape of q, but 512 columns, and lse is float32 [batch, heads] or [batch, heads, queries]. Keys
    may also have 320 columns; the values then have 256.

    Caches of 8 bits: with q of bfloat16 and 576 columns, kv_cache may be uint8 with rows of 656 bytes (FlashMLA's format): 512
    float8_e4m3fn values, then 4 float32 factors, one for every 128 values, then the 64 rotary columns in bfloat16. Values times their
    factors are rounded to bfloat16.

    `seq_lens`, int32 [batch] on the device, and `max_seq_len` have the same meaning as in decode(): rows after a sequence's last key may
    hold anything, a sequence of 0 keys yields zeros, and a captured CUDA graph remains valid if lengths and tables change. `scale` must be
    given, since it depends on the number of columns before the weights were absorbed: for DeepSeek it is 1 / sqrt(192), times the factor of
    the rotary embedding. Without `causal`, each query sees all keys of its sequence. decode() describes `window` and `tree_mask`. There is
    no gradient.
    """
    _check_cached(q, {"kv_cache": kv_cache}, seq_lens, block_table, max_seq_len, window, out)
    if kv_cache.ndim == 3:
        kv_cache = kv_cache[:, :, None]
    if kv_cache.ndim != 4 or kv_cache.shape[2] != 1:
        raise ValueError(f"kv_cache: its shape is {tuple(kv_cache.shape)}; it must be [batch, keys, columns], or with a block_table [page, "
                         "row, columns]")
    columns = kv_cache.shape[3]
    if name_of(kv_cache.dtype) == "uint8" and columns == BYTES_OF_ROW:
        columns = 576
    if columns not in (320, 576) or q.shape[-1] != columns:
        raise ValueError(f"kv_cache and q: they have {kv_cache.shape[3]} and {q.shape[-1]} columns; both must have 576, or both 320, or q "
                         f"must have 576 and kv_cache {BYTES_OF_ROW} of uint8")
    if scale is None:
        raise ValueError("scale is None: pass the value for the columns before the weights were absorbed, such as 1 / sqrt(192)")
    if block_table is not None and q.shape[0] == 0:  # No sequence has pages.
        kv_cache, block_table, max_seq_len = kv_cache[:0], None, None
    causal = causal and tree_mask is None
    numbers = numbers_of(causal, scale, _window_of(window, causal), max_keys=max_seq_len, has_pages=block_table is not None)
    extras = Extras(key_lengths=seq_lens, block_table=block_table, tree_mask=tree_mask)
    return _over_caches(q, kv_cache, None, extras, numbers, return_lse, out, device)


def _window_of(window, causal):
    return None if window is None else (window, 0 if causal else -1)


def _check_cached(q, caches, seq_lens, block_table, max_seq_len, window, out):
    for name, x in {"q": q, **caches}.items():
        if not hasattr(x, "shape"):
            raise ValueError(f"{name}: {type(x)} is not a tensor")
    for name, x in (("block_table", block_table), ("out", out)):
        if x is not None and not hasattr(x, "shape"):
            raise ValueError(f"{name}: {type(x)} is not a tensor; it may be left out")
    if len(q.shape) not in (3, 4):
        raise ValueError(f"q: {len(q.shape)} dimensions; it must be [batch, heads, columns] or [batch, queries, heads, columns]")
    if seq_lens is None:
        raise ValueError("seq_lens is None; it must be int32 [batch], the keys of each sequence")
    if max_seq_len is not None and block_table is None:
        raise ValueError(f"max_seq_len needs a block_table: without one, {next(iter(caches))} determines how many keys there may be")
    if max_seq_len is not None and (not is_whole(max_seq_len) or max_seq_len < 1):
        raise ValueError(f"max_seq_len: {max_seq_len!r} is not a positive number")
    if window is not None and (not is_whole(window) or window < -1):
        raise ValueError(f"window: {window!r}; it must be a number of keys before a query's own, or -1 for all")


def _over_caches(q, k, v, extras, numbers, return_lse, out, device):
    """Computes attention over caches. The dimension of the queries may be missing, which means that there is one query."""
    is_one = q.ndim == 3 and extras.query_offsets is None
    try:
        found = door_of(q).attention(q[:, None] if is_one else q, k, v, extras, numbers, return_lse,
                                     out[:, None] if is_one and out is not None else out, device)
    except ValueError:
        _check_lengths(q, k, extras, numbers)
        raise
    if not is_one:
        return found
    return (found[0][:, 0], found[1][:, :, 0]) if return_lse else found[:, 0] if out is None else out


def _check_lengths(q, k, extras, numbers):
    """Rejects wrong lengths with errors that use the argument names of calls over caches. It is called only after a call has failed, so
    that other calls take no time for it."""
    lengths, table, offsets = extras.key_lengths, extras.block_table, extras.query_offsets
    if not hasattr(lengths, "shape"):
        raise ValueError(f"seq_lens: {type(lengths)} is not a tensor")
    if hasattr(lengths, "is_contiguous"):
        has_gaps = not lengths.is_contiguous()
    else:
        has_gaps = hasattr(lengths, "flags") and not lengths.flags.c_contiguous
    if offsets is not None and getattr(offsets, "ndim", 0) != 1:
        return  # The error is in the offsets.
    batches = q.shape[0] if offsets is None else offsets.shape[0] - 1
    if tuple(lengths.shape) != (batches,) or name_of(lengths.dtype) not in ("int32", "uint32") or has_gaps:
        raise ValueError(f"seq_lens: it is {list(lengths.shape)} of {name_of(lengths.dtype)}, but must be [{batches}] of int32 or uint32, "
                         f"without gaps{'' if offsets is None else ', one fewer than query_offsets'}")
    most = numbers[list(_ext.ATTENTION_NUMBERS).index("keys")]
    if table is not None and len(table.shape) == 2 and most > table.shape[1] * k.shape[1]:
        raise ValueError(f"max_seq_len = {most}, but the {table.shape[1]} pages of {k.shape[1]} rows of a batch hold only "
                         f"{table.shape[1] * k.shape[1]}")


def numbers_of(causal=False, scale=None, window=None, softcap=0.0, layout="bshd", top_left=False, query_offsets=None,
               key_offsets=None, max_queries=None, max_keys=None, deterministic=False, dropout=0.0, has_lengths=False, has_pages=False,
               promote=0):
    """Returns the arguments that are not tensors, in the extension's form: the values of _ext.ATTENTION_NUMBERS, and the flags."""
    check_flags(causal=causal, top_left=top_left, deterministic=deterministic)
    given = {}
    if window is not None:
        if (not isinstance(window, (tuple, list)) or len(window) != 2
                or any(not is_whole(x) or not -1 <= x < 1 << 63 for x in window)):
            raise ValueError(f"window: {window!r}; it must be two integers, (left, right), where -1 means no limit")
        given["left"], given["right"] = window
    if softcap is None:
        raise ValueError("softcap is None; it must be a number, where 0 means no softcap")
    for name, value in (("softcap", softcap), ("dropout", dropout)):
        if value != 0:
            check_number(name, value)
            given[name] = value
    if promote != 0:
        if not is_whole(promote):
            raise ValueError(f"promote: {promote!r}; it must be a number of keys, or 0")
        given["promote"] = promote
    flags = (_ext.CAUSAL if causal else 0) | (_ext.TOP_LEFT if top_left else 0) | (_ext.DETERMINISTIC if deterministic else 0)
    if layout != "bshd":
        if layout != "bhsd":
            raise ValueError(f"layout {layout!r} is not one of 'bshd' and 'bhsd'")
        flags |= _ext.HEADS_FIRST
    if scale is not None:
        check_number("scale", scale)
        if not scale > 0:
            raise ValueError(f"scale: {scale}; it must be above 0, or None for 1 / sqrt(columns)")
        given["scale"] = scale
    if query_offsets is not None or key_offsets is not None:
        if flags & _ext.HEADS_FIRST:
            raise ValueError("layout: packed sequences must be [rows, heads, columns]: leave layout out")
        if has_lengths and (key_offsets is not None or query_offsets is None or max_queries is None):
            raise ValueError("packed queries over caches need query_offsets, max_queries and key_lengths, but no key_offsets")
        if not has_lengths and (query_offsets is None or key_offsets is None or max_queries is None or max_keys is None):
            raise ValueError("packed sequences need all of query_offsets, key_offsets, max_queries and max_keys")
        if has_lengths and max_keys is not None and not has_pages:
            raise ValueError("max_keys needs packed keys or pages, but K and V are in one piece")
        flags |= _ext.PACKED
        for name, number, value in (("max_queries", "queries", max_queries), ("max_keys", "keys", max_keys)):
            if value is not None:
                if not is_whole(value):
                    raise ValueError(f"{name}: {value!r}; it must be an integer")
                given[number] = value
    elif max_queries is not None or max_keys is not None and not has_pages:
        raise ValueError("max_queries and max_keys need packed sequences, but there are no query_offsets")
    elif max_keys is not None:
        if not is_whole(max_keys):
            raise ValueError(f"max_keys: {max_keys!r}; it must be an integer")
        given["keys"] = max_keys
    if not given:  # a faster path for the most common case
        return (*_UNSAID, flags)
    return (*(type(unsaid)(given.get(name, unsaid)) for name, unsaid in _ext.ATTENTION_NUMBERS.items()), flags)


def operands_of(q, k, v):
    """Returns a dict with the operands, indexed by their names in errors; without V if the keys are also the values."""
    return {"Q": q, "K": k} if v is None else {"Q": q, "K": k, "V": v}


def shape_of_values(k, v):
    """Returns the shape of V; if V is None, the values are the first columns of K, whose shape is `k`."""
    return (*k[:-1], 512 if k[-1] == BYTES_OF_ROW else k[-1] - 64) if v is None else tuple(v.shape)


def shapes_of(q, v, flags):
    """Returns the shapes of O and lse from those of Q and V."""
    if len(q) != (3 if flags & _ext.PACKED else 4) or not len(q) <= len(v) <= 4:
        raise ValueError(f"Q and V: their shapes are {tuple(q)} and {tuple(v)}; packed sequences must have three dimensions, others and "
                         "caches four")
    if flags & _ext.HEADS_FIRST:
        lse = q[:-1]
    else:
        lse = (*q[:-3], q[-2], q[-3])
    return (*q[:-1], v[-1]), tuple(lse)


def result_type(q):
    """Returns the name of O's type; `q` is Q, or the name of its type."""
    name = name_of(q)
    return "bfloat16" if name == "float8_e4m3fn" else name


def seeded(extras, dropout, make, draw=None):
    """Returns the extras with the seed as a tensor: `make` creates the tensor from four words, and `draw` creates a random one if no seed
    is given."""
    seed = extras.dropout_seed
    if dropout == 0:
        seed = None
    elif seed is None:
        if draw is None:
            raise ValueError("dropout_seed is None, but dropout is above 0: pass a number, or four int32 words")
        seed = draw()
    elif isinstance(seed, (int, tuple, list)) and not isinstance(seed, bool):
        seed = make(words_of_seed(seed))
    return extras._replace(dropout_seed=seed)


def words_of_seed(seed):
    """Returns four int32 numbers, from a seed or from (seed, offset)."""
    both = (seed, 0) if isinstance(seed, int) else tuple(seed)
    if len(both) != 2 or any(isinstance(x, bool) or not isinstance(x, int) or not 0 <= x < 1 << 64 for x in both):
        raise ValueError(f"dropout_seed: {seed!r}; it must be a number from 0 to 2^64 - 1, or two of these, (seed, offset), or a tensor")
    words = [x >> shift & 0xffffffff for x in both for shift in (0, 32)]
    return [word - (word >> 31 << 32) for word in words]


def without_gradient(q, k, v, extras):
    """Returns the name of the call's kind if calls of this kind have no gradient; "" if the call has a gradient."""
    if v is None:
        return "mla_decode"
    if name_of(q.dtype) == "float8_e4m3fn":
        return "attention of e4m3"
    if name_of(k.dtype) == "float8_e4m3fn" or any(x is not None for x in extras[Extras._fields.index("key_lengths"):]):
        return "attention over caches"
    return ""


def check_scales(kit, extras):
    """Rejects negative scales on the host. Scales on a GPU are read only by the kernel."""
    for name in ("k_scale", "v_scale", "q_scale"):
        scale = getattr(extras, name)
        if scale is not None and kit.is_on_host(scale) and (scale < 0).any():
            raise ValueError(f"{name}: {float(scale.min())}; a scale must be at least 0: negate the tensor that it scales")


def dropout_of(numbers):
    return numbers[_DROPOUT]


def multiply_adds(q, k, v, numbers):
    """Returns the number of multiply-adds of the two products. It assumes that every query sees every key, and that all packed sequences
    are as long as the longest one."""
    *numbers, flags = numbers
    packs_keys = flags & _ext.PACKED and len(k) == 3
    keys = dict(zip(_ext.ATTENTION_NUMBERS, numbers))["keys"] if packs_keys else k[2 if flags & _ext.HEADS_FIRST else 1]
    return math.prod(q[:-1]) * keys * (q[-1] + v[-1])


def check_packed(q, k, query_offsets, key_offsets, numbers):
    """Rejects offsets on the host that decrease or have a wrong end. Offsets on a GPU are read only by the kernel."""
    by_name = dict(zip(_ext.ATTENTION_NUMBERS, numbers))
    for name, offsets, x, longest in (("query_offsets", query_offsets, q, "queries"), ("key_offsets", key_offsets, k, "keys")):
        if offsets is not None and offsets.ndim == 1:  # the library rejects offsets with another number of dimensions
            check_offsets(name, offsets.tolist(), x.shape[0], f"max_{longest}", by_name[longest])


def run(kit, q, k, v, extras, numbers, return_lse, out, device, stream=None):
    """Computes attention for tensors with any strides; `kit` has the framework's functions that create tensors and pass them."""
    v_shape = shape_of_values(k.shape, v)
    shape, lse_shape = shapes_of(q.shape, v_shape, numbers[-1])
    if out is None and not (kit.IS_ALLOCATED and v is not None):
        out = kit.empty(q, shape, result_type(q.dtype))
    lse = kit.empty(q, lse_shape, "float32") if return_lse else None
    tensor, device = kit.tensor, device_of(device)
    if device == _ext.EMULATOR:
        warn_of_work(multiply_adds(q.shape, k.shape, v_shape, numbers))
    if numbers[-1] & _ext.PACKED and all(x is None or kit.is_on_host(x) for x in (extras.query_offsets, extras.key_offsets)):
        check_packed(q, k, extras.query_offsets, extras.key_offsets, numbers)
    if extras is not NO_EXTRAS:
        check_scales(kit, extras)
    given, *rest = (None if x is None else tensor(x) for x in (out, lse, *extras))

    def call(q, k, v):
        return _ext.attention(tensor(q), tensor(k), None if v is None else tensor(v), given, *rest, *numbers, device, stream)

    made = as_they_lie(call, kit.compact, q, k, v)
    out = made if out is None else out
    return (out, lse) if return_lse else out


def run_gradient(kit, q, k, v, o, lse, grad, extras, lse_grad, numbers, device, stream=None):
    """Returns the gradients of attention with respect to Q, K, V and any sinks, from its inputs and results; `lse_grad` may be None."""
    tensor, device = kit.tensor, device_of(device)
    if device == _ext.EMULATOR:
        warn_of_work(5 * multiply_adds(q.shape, k.shape, v.shape, numbers) // 2)
    gradients = [kit.empty(x, x.shape, name_of(x.dtype)) for x in (q, k, v, extras.sinks) if x is not None]
    dq, dk, dv, *dsinks = [tensor(x) for x in gradients]
    given = [None if x is None else tensor(x) for x in extras]

    def call(q, k, v, o, grad, lse_grad):
        _ext.attention_gradient(tensor(q), tensor(k), tensor(v), tensor(o), tensor(lse), *given, *numbers, tensor(grad), dq, dk, dv,
                                None if lse_grad is None else tensor(lse_grad), dsinks[0] if dsinks else None, device, stream)

    as_they_lie(call, kit.compact, q, k, v, o, grad, lse_grad)
    return tuple(gradients)


def gradient_workspace_of(device, q, k, v, extras, numbers, has_lse_grad):
    """Compiles the gradient of attention for compact tensors, and returns the size of its workspace in bytes."""
    shape, lse_shape = shapes_of(q[0], v[0], numbers[-1])
    o, lse = (shape, q[1]), (lse_shape, "float32")
    sinks = Extras(*extras).sinks
    *given, grad, dq, dk, dv, lse_grad, dsinks = untouched(q, k, v, o, lse, *extras, o, q, k, v, lse if has_lse_grad else None, sinks)
    return _ext.attention_gradient_workspace(device, *given, *numbers, grad, dq, dk, dv, lse_grad, dsinks)


def workspace_of(device, q, k, v, extras, numbers, return_lse):
    """Compiles attention for compact tensors, each given as (shape, type's name), and returns the size of its workspace in bytes."""
    shape, lse_shape = shapes_of(q[0], v[0], numbers[-1])
    lse = (lse_shape, "float32") if return_lse else None
    return _ext.attention_workspace(device, *untouched(q, k, v, (shape, result_type(q[1])), lse, *extras), *numbers)


def dropout_mask(seed, batches, heads, queries, keys, dropout):
    """Returns a NumPy array of booleans that are true for the weights that attention() keeps: [batches, heads, queries, keys], or
    [sequences, ...] if packed. `seed` is the `dropout_seed` of attention(): a number, two numbers, or four words."""
    import numpy

    words = [int(x) & 0xffffffff for x in (words_of_seed(seed) if isinstance(seed, int) or len(seed) == 2 else seed)]
    check_number("dropout", dropout)
    if len(words) != 4 or not 0 <= dropout < 1:
        raise ValueError(f"dropout_mask: a seed of {len(words)} words and dropout = {dropout}; the seed must have 4 words, and dropout "
                         "must be at least 0 and less than 1")
    word = numpy.uint64(0xffffffff)

    def product(a, b):
        both = a * numpy.uint64(b)
        return both >> numpy.uint64(32), both & word

    head, batch = (x.astype(numpy.uint64) for x in numpy.meshgrid(numpy.arange(heads), numpy.arange(batches)))
    counter = [numpy.full_like(head, words[2]), numpy.full_like(head, words[3]), head, batch]
    key = [words[0], words[1]]
    for _ in range(10):  # Philox 4x32, for each head
        (high_0, low_0), (high_1, low_1) = product(counter[0], 0xd2511f53), product(counter[2], 0xcd9e8d57)
        counter = [high_1 ^ counter[1] ^ numpy.uint64(key[0]), low_1, high_0 ^ counter[3] ^ numpy.uint64(key[1]), low_0]
        key = [(key[0] + 0x9e3779b9) & 0xffffffff, (key[1] + 0xbb67ae85) & 0xffffffff]
    i, j = (numpy.arange(count, dtype=numpy.uint64) for count in (queries, keys))
    eight, one = numpy.uint64(8), numpy.uint64(1)

    def spread(x):
        return x[:, :, None, None]

    first = (spread(counter[0]) + (i & ~eight)[:, None] & word) + numpy.zeros((1, keys), numpy.uint64)
    second = (spread(counter[1]) + (j & ~eight) & word) + numpy.zeros((queries, 1), numpy.uint64)
    key = spread(counter[2])
    for _ in range(10):  # Philox 2x32, for every four weights
        high, low = product(first, 0xd256d193)
        first, second = high ^ key ^ second, low
        key = key + numpy.uint64(0x9e3779b9) & word
    bits = numpy.where((i & eight)[:, None] > 0, second, first) >> (j >> numpy.uint64(3) & one) * numpy.uint64(16) & numpy.uint64(0xffff)
    return bits >= min(round(float(numpy.float32(dropout)) * 65536), 65535)

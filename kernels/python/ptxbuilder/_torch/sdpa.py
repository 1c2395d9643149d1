"""A replacement for PyTorch's own attention function, which uses this library if it supports the arguments."""
import torch
from torch.nn import functional

from .._attention import attention
from .tensors import autocast_of

_MOST_COLUMNS = 256


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False, *,
                                 device=None):
    """A replacement for torch.nn.functional.scaled_dot_product_attention with the same arguments, so that a model needs to change only its
    import.

    Tensors are [.., heads, rows, columns]. ptxbuilder.attention() computes the result and its gradients if the arguments satisfy these
    conditions; otherwise PyTorch's own function does. The tensors are f16 or bf16, or autocast converts them to these types. They are on a
    GPU, or on the CPU with device="emulator". They have up to 256 columns, and V has no more columns than Q. There is no `attn_mask`, and
    the scale is above 0 or None. As in PyTorch, the mask of `is_causal` is aligned with the first query and the first key; with
    `enable_gqa`, the number of query heads is a multiple of the number of key heads. Dropout uses PyTorch's default generator, but drops
    different weights than PyTorch's own kernels.
    """
    if attn_mask is not None or not _is_taken(query, key, value, scale, enable_gqa, device):
        return functional.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    batches = torch.broadcast_shapes(*(x.shape[:-3] for x in (query, key, value)))
    q, k, v = (x.expand(*batches, *x.shape[-3:]).flatten(0, -4) if x.dim() != 4 or x.shape[:-3] != batches else x for x in (query, key, value))
    o = attention(q, k, v, causal=is_causal, top_left=True, scale=scale, dropout=dropout_p, layout="bhsd", device=device)
    return o if query.dim() == 4 and query.shape[:-3] == batches else o.unflatten(0, batches)


def _is_taken(query, key, value, scale, enable_gqa, device):
    given = (query, key, value)
    if any(x.dim() < 4 for x in given) or (scale is not None and not scale > 0):
        return False
    heads, key_heads = query.shape[-3], key.shape[-3]
    types = {(autocast_of(x) if x.dtype == torch.float32 else None) or x.dtype for x in given}
    return (types in ({torch.float16}, {torch.bfloat16}) and all(x.is_cuda or device is not None for x in given)
            and key_heads == value.shape[-3] and (heads == key_heads or (enable_gqa and key_heads > 0 and heads % key_heads == 0))
            and key.shape[-2] == value.shape[-2] and query.shape[-1] == key.shape[-1]
            and 1 <= value.shape[-1] <= query.shape[-1] <= _MOST_COLUMNS)

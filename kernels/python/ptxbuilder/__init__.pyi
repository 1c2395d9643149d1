# The types of the public interface. Tensors have the class of any framework, T; the element types of numpy's arrays are not tracked.
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Generic, Literal, NamedTuple, TypeVar, overload

import torch  # type: ignore[import-not-found, unused-ignore]  # without PyTorch, Linear has any type

T = TypeVar("T")
Activation = Literal["relu", "gelu", "silu", "relu_squared"]
Rule = str | Sequence[int] | Callable[[dict[str, Any]], Any]

__version__: str

class SparseMatrix(NamedTuple, Generic[T]):
    values: T
    metadata: T

def compress_2_4(x: T) -> SparseMatrix[T]: ...
def decompress_2_4(matrix: SparseMatrix[T]) -> T: ...

@overload
def matmul(a: T | SparseMatrix[T], b: T | SparseMatrix[T], bias: T | None = None, c: T | None = None, alpha: float | T = 1.0,
           beta: float | None = None, activation: Activation | None = None, out: None = None, out_dtype: Any = None, transpose_a: bool = False,
           transpose_b: bool = False, precise: bool = False, tf32: bool = False, device: Any = None, scale_a: T | None = None,
           scale_b: T | None = None, scale_result: T | None = None, *, amax: Literal[True],
           slope_of: T | None = None, gate: bool = False, row_bias: T | None = None, offs: T | None = None,
           scale_a_1x128: T | None = None, scale_b_128x128: T | None = None, scale_b_1x128: T | None = None,
           a_rows: T | None = None, d_rows: T | None = None, a_metadata: T | None = None, b_metadata: T | None = None,
           add_to_rows: T | None = None, counts: T | None = None, b_addresses: T | None = None) -> tuple[T, T]: ...
@overload
def matmul(a: T | SparseMatrix[T], b: T | SparseMatrix[T], bias: T | None = None, c: T | None = None, alpha: float | T = 1.0,
           beta: float | None = None, activation: Activation | None = None, out: T | None = None, out_dtype: Any = None, transpose_a: bool = False,
           transpose_b: bool = False, precise: bool = False, tf32: bool = False, device: Any = None, scale_a: T | None = None,
           scale_b: T | None = None, scale_result: T | None = None, amax: Any = None,
           slope_of: T | None = None, gate: bool = False, row_bias: T | None = None, offs: T | None = None,
           scale_a_1x128: T | None = None, scale_b_128x128: T | None = None, scale_b_1x128: T | None = None,
           a_rows: T | None = None, d_rows: T | None = None, a_metadata: T | None = None, b_metadata: T | None = None,
           add_to_rows: T | None = None, counts: T | None = None, b_addresses: T | None = None) -> T: ...
def grouped_mm(mat_a: T, mat_b: T, offs: T | None = None, bias: T | None = None, out_dtype: Any = None, *, a_rows: T | None = None,
               d_rows: T | None = None, d_weights: T | None = None, b_addresses: T | None = None, device: Any = None) -> T: ...
def scaled_mm(mat_a: T, mat_b: T, scale_a: T, scale_recipe_a: Any, scale_b: T, scale_recipe_b: Any, swizzle_a: Any = None,
              swizzle_b: Any = None, bias: T | None = None, output_dtype: Any = "bf16", contraction_dim: Sequence[int] = (),
              use_fast_accum: bool = False, *, device: Any = None) -> T: ...
class PackedWeights(NamedTuple):
    data: Any
    scale_b: Any
    shape: tuple[int, ...]
    form: int
def pack_weights(w: T, scales: T | None = None, zeros: T | None = None, *, type: Literal["int4", "uint4", "int8", "e4m3"] | None = None,
                 group: int | None = None) -> PackedWeights: ...
def unpack_weights(packed: PackedWeights) -> tuple[Any, Any, Any]: ...
def packed_mm(a: T, b: PackedWeights, bias: T | None = None, c: T | None = None, *, alpha: float = 1.0, beta: float | None = None,
              activation: Activation | None = None, out: T | None = None, out_dtype: Any = None, device: Any = None,
              offs: T | None = None, a_rows: T | None = None) -> T: ...
def conv2d(x: T, w: T, bias: T | None = None, stride: int | tuple[int, int] = 1,
           padding: int | tuple[int, int] | Literal["same", "valid"] = 0, dilation: int | tuple[int, int] = 1, groups: int = 1, *,
           activation: str | None = None, out_dtype: Any = None, precise: bool = False, tf32: bool = False, device: Any = None) -> T: ...
def einsum(subscripts: str, a: T, b: T, *, alpha: float = 1.0, out: T | None = None, out_dtype: Any = None, precise: bool = False,
           tf32: bool = False, device: Any = None) -> T: ...
def einsum_explained(subscripts: str, a: T, b: T, *, out_dtype: Any = None, tf32: bool = False, device: Any = None) -> str: ...
def all_gather_matmul(a: T, b: T, group: Any = None, *, scale: T | None = None, out_dtype: Any = None,
                      multiprocessors: int = 0) -> T: ...
def matmul_reduce_scatter(a: T, b: T, group: Any = None, *, scale: T | None = None, out_dtype: Any = None,
                          multiprocessors: int = 0) -> T: ...
def matmul_all_reduce(a: T, b: T, group: Any = None, *, scale: T | None = None, out_dtype: Any = None,
                      multiprocessors: int = 0) -> T: ...
def all_reduce_rms_norm(x: T, residual: T | None = None, weight: T | None = None, *, epsilon: float = 1e-6,
                        group: Any = None, multiprocessors: int = 0) -> tuple[T, T]: ...
def all_to_all_dispatch(x: T, ends: T, group: Any = None, *, most_rows: int,
                        multiprocessors: int = 0) -> tuple[T, T, T]: ...
def all_to_all_combine(rows: T, ends: T, splits: T, count: int, group: Any = None, *, multiprocessors: int = 0) -> T: ...
def ragged_dot(lhs: T, rhs: T, group_sizes: T, precision: Any = None, preferred_element_type: Any = None,
               group_offset: None = None) -> T: ...
@overload
def attention(q: T, k: T, v: T, *, causal: bool = False, scale: float | None = None, window: tuple[int, int] | None = None,
              softcap: float = 0.0, layout: Literal["bshd", "bhsd"] = "bshd", return_lse: Literal[False] = False, out: T | None = None,
              query_offsets: T | None = None, key_offsets: T | None = None, max_queries: int | None = None,
              max_keys: int | None = None, top_left: bool = False, deterministic: bool = False, sinks: T | None = None,
              dropout: float = 0.0, dropout_seed: T | int | tuple[int, int] | None = None, key_lengths: T | None = None,
              block_table: T | None = None, k_scale: T | None = None, v_scale: T | None = None, q_scale: T | None = None,
              promote: int = 0, device: Any = None) -> T: ...
@overload
def attention(q: T, k: T, v: T, *, causal: bool = False, scale: float | None = None, window: tuple[int, int] | None = None,
              softcap: float = 0.0, layout: Literal["bshd", "bhsd"] = "bshd", return_lse: Literal[True], out: T | None = None,
              query_offsets: T | None = None, key_offsets: T | None = None, max_queries: int | None = None,
              max_keys: int | None = None, top_left: bool = False, deterministic: bool = False, sinks: T | None = None,
              dropout: float = 0.0, dropout_seed: T | int | tuple[int, int] | None = None, key_lengths: T | None = None,
              block_table: T | None = None, k_scale: T | None = None, v_scale: T | None = None, q_scale: T | None = None,
              promote: int = 0, device: Any = None) -> tuple[T, T]: ...
@overload
def decode(q: T, k_cache: T, v_cache: T, seq_lens: T, block_table: T | None = None, *, query_offsets: T | None = None,
           max_queries: int | None = None, scale: float | None = None, window: int | None = None, softcap: float = 0.0,
           sinks: T | None = None, k_scale: T | None = None, v_scale: T | None = None, tree_mask: T | None = None,
           cache_layout: Literal["NHD", "HND"] = "NHD", max_seq_len: int | None = None, return_lse: Literal[False] = False,
           out: T | None = None, device: Any = None) -> T: ...
@overload
def decode(q: T, k_cache: T, v_cache: T, seq_lens: T, block_table: T | None = None, *, query_offsets: T | None = None,
           max_queries: int | None = None, scale: float | None = None, window: int | None = None, softcap: float = 0.0,
           sinks: T | None = None, k_scale: T | None = None, v_scale: T | None = None, tree_mask: T | None = None,
           cache_layout: Literal["NHD", "HND"] = "NHD", max_seq_len: int | None = None, return_lse: Literal[True],
           out: T | None = None, device: Any = None) -> tuple[T, T]: ...
@overload
def mla_decode(q: T, kv_cache: T, seq_lens: T, block_table: T | None = None, *, scale: float, causal: bool = True,
               window: int | None = None, tree_mask: T | None = None, max_seq_len: int | None = None,
               return_lse: Literal[False] = False, out: T | None = None, device: Any = None) -> T: ...
@overload
def mla_decode(q: T, kv_cache: T, seq_lens: T, block_table: T | None = None, *, scale: float, causal: bool = True,
               window: int | None = None, tree_mask: T | None = None, max_seq_len: int | None = None,
               return_lse: Literal[True], out: T | None = None, device: Any = None) -> tuple[T, T]: ...
def dropout_mask(seed: int | Sequence[int], batches: int, heads: int, queries: int, keys: int, dropout: float) -> Any: ...

def rms_norm(x: T, weight: T | None = None, *, epsilon: float = 1e-6, device: Any = None) -> T: ...
def rms_scale(x: T, *, epsilon: float = 1e-6, device: Any = None) -> T: ...
def layer_norm(x: T, weight: T | None = None, bias: T | None = None, *, epsilon: float = 1e-5, device: Any = None) -> T: ...
def softmax(x: T, *, device: Any = None) -> T: ...
def cross_entropy(x: T, target: T, *, device: Any = None) -> T: ...
def rotary(x: T, cos: T, sin: T, *, device: Any = None) -> T: ...
def append(k: T, v: T, k_cache: T, v_cache: T, slot_mapping: T, cos: T | None = None, sin: T | None = None, positions: T | None = None, *,
           k_scale: T | None = None, v_scale: T | None = None, cache_layout: Literal["NHD", "HND"] = "NHD",
           device: Any = None) -> tuple[T, T]: ...
def embedding(index: T, table: T, *, device: Any = None) -> T: ...
def cumsum(x: T, *, device: Any = None) -> T: ...
def top_k(x: T, k: int, *, device: Any = None) -> tuple[T, T]: ...
def transpose(x: T, *, device: Any = None) -> T: ...
def quantize_1x128(x: T, *, silu_gate: bool = False, power_of_two: bool = False, device: Any = None) -> tuple[T, T]: ...
def quantize_128x1(x: T, *, power_of_two: bool = False, device: Any = None) -> tuple[T, T]: ...

def scaled_dot_product_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None,
                                 dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
                                 enable_gqa: bool = False, *, device: Any = None) -> torch.Tensor: ...

class Kernel:
    path: str
    name: str
    sidecar: dict[str, Any]
    # Returns as many tensors as load() has named, of the arguments' class.
    def __call__(self, grid: int | Sequence[int] | None = None, /, *, device: Any = None, **arguments: Any) -> Any: ...

def load(path: str | PathLike[str], kernel: str | None = None, *, outputs: Mapping[str, Rule] | None = None,
         updates: Iterable[str] = (), device: Any = "auto", waive: Iterable[str] = ()) -> Kernel: ...
def warm_up(operation: Literal["matmul", "attention"], shapes: Iterable[Sequence[Any]], dtype: Any, device: Any = 0,
            **words: Any) -> None: ...

class Linear(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    in_features: int
    out_features: int
    weight: torch.nn.Parameter
    bias: torch.nn.Parameter | None
    activation: Activation | None
    def __init__(self, in_features: int, out_features: int, bias: bool = True, activation: Activation | None = None, *,
                 device: Any = None, dtype: torch.dtype | None = None, tf32: bool = False) -> None: ...
    def forward(self, input: torch.Tensor) -> torch.Tensor: ...

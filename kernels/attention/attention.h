// Computes attention of any size in one call on the host. The call chooses a tile, compiles the kernel if it
// is not cached, copies operands that TMA cannot load in place, and launches.
//
//   Attention attention(*device);
//   AttentionArguments p;
//   p.batches = 2, p.heads = 32, p.key_heads = 8, p.queries = p.keys = 4096, p.depth = 128;
//   p.q.memory = q, p.k.memory = k, p.v.memory = v, p.o.memory = o;  // [batch, row, head, column]
//   p.causal = true;
//   if (size_t bytes = attention.workspace_bytes(p))
//     p.workspace = workspace = runtime::Buffer(*device, bytes);
//   p.stream = stream;  // a CUstream; without it, the device's own stream
//   attention(p);       // queued
#pragma once

#include <functional>
#include <memory>

#include "kernels/attention/choice.h"
#include "kernels/attention/kernel.h"
#include "kernels/call/options.h"

namespace ptxbuilder::kernels {

// A tensor in device memory, with rows of contiguous elements for each head of each batch. Strides are in
// elements.
struct DeviceHeads {
  runtime::View memory = {};  // begins at the first element and ends where the accessible memory ends
  // A stride of 0 stands for the stride in a tensor [batch, row, head, column] without gaps.
  int64_t row_stride = 0, head_stride = 0, batch_stride = 0;
};

// Defines O[i] = sum_j softmax_j(scale Q[i] K[j]) V[j] for each head of each batch, where j runs over the
// keys that query i sees.
//
// Heads: head h of Q uses head h / (heads / key_heads) of K and V.
//
// Masks: query i sees the keys from i + offset - left to i + offset + right, inclusive. The offset is 0 if
// `top_left`, and keys - queries otherwise. A negative `left` or `right` means that there is no limit.
// `causal` is equivalent to right = 0. If a query sees no key, its row of O is 0 and its lse is -inf.
//
// Sizes: any size is allowed, including 0. Q may have at most 256 columns, and V must not be wider than Q;
// latent values are an exception.
//
// Sinks: `sinks` holds an f32 for each head of Q. Each takes part in the softmax like the score of an
// additional key without a value. lse includes the sink; if a query sees no key, its lse is the sink.
//
// Dropout: a weight is dropped with probability `dropout`, rounded to a multiple of 1/65536, and kept weights
// are multiplied by 1 / (1 - dropout). lse includes all weights. `dropout_seed` holds four u32 on the device:
// 64 bits of a seed and then 64 bits of an offset, each with the lower word first. dropout_keeps() in
// dropout.h computes on the host which weights are kept.
//
// Packed sequences: `query_offsets` and `key_offsets` each hold `batches` + 1 ascending numbers on the
// device: the rows of Q and of K at which the sequences begin, and the end of the last sequence. `queries`
// and `keys` are the lengths of the longest sequence, and `query_rows` and `key_rows` are the total numbers
// of rows. Batch strides are ignored. Packed calls need a workspace for the order in which CTAs process the
// sequences. A NaN or an infinity in the first rows of a sequence's V may affect the previous sequence.
//
// Lengths and pages, for caches: `key_lengths` holds, on the device, how many of its `keys` each batch uses.
// Masks are relative to these lengths, and the rows after them may hold anything. With pages, K and V are
// [page, row, head, column], and block_table assigns a page to every `page` keys of a batch; pages require
// lengths. A page that does not exist is read as zeros. Pages are meant for calls with few queries, so blocks
// have 64 rows.
//
// Mixed batches: with `query_offsets` and `key_lengths`, but without `key_offsets`, only the queries are
// packed. Each sequence has its own number of queries, and uses the keys in its batch of K and V or in its
// pages.
//
// Trees of tokens, for speculative decoding: `tree_mask` holds a u32 for each query, and requires lengths.
// The last keys of a sequence belong to its queries; there may be at most 32 queries. Bit j of a query's mask
// is 1 if the query sees the key of query j. All queries of the sequence see the keys before these. Other
// masks apply as well, but a tree does not need a causal mask.
//
// K and V of e4m3: if `cache_type` is set, K and V have this type, and queries attend to K times k_scale and
// V times v_scale. Both scales are f32 on the device, with one number in total or one for each head of K;
// they may also be omitted together. With `page_scales`, each page has one number, or one for each head of K,
// and keys and values are multiplied by the numbers of their page before they are rounded to `type`. A
// negative number in k_scale makes all rows of its head NaN. Packed sequences cannot have caches of e4m3
// unless Q is e4m3 too.
//
// Q of e4m3: if `query_type` is set, Q has this type, and K and V must have the same type. Weights are also
// rounded to e4m3, which causes most of the error: up to 2^-4 of each weight. `q_scale` has the form of
// k_scale and is required if k_scale is given; the product of the two must not be negative. Tensor cores add
// up e4m3 products with about 14 bits. If `promote` is above 0, sums are added to f32 sums after that number
// of keys, or after a block if a block has more keys. Calls with a Q of e4m3 cannot have lengths of keys or
// pages.
//
// Latent values (multi-head latent attention with absorbed weights): if K has more than 256 columns, it has a
// single head, and its first `value_depth` columns are also the values; V is omitted. `value_depth` must be
// 256 or 512, and K must have 64 columns more. These calls may have masks, lengths, and pages with a multiple
// of 8 rows, but no other options. With a `cache_type` of e4m3, `type` must be bf16, `depth` must be 576, and
// a row of K consists of 656 bytes: 512 values of e4m3, 4 factors in f32, one for every 128 of these values,
// and the last 64 columns in bf16. The strides of K are then in bytes. There are no other scales. Values
// times their factors are rounded to bf16.
//
// NaN and infinity: a NaN or an infinity in Q makes only its own row NaN. In K it affects every row that sees
// its key, and in V one column of these rows. In V it may also affect rows that do not see its key, because
// they multiply it by a weight of 0. A score of -inf hides its key if the row has other scores.
//
// Placement: strides may have any value, and addresses may be any multiples of the element size. TMA needs
// multiples of 16 bytes. An operand that violates this is copied into the workspace before the kernel runs; O
// is copied from the workspace after the kernel.
//
// Aliasing: O, lse and the workspace must not overlap each other or any other operand. Q, K and V may overlap
// one another.
struct AttentionArguments {
  DType type = DType::f16;               // f16 or bf16; the type of O, and of Q, K and V unless they are e4m3
  std::optional<DType> cache_type = {};  // type of K and V: e4m3, or unset for `type`
  std::optional<DType> query_type = {};  // type of Q: e4m3 if K and V are e4m3 too, or unset for `type`
  int64_t batches = 1, heads = 1, key_heads = 0;  // key_heads = 0 stands for `heads`
  int64_t depth = 128, value_depth = 0;  // columns of Q and K, and columns of V and O (0 stands for `depth`)
  DeviceHeads q, k, v, o;                // with latent values, v has no memory
  runtime::View lse =
      {};  // f32 [batch, head, query] or, if packed, [head, row of Q]; no memory: not requested
  // The numbers, sizes and flags that attention.def describes.
#define PTXBUILDER_ATTENTION_NUMBER(name, below, rule, meaning) float name = 0;
#define PTXBUILDER_ATTENTION_SIZE(name, unsaid, meaning) int64_t name = unsaid;
#define PTXBUILDER_ATTENTION_FLAG(name, BIT, meaning) bool name = false;
#include "kernels/attention/attention.def"
  runtime::View query_offsets = {}, key_offsets = {};  // u32 [batches + 1], with values below 2^31
  int64_t query_rows = 0, key_rows = 0;
  runtime::View sinks = {};         // f32 [head]; no memory: no sinks
  runtime::View dropout_seed = {};  // u32 [4]; ignored if dropout is 0
  runtime::View key_lengths = {};   // u32 [batch]; no memory: each batch has `keys` keys
  runtime::View tree_mask = {};     // u32 [batch, query] or, if packed, [row of Q]; no memory: no tree
  runtime::View block_table = {};   // u32 [batch, ceil(keys / page)]; batches are `table_stride` apart
  runtime::View k_scale = {}, v_scale = {};  // f32 [scales] if K and V are e4m3; both may be omitted
  runtime::View q_scale = {};  // f32 [scales] if Q is e4m3 and `k_scale` and `v_scale` are given
  int64_t scales = 1;          // 1 or the number of heads of K
  bool page_scales = false;    // k_scale and v_scale have `scales` numbers for each page
  std::vector<runtime::Argument> score =
      {};  // arguments for the parameters that AttentionOptions::score declares, in order
  runtime::View workspace = {};
  runtime::Stream stream = {};  // default: the device's own stream

  // The rows per page, and the number of pages; 0 if there are no pages. With pages, the batch strides of K
  // and V are strides between pages. For each batch, block_table lists as many pages as `keys` keys fill.
  int64_t page = 0, pages = 0;
  std::optional<int64_t> table_stride = {};  // in entries; unset: `block_table` has no gaps

  bool packed() const { return query_offsets.address != 0 || key_offsets.address != 0; }
  bool packs_keys() const { return packed() && key_lengths.address == 0; }
  bool has_own_lengths() const { return packed() || key_lengths.address != 0; }
  constexpr DType key_type() const { return cache_type.value_or(type); }
  bool has_byte_rows() const {  // see "Latent values" above
    return key_type() == DType::e4m3 && depth > AttentionOperation::kMostColumns;
  }
  int64_t pages_of_batch() const { return page > 0 ? (keys + page - 1) / page : 0; }
};

// The options of an Attention, which apply to all of its calls.
struct AttentionOptions : CallOptions {
  AttentionScore score = {};  // a user's function for scores, which may also mask keys; applied in all calls
  // Chooses the tile for the first call of a size. Only one thread at a time calls this function.
  std::function<AttentionTile(const AttentionOperation&, const AttentionSize&, int multiprocessors)> choose =
      kernels::choose_attention;
  // Supplies the kernels; if not set, Attention compiles them. Several threads may call this function at
  // once.
  std::function<std::unique_ptr<runtime::LoadedKernel>(const AttentionOperation&, const AttentionTile&)>
      load = nullptr;
};

// Computes attention, and caches the kernels and the chosen tiles. The first call for a size (or the first
// workspace_bytes() for it) compiles the kernel, which takes about 0.3 s, unless a cache holds it. Later
// calls take microseconds, allocate no device memory and do not block, so they may be captured. Kernels may
// spill registers. The object must not outlive its device. Any thread may call it at any time, and several
// threads may call it at once.
class Attention {
 public:
  // Throws an Error if the options name a ptxas that does not exist.
  explicit Attention(runtime::Device& device, AttentionOptions options = {});
  ~Attention();
  Attention(Attention&&) noexcept;
  Attention& operator=(Attention&&) noexcept;

  // Queues the call on the device. Throws an Error that names the operand, the violated rule and the value.
  void operator()(const AttentionArguments& arguments, Where where = Where::here());

  // Returns the size of the workspace that the call needs, in bytes. For calls without packed sequences, it
  // is usually 0 if TMA can access all operands in place. Throws an Error if operator() would.
  size_t workspace_bytes(const AttentionArguments& arguments, Where where = Where::here());

  // Returns the tile that the call currently uses, which was chosen at the first call or found by tune().
  // Throws an Error if operator() would, and also if there is nothing to do, since the call then uses no
  // tile.
  AttentionTile tile(const AttentionArguments& arguments, Where where = Where::here());

  // Finds the fastest of twelve tiles (attention_tiles_to_measure()) for calls of this size on this device,
  // and uses this tile in all later calls. If the user's tile file lists the call, its tile is used; the file
  // is ignored if the options have a score, which it does not describe. Otherwise the tiles are measured,
  // which takes about 50 ms, or seconds if kernels have to be compiled. Q, K and V may hold anything; offsets
  // are read; O and lse are not written. The host waits for the stream. Meanwhile, copies of the tensors
  // occupy device memory: up to twice the size of the L2 cache, or the size of the call's tensors if they are
  // larger. Afterwards, results may differ in their last bits, since tiles add in different orders, and the
  // call may need a workspace of a different size. Throws an Error if operator() would, if the device is not
  // a GPU, or if the stream is being captured.
  void tune(const AttentionArguments& arguments, Where where = Where::here());

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels

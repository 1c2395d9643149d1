// Attention for any sizes, as one call on the host: the call chooses a tile, compiles the kernel once, copies
// operands into a form that TMA accepts, and launches.
//
//   Attention attention(*device);
//   AttentionArguments p;
//   p.batches = 2, p.heads = 32, p.key_heads = 8, p.queries = p.keys = 4096, p.depth = 128;
//   p.q.memory = q, p.k.memory = k, p.v.memory = v, p.o.memory = o;  // [batch, row, head, column]
//   p.causal = true;
//   if (size_t bytes = attention.workspace_bytes(p))
//     p.workspace = workspace = runtime::Buffer(*device, bytes);
//   p.stream = stream;  // a CUstream; without it, the device's own
//   attention(p);       // queued
#pragma once

#include <functional>
#include <memory>

#include "kernels/attention/choice.h"
#include "kernels/attention/kernel.h"
#include "kernels/call/options.h"

namespace ptxbuilder::kernels {

// Rows of contiguous elements for each head of each batch, in device memory. Strides are in elements.
struct DeviceHeads {
  runtime::View memory = {};  // from the first element to the end of the accessible memory
  // 0 means the stride in a tensor [batch, row, head, column] without gaps.
  int64_t row_stride = 0, head_stride = 0, batch_stride = 0;
};

// O[i] = sum_j softmax_j(scale Q[i] K[j]) V[j] for each head of each batch, over the keys j that query i
// sees.
//
// Heads: query head h reads key head h / (heads / key_heads).
//
// Masks: with `offset` = keys - queries, or 0 if `top_left`, query i sees the keys from i + offset - left to
// i + offset + right, inclusive; a negative `left` or `right` means no limit. `causal` means right = 0. If a
// query sees no key, its row of O is 0 and its lse is -inf. Sizes may have any value, including 0, with at
// most 256 columns and V no wider than Q; latent values are an exception.
//
// Sinks: each head of Q has an f32 that is part of the softmax, like the score of a key without a value. lse
// includes it. If a query sees no key, its lse is the sink.
//
// Dropout: a weight is dropped with probability `dropout`, rounded to a multiple of 1/65536, and kept weights
// are multiplied by 1 / (1 - dropout); lse includes all weights. `dropout_seed` is four u32 on the device: 64
// bits of a seed and 64 of an offset, low words first. dropout_keeps() in dropout.h computes on the host
// which weights are kept.
//
// Packed sequences: `query_offsets` and `key_offsets` are `batches` + 1 ascending numbers on the device: the
// row of Q and of K where each sequence begins, and the end of the last one. `queries` and `keys` are the
// lengths of the longest sequence, and `query_rows` and `key_rows` are the total numbers of rows; batch
// strides are ignored. Packed calls need a workspace, for the order in which CTAs process the sequences. A
// NaN or an infinity in the first rows of a sequence's V may affect the previous sequence.
//
// Lengths and pages, for caches: `key_lengths` holds, on the device, how many of its `keys` each batch uses.
// Masks count from these lengths, and the rows after them may hold anything. With pages, K and V are [page,
// row, head, column], and the table, which requires lengths, assigns a page to every `page` keys of a batch.
// A page that does not exist is read as zeros. Pages are meant for few queries: blocks have 64 rows.
//
// Mixed batches: with `query_offsets` and `key_lengths`, but no `key_offsets`, each sequence has its own
// number of queries, which are packed as above, and uses the keys of its batch of K and V, or those in its
// pages.
//
// Trees of tokens, for speculative decoding: `tree_mask` is a u32 for each query of caches with lengths. The
// last keys of a sequence are those of its queries, at most 32: bit j of a query's mask says whether it sees
// the key of query j. All queries of the sequence see the keys before these. The other masks apply as well,
// but a tree does not need a causal mask.
//
// K and V of e4m3: with `cache_type`, K and V have that type, and queries attend to K times k_scale and V
// times v_scale. Both scales are f32 on the device, with either one number or one for each head of K, or both
// are omitted. With `page_scales`, each page has one number, or one for each head of K, and its keys and
// values are multiplied before they are rounded to `type`. k_scale must not be negative: a negative k_scale
// of a head makes all of its rows NaN. Packed sequences cannot have such caches, unless Q is e4m3 too.
//
// Q of e4m3: with `query_type`, Q has that type, and K and V must have it, too. The weights are then also
// rounded to it, which causes most of the error: up to 2^-4 of each weight. `q_scale` has the form of
// k_scale, either both are given or neither is, and their product must not be negative. The tensor cores keep
// about 14 bits of a sum of such products: with `promote` above 0, sums are added to f32 sums after that
// number of keys, or after a block if a block has more keys. Such calls cannot have lengths of keys or pages.
//
// Latent values (multi-head latent attention with absorbed weights): K of more than 256 columns, of one head,
// whose first `value_depth` columns, 256 or 512, are also its values, 64 fewer than it has columns. V is
// left out. Such calls have masks, lengths and pages of a multiple of 8 rows, but no other options. With a
// `cache_type` of e4m3, `type` is bf16, `depth` 576, and a row of K has 656 bytes, by which its strides
// count: 512 values of e4m3, 4 factors in f32, of 128 values each, and the 64 last columns in bf16. There are
// no other scales. Values times their factors are rounded to bf16.
//
// NaN and infinity: a NaN or an infinity in Q makes only its own row NaN; in K, every row that sees it; in V,
// one column of these rows. From V it may also affect rows that do not see it, whose weights for it are 0. If
// a row also has other scores, a score of -inf hides its key.
//
// Placement: strides may have any value, and addresses are multiples of an element. TMA needs multiples of 16
// bytes: an operand that is aligned otherwise is copied into the workspace before the kernel, and such an O
// is copied from the workspace after it.
//
// Aliasing: O, lse and the workspace must not overlap anything. Q, K and V may overlap in any way.
struct AttentionArguments {
  DType type = DType::f16;                        // f16 or bf16: the type of O, and of Q, K and V unless they
                                                  // are e4m3
  std::optional<DType> cache_type = {};           // type of K and V: e4m3, or `type` if unset
  std::optional<DType> query_type = {};           // type of Q, if K and V are e4m3: e4m3, or `type` if unset
  int64_t batches = 1, heads = 1, key_heads = 0;  // key_heads of 0: equal to heads
  int64_t depth = 128, value_depth = 0;           // columns of Q and K; columns of V and O, where 0 means
                                                  // `depth`
  DeviceHeads q, k, v, o;                         // v has no memory with latent values
  runtime::View lse = {};  // f32 [batch, head, query], or if packed [head, row of Q]; no memory: not
                           // requested
  // The numbers, sizes and flags of attention.def, which describes them.
#define PTXBUILDER_ATTENTION_NUMBER(name, below, rule, meaning) float name = 0;
#define PTXBUILDER_ATTENTION_SIZE(name, unsaid, meaning) int64_t name = unsaid;
#define PTXBUILDER_ATTENTION_FLAG(name, BIT, meaning) bool name = false;
#include "kernels/attention/attention.def"
  runtime::View query_offsets = {}, key_offsets = {};  // u32, with values below 2^31
  int64_t query_rows = 0, key_rows = 0;
  runtime::View sinks = {};                   // f32 [head]; no memory: no sinks
  runtime::View dropout_seed = {};            // u32 [4]; ignored if dropout is 0
  runtime::View key_lengths = {};             // u32 [batch]; no memory: each batch has `keys` keys
  runtime::View tree_mask = {};               // u32 [batch, queries], or if packed [row of Q]; no memory: no
                                              // tree
  runtime::View block_table = {};             // u32 [batch, ceil(keys / page)], batches `table_stride` apart
  runtime::View k_scale = {}, v_scale = {};   // f32 [scales], if K and V are e4m3; or no memory for either
  runtime::View q_scale = {};                 // f32 [scales], if Q is e4m3 and the other two are given
  int64_t scales = 1;                         // 1, or the number of K's heads
  bool page_scales = false;                   // k_scale and v_scale have that many numbers for each page
  std::vector<runtime::Argument> score = {};  // the arguments that AttentionOptions::score declares, in order
  runtime::View workspace = {};
  runtime::Stream stream = {};  // default: the device's own stream

  // If there are pages, K and V have `pages` times `page` rows, batch strides separate pages, and block_table
  // lists for each batch the pages that hold its keys, as many as `keys` fill. 0 means that there are no
  // pages.
  int64_t page = 0, pages = 0;
  std::optional<int64_t> table_stride = {};  // in entries; unset: block_table has no gaps

  bool packed() const { return query_offsets.address != 0 || key_offsets.address != 0; }
  bool packs_keys() const { return packed() && key_lengths.address == 0; }
  bool has_own_lengths() const { return packed() || key_lengths.address != 0; }
  constexpr DType key_type() const { return cache_type.value_or(type); }
  bool has_byte_rows() const {  // see latent values
    return key_type() == DType::e4m3 && depth > AttentionOperation::kMostColumns;
  }
  int64_t pages_of_batch() const { return page > 0 ? (keys + page - 1) / page : 0; }
};

// The options of an Attention, which apply to all of its calls.
struct AttentionOptions : CallOptions {
  AttentionScore score = {};  // the user's own scores, masks included, in all calls
  // Chooses the tile for a size that is called for the first time. Only one thread at a time calls it.
  std::function<AttentionTile(const AttentionOperation&, const AttentionSize&, int multiprocessors)> choose =
      kernels::choose_attention;
  // Supplies the kernels; if not set, Attention compiles them. It may be called for several kernels at once.
  std::function<std::unique_ptr<runtime::LoadedKernel>(const AttentionOperation&, const AttentionTile&)>
      load = nullptr;
};

// Computes attention, and stores the kernels and the choices for each size. The first call for a size, or of
// workspace_bytes() for it, compiles its kernel unless a cache holds it (about 0.3 s). Later calls take
// microseconds, allocate no device memory and wait for nothing, so they may be captured. A kernel that spills
// registers is accepted anyway. The object must not outlive its device. Any thread may call it at any time,
// and several threads may do so at once.
class Attention {
 public:
  // Throws Error if the options name a ptxas that does not exist.
  explicit Attention(runtime::Device& device, AttentionOptions options = {});
  ~Attention();
  Attention(Attention&&) noexcept;
  Attention& operator=(Attention&&) noexcept;

  // Queues the call on the device. Throws Error that names the operand, the rule and the value.
  void operator()(const AttentionArguments& arguments, Where where = Where::here());

  // Returns the bytes of workspace that the call needs; 0 if TMA accepts all operands in place. Throws Error
  // like the call.
  size_t workspace_bytes(const AttentionArguments& arguments, Where where = Where::here());

  // Returns the tile that the call currently uses: the chosen one, or the one that tune() found. Throws Error
  // like the call, and also if there is nothing to do, since such a call uses no tile.
  AttentionTile tile(const AttentionArguments& arguments, Where where = Where::here());

  // Finds the fastest of twelve tiles (attention_tiles_to_measure()) for calls of this size, on this device,
  // and uses it from then on. The tile is the one in the user's file, unless there is a user's own score,
  // which the file does not describe; otherwise tune() measures for about 50 ms, or for seconds if kernels
  // have to be compiled. Q, K and V may hold anything, and offsets are read; O and lse are not written. The
  // host waits for the stream. Meanwhile, copies of the tensors take device memory, up to twice the size of
  // the L2 or once the size of the call's tensors. Tiles add up in different orders. Afterwards, the call may
  // need a workspace of a different size. Throws Error like the call, and also on a device that is not a GPU,
  // and for a stream that is being captured.
  void tune(const AttentionArguments& arguments, Where where = Where::here());

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels

// Attention of any lengths, as one call on the host: the call chooses a tile, compiles the kernel once,
// copies operands into a form that TMA accepts, and launches.
//
//   Attention attention(*device);
//   AttentionArguments p;
//   p.batches = 2, p.heads = 32, p.key_heads = 8, p.queries = p.keys = 4096, p.depth = 128;
//   p.q.memory = q, p.k.memory = k, p.v.memory = v, p.o.memory = o;  // [batch, row, head, column]
//   p.causal = true;
//   if (size_t bytes = attention.workspace_bytes(p)) p.workspace = workspace = runtime::Buffer(*device,
//   bytes); p.stream = stream;  // a CUstream; without it, the device's own attention(p);       // queued
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

// O[i] = sum_j softmax_j(scale Q[i] K[j]) V[j] for each head of each batch, where query i sees key j.
//
// Heads: query head h reads key head h / (heads / key_heads).
//
// Masks: with `offset` = keys - queries, or 0 if `top_left`, query i sees the keys from i + offset - left to
// i + offset + right, inclusive; a negative `left` or `right` means no limit. `causal` means right = 0. If a
// query sees no key, its row of O is 0 and its lse is -inf.
//
// Sizes may have any value, including 0, with at most 256 columns and V no wider than Q; but see latent
// values.
//
// Sinks: each head of Q has an f32 that takes part in the softmax like the score of a key without a value.
// lse includes it. If a query sees no key, its lse is the sink.
//
// Dropout: a weight is dropped with probability `dropout`, to the nearest 65536th, and kept weights grow by 1
// / (1 - dropout); lse counts all weights. `dropout_seed` is four u32 on the device: 64 bits of a seed and 64
// of an offset, lowest word first; dropout_keeps() of dropout.h computes on the host which weights are kept.
//
// Packed sequences: `query_offsets` and `key_offsets` are `batches` + 1 ascending numbers on the device:
// where each sequence begins among the rows of Q and of K, and the end of the last. `queries` and `keys` are
// the lengths of the longest sequence, and `query_rows` and `key_rows` the total numbers of rows; batch
// strides are ignored. Packed calls need a workspace, for the order in which CTAs take the sequences. A NaN
// or an infinity in the first rows of a sequence's V may reach the sequence before it.
//
// Lengths and pages, for caches: `key_lengths` holds on the device how many of its `keys` each batch has;
// masks count from these lengths, and rows after them may hold anything. With pages, K and V are [page, row,
// head, column], and the table, which requires lengths, maps each `page` keys of a batch to a page. A page
// that does not exist reads as zeros. Pages are meant for few queries: blocks have 64 rows.
//
// Mixed batches: with `query_offsets` and `key_lengths`, but no `key_offsets`, each sequence has its own
// number of queries, packed as above, and the keys of its batch of K and V, or those in its pages.
//
// Trees of tokens, for speculation: `tree_mask` is a u32 for each query of caches with lengths. The last keys
// of a sequence are those of its queries, at most 32: bit j of a query's mask says whether it sees the key of
// query j. All of its queries see the keys before. Masks hold besides: a tree needs no causal one.
//
// K and V of e4m3: with `cache_type`, they are of that type, and queries attend to K times k_scale and V
// times v_scale. Both scales are f32 on the device, either one number or one for each head of K, or both are
// left out. With `page_scales` each page has one number, or one for each head of K, and its keys and values
// are multiplied before they are rounded to `type`. A k_scale is at least 0: one of a head below 0 makes all
// of its rows NaN. Packed sequences cannot
// have such caches, unless Q is of e4m3 too.
//
// Q of e4m3: with `query_type`, Q is of that type, and so must be K and V. The weights are then rounded to it
// too, which is most of the error: up to 2^-4 of each weight. `q_scale` is as k_scale, and given or left out
// with it, and the product of both is at least 0. The tensor cores keep some 14 bits of a sum of such
// products: with `promote` above 0, sums are added to sums in f32 after so many keys, or after a block if a
// block has more. Such calls have no lengths of keys or pages.
//
// Latent values (multi-head latent attention with absorbed weights): K of more than 256 columns, of one head,
// whose first `value_depth` columns, 256 or 512, are also its values, 64 fewer than it has columns. V is
// left out. Such calls have masks, lengths and pages of a multiple of 8 rows, but no other options. With a
// `cache_type` of e4m3, `type` is bf16, `depth` 576, and a row of K has 656 bytes, by which its strides
// count: 512 values of e4m3, 4 factors in f32, of 128 values each, and the 64 last columns in bf16. There are
// no other scales. Values times their factors are rounded to bf16.
//
// NaN and infinity: a NaN or an infinity in Q makes only its own row NaN, in K every row that sees it, and in
// V one column of these rows; from V it may also reach rows that do not see it, whose weights for it are 0. A
// score of -inf among others hides its key.
//
// Placement: strides may have any value, and addresses are multiples of an element. TMA needs multiples of 16
// bytes; an operand that is not so aligned is copied into the workspace first, or O from there after the
// kernel.
//
// Aliasing: O, lse and the workspace must overlap nothing. Q, K and V may overlap in any way.
struct AttentionArguments {
  DType type = DType::f16;                        // of O, and of Q, K and V unless they are of e4m3; or bf16
  std::optional<DType> cache_type = {};           // of K and V: e4m3; unset: `type`
  std::optional<DType> query_type = {};           // of Q, with K and V of e4m3: e4m3; unset: `type`
  int64_t batches = 1, heads = 1, key_heads = 0;  // 0: the same as heads
  int64_t depth = 128, value_depth = 0;           // columns of Q and K, and of V and O; 0: `depth`
  DeviceHeads q, k, v, o;                         // v without memory: see latent values
  runtime::View lse = {};  // f32 [batch, head, query]; packed [head, row of Q]; no memory: not wanted
  // The numbers, sizes and flags of attention.def, which says what they mean.
#define PTXBUILDER_ATTENTION_NUMBER(name, below, rule, meaning) float name = 0;
#define PTXBUILDER_ATTENTION_SIZE(name, unsaid, meaning) int64_t name = unsaid;
#define PTXBUILDER_ATTENTION_FLAG(name, BIT, meaning) bool name = false;
#include "kernels/attention/attention.def"
  runtime::View query_offsets = {}, key_offsets = {};  // u32, with values below 2^31
  int64_t query_rows = 0, key_rows = 0;
  runtime::View sinks = {};                   // f32 [head]; no memory: there are none
  runtime::View dropout_seed = {};            // u32 [4]; ignored if dropout is 0
  runtime::View key_lengths = {};             // u32 [batch]; no memory: each batch has `keys`
  runtime::View tree_mask = {};               // u32 [batch, queries], or packed [row of Q]; or none
  runtime::View block_table = {};             // u32 [batch, ceil(keys / page)], batches `table_stride` apart
  runtime::View k_scale = {}, v_scale = {};   // f32 [scales], with K and V of e4m3; or neither
  runtime::View q_scale = {};                 // f32 [scales], with Q of e4m3 and the two others
  int64_t scales = 1;                         // 1, or the heads of K
  bool page_scales = false;                   // k_scale and v_scale have so many for each page
  std::vector<runtime::Argument> score = {};  // the arguments that AttentionOptions::score declares, in order
  runtime::View workspace = {};
  runtime::Stream stream = {};  // the device's own unless it is set

  // Pages: K and V have `pages` times `page` rows, batch strides separate pages, and block_table lists for
  // each batch the pages that hold its keys, as many as `keys` fill; 0 means no pages.
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

// The options of an Attention, which hold for all of its calls.
struct AttentionOptions : CallOptions {
  AttentionScore score = {};  // for all calls: the author's own scores, masks included
  // Chooses the tile of a size that is called for the first time. It gets one call at a time.
  std::function<AttentionTile(const AttentionOperation&, const AttentionSize&, int multiprocessors)> choose =
      kernels::choose_attention;
  // Returns kernels; if it is not set, they are compiled here. It may be called several times at once, for
  // several kernels.
  std::function<std::unique_ptr<runtime::LoadedKernel>(const AttentionOperation&, const AttentionTile&)>
      load = nullptr;
};

// Keeps kernels and the choices that were made for each size. The first call of a size, or of
// workspace_bytes() for it, compiles its kernel unless a cache holds it (about 0.3 s); later calls take
// microseconds, allocate no device memory and wait for nothing, so that they may be captured. A kernel that
// spills registers is used all the same. An Attention must not outlive its device. Any thread may call it at
// any time, and several threads may do so at once.
class Attention {
 public:
  // Throws Error if it names a ptxas that does not exist.
  explicit Attention(runtime::Device& device, AttentionOptions options = {});
  ~Attention();
  Attention(Attention&&) noexcept;
  Attention& operator=(Attention&&) noexcept;

  // Queues the call on the device. Throws Error that names the operand, the rule and the value.
  void operator()(const AttentionArguments& arguments, Where where = Where::here());

  // Returns the bytes of workspace that the call needs; 0 if TMA accepts all operands in place. Throws Error
  // as the call does.
  size_t workspace_bytes(const AttentionArguments& arguments, Where where = Where::here());

  // Returns the tile that the call uses now: the chosen one, or the one that tune() found. Throws Error as
  // the call does, and if there is nothing to do, since such a call uses no tile.
  AttentionTile tile(const AttentionArguments& arguments, Where where = Where::here());

  // Finds the fastest of twelve tiles (attention_tiles_to_measure()) for calls of this size, on this device,
  // and uses it from now on. The user's file decides, unless there is a score of the author's, which the file
  // does not know; otherwise tune() measures for about 50 ms, or for seconds if kernels are in no cache. Q, K
  // and V may hold anything, and offsets are read; O and lse are not touched. The host waits for the stream,
  // and copies of the tensors take device memory meanwhile, up to twice the L2 or once the size of the call's
  // tensors. Tiles add in different orders. The call may need a workspace of another size afterwards. Throws
  // Error as the call does, on a device that is not a GPU, and for a stream that is being captured.
  void tune(const AttentionArguments& arguments, Where where = Where::here());

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels

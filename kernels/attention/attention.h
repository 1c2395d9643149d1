// Attention of any lengths, as one call on the host: it chooses a tile, compiles the kernel once, brings
// operands into a form that TMA takes, and launches.
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

// Rows of elements side by side, of each head of each batch, in device memory. Strides are in elements.
struct DeviceHeads {
  runtime::View memory = {};  // from the first element to the end of what may be touched
  // 0: as in a tensor [batch, row, head, column] without gaps.
  int64_t row_stride = 0, head_stride = 0, batch_stride = 0;
};

// O[i] = sum_j softmax_j(scale Q[i] K[j]) V[j] for each head of each batch, where query i sees key j.
//
// Heads: query head h reads key head h / (heads / key_heads).
//
// Masks: with `offset` = keys - queries, or 0 if `top_left`, query i sees the keys from i + offset - left to
// i + offset + right, both of them too; below 0 is without limit. `causal` is right = 0. Where a query sees
// no key, its row of O is 0 and its lse -inf.
//
// Sizes: any, 0 too; 256 columns at most, and V no wider than Q.
//
// Sinks: of each head of Q an f32 that takes part in the softmax as the score of a key without a value. lse
// counts it. Where a query sees no key, its lse is the sink.
//
// Dropout: a weight is dropped with probability `dropout`, to the nearest 65536th, and what is kept grows by
// 1 / (1 - dropout); lse counts all. `dropout_seed` is four u32 on the device, 64 bits of a seed and 64 of an
// offset, from the lowest on; dropout_keeps() of dropout.h says on the host what is kept.
//
// Packed sequences: `query_offsets` and `key_offsets` are `batches` + 1 numbers on the device, where each
// sequence begins among the rows of Q and of K, and the end of the last; they rise. `queries` and `keys` are
// those of the longest sequence, and `query_rows` and `key_rows` all; batch strides play no part. They take a
// workspace, for the order in which CTAs take them. What is NaN
// or infinite in the first rows of a sequence's V may reach the one before.
//
// Lengths and pages, of caches: `key_lengths` says on the device how many of its `keys` each batch has; masks
// count from these, and what follows them may be anything. With pages, K and V are [page, row, head,
// column], and the table, which takes lengths, finds the page of each `page` keys of a batch. A page that is
// none reads as zeros. Queries are few: blocks have 64 rows.
//
// Caches of e4m3: with `cache_type`, K and V are of that type, and queries attend to K times k_scale and V
// times v_scale. Both scales are f32 on the device, either a number or one for each head of K, or both are
// left out. Packed sequences have none.
//
// NaN and infinity: what is NaN or infinite in Q makes its row NaN alone, in K every row that sees it, and in
// V a column of these rows; in V it may reach rows too that do not see it, whose weights for it are 0. A
// score of -inf among others hides its key.
//
// Placement: any stride and address that is a multiple of an element. TMA wants multiples of 16 bytes; what
// is not so placed is copied into the workspace first, or O from it after the kernel.
//
// Aliasing: O and lse overlap nothing, nor does the workspace. Q, K and V may overlap as they like.
struct AttentionArguments {
  DType type = DType::f16;                        // of Q, K, V and O; or bf16
  std::optional<DType> cache_type = {};           // of K and V: e4m3; unsaid: that of Q
  int64_t batches = 1, heads = 1, key_heads = 0;  // 0: as many as heads
  int64_t depth = 128, value_depth = 0;           // columns of Q and K, and of V and O; 0: as many
  DeviceHeads q, k, v, o;
  runtime::View lse = {};  // f32 [batch, head, query]; packed [head, row of Q]; no memory: not wanted
  // The numbers, sizes and flags of attention.def, which says what they mean.
#define PTXBUILDER_ATTENTION_NUMBER(name, below, rule, meaning) float name = 0;
#define PTXBUILDER_ATTENTION_SIZE(name, unsaid, meaning) int64_t name = unsaid;
#define PTXBUILDER_ATTENTION_FLAG(name, BIT, meaning) bool name = false;
#include "kernels/attention/attention.def"
  runtime::View query_offsets = {}, key_offsets = {};  // u32, with values below 2^31
  int64_t query_rows = 0, key_rows = 0;
  runtime::View sinks = {};                   // f32 [head]; no memory: there are none
  runtime::View dropout_seed = {};            // u32 [4]; it plays no part where dropout is 0
  runtime::View key_lengths = {};             // u32 [batch]; no memory: each has `keys`
  runtime::View block_table = {};             // u32 [batch, ceil(keys / page)]
  runtime::View k_scale = {}, v_scale = {};   // f32 [scales], with K and V of e4m3; or neither
  int64_t scales = 1;                         // 1, or the heads of K
  std::vector<runtime::Argument> score = {};  // what AttentionOptions::score declares, in this order
  runtime::View workspace = {};
  runtime::Stream stream = {};  // the device's own unless said

  // Pages: K and V are `pages` times `page` rows, batch strides lie between pages, and block_table says for
  // each batch which pages its keys lie in, as many as `keys` take; 0: without pages.
  int64_t page = 0, pages = 0;

  bool packed() const { return query_offsets.address != 0 || key_offsets.address != 0; }
  bool has_own_lengths() const { return packed() || key_lengths.address != 0; }
  DType key_type() const { return cache_type.value_or(type); }
};

// The options of an Attention, which hold for all of its calls.
struct AttentionOptions : CallOptions {
  AttentionScore score = {};  // of all calls: scores of the author's, masks among them
  // The tile of a size that comes for the first time. One call at a time.
  std::function<AttentionTile(const AttentionOperation&, const AttentionSize&, int multiprocessors)> choose =
      kernels::choose_attention;
  // This gives kernels, which are compiled here unless it is set. Several calls may come at once, for several
  // kernels.
  std::function<std::unique_ptr<runtime::LoadedKernel>(const AttentionOperation&, const AttentionTile&)>
      load = nullptr;
};

// Keeps kernels and what was chosen for each size. The first call of a size, or of workspace_bytes() for it,
// compiles its kernel where it is in no cache (some 0.3 s); those that follow take microseconds, ask the
// device for no memory and wait for nothing, so that they may stand in a capture. A kernel that spills
// registers is taken all the same. Not to outlive its device. Any thread may call it at any time, also
// several at once.
class Attention {
 public:
  // Throws Error when a ptxas is named that is not there.
  explicit Attention(runtime::Device& device, AttentionOptions options = {});
  ~Attention();
  Attention(Attention&&) noexcept;
  Attention& operator=(Attention&&) noexcept;

  // Queues it on the device. Throws Error that names the operand, the rule and the value.
  void operator()(const AttentionArguments& arguments, Where where = Where::here());

  // The bytes of workspace that it takes; 0 where TMA takes all operands where they lie. Throws Error as the
  // call does.
  size_t workspace_bytes(const AttentionArguments& arguments, Where where = Where::here());

  // The tile that the call has now: the chosen one, or the one that tune() found. Throws Error as the call
  // does, and where nothing is to do, which takes no tile.
  AttentionTile tile(const AttentionArguments& arguments, Where where = Where::here());

  // Finds the fastest of twelve tiles (attention_tiles_to_measure()) for calls of this size, on this device,
  // and takes it from now on: as the user's file says, unless there is a score of the author's, which it does
  // not know; else by measuring for some 50 ms, and for seconds where kernels are in no cache. Q, K and V may
  // hold anything, and offsets are read; O and lse are not touched. The host waits for the stream, and copies
  // of the tensors take device memory meanwhile, up to twice the L2 or once what the call has. Tiles add up
  // in another order. The workspace of the call may have another size after it. Throws Error as the call
  // does, on a device that is no GPU, and for a stream that is being captured.
  void tune(const AttentionArguments& arguments, Where where = Where::here());

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace ptxbuilder::kernels

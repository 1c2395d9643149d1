// Encodes a call of attention as the key of its plan, as its line in a tile file, and as the words that
// identify earlier calls of the same form.
#pragma once

#include <array>
#include <string>

#include "kernels/attention/attention_check.h"

namespace ptxbuilder::kernels {

// The operation and the size of a call, as the words that identify its plan.
using AttentionKey = std::array<uint64_t, 9>;
AttentionKey key_of(const PlacedAttention& attention);

// The number of words in the result of call_text(), such as "f16 128x128 causal+lse 4096 4096 32 2 4 1 0 1".
// A line of a tile file begins with these words.
constexpr size_t kAttentionTextWords = 11;
std::string call_text(const PlacedAttention& attention);

// The arguments whose values may differ between calls of the same form: from_q, from_scale and so on.
enum AttentionSource : size_t {
  from_none = 0,
  from_workspace,
#define PTXBUILDER_ATTENTION_TENSOR(name, word, is_written) from_##name,
#define PTXBUILDER_ATTENTION_NUMBER(name, below, rule, meaning) from_##name,
#include "kernels/attention/attention.def"
  kAttentionSources
};

std::array<uint64_t, kAttentionSources> sources_of(const AttentionArguments& p);
float scale_of(const AttentionArguments& p);  // returns p.scale, or 1 / sqrt(depth) if it is 0

// Returns a function that passes the words of a call's form to `take`, as ByForm requires. The words describe
// everything about the call except its sources (AttentionSource) and its stream.
constexpr auto words_of(const AttentionArguments& p) {
  return [&p](auto&& take) {
    size_t at = 0;
    const auto add = [&](auto... values) { (take(at++, static_cast<uint64_t>(values)), ...); };
    auto flags = static_cast<uint64_t>(p.type);
    add(p.batches, p.heads, p.key_heads, p.depth, p.value_depth, p.query_rows, p.key_rows, p.page, p.pages,
        p.scales, p.page_scales, p.table_stride.value_or(-1), p.key_type(), p.query_type.value_or(p.type),
        p.workspace.bytes);
#define PTXBUILDER_ATTENTION_HEADS(name, word, is_written) \
  add(p.name.memory.bytes, p.name.row_stride, p.name.head_stride, p.name.batch_stride);
#define PTXBUILDER_ATTENTION_ROWS(name, word, is_written) \
  add(p.name.bytes), flags = flags << 1 | uint64_t{p.name.address != 0};
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) flags = flags << 1 | uint64_t{p.name > 0};
#define PTXBUILDER_ATTENTION_SIZE(name, unsaid, meaning) add(p.name);
#define PTXBUILDER_ATTENTION_FLAG(name, BIT, meaning) flags = flags << 1 | uint64_t{p.name};
#include "kernels/attention/attention.def"
    add(flags);
  };
}

constexpr size_t kAttentionFormWords = [] {
  size_t words = 0;
  words_of(AttentionArguments{})([&](size_t, uint64_t) { ++words; });
  return words;
}();

// Returns whether the addresses and numbers of a call are obviously valid. Such a call needs no further
// checks if another call of its form was valid. Required tensors must be present and aligned as TMA requires,
// numbers must be in their ranges, and outputs must not overlap any other memory.
bool is_plain(const AttentionArguments& p);

}  // namespace ptxbuilder::kernels

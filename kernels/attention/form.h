// The forms of attention: the words that identify a call's plan, and the words that identify an earlier call.
#pragma once

#include <array>
#include <string>

#include "kernels/attention/attention_check.h"

namespace ptxbuilder::kernels {

// The words of an operation and a size that identify a plan.
using AttentionKey = std::array<uint64_t, 9>;
AttentionKey key_of(const PlacedAttention& attention);

// The words of a call in a file of tiles, such as "f16 128x128 causal+lse 4096 4096 32 2 4 1 0 1".
constexpr size_t kAttentionTextWords = 11;
std::string call_text(const PlacedAttention& attention);

// The values that may differ between calls of one form: from_q, from_scale and so on.
enum AttentionSource : size_t {
  from_none = 0,
  from_workspace,
#define PTXBUILDER_ATTENTION_TENSOR(name, word, is_written) from_##name,
#define PTXBUILDER_ATTENTION_NUMBER(name, below, rule, meaning) from_##name,
#include "kernels/attention/attention.def"
  kAttentionSources
};

std::array<uint64_t, kAttentionSources> sources_of(const AttentionArguments& p);
float scale_of(const AttentionArguments& p);  // 1 / sqrt(depth) unless it is set

// The words of a call's form: everything except its sources and the stream, in the format of ByForm.
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

// Returns whether addresses and numbers need no further checks, so that a call is valid if another call of
// its form is: tensors are given and aligned as TMA requires, numbers are in their ranges, and outputs do not
// overlap anything else.
bool is_plain(const AttentionArguments& p);

}  // namespace ptxbuilder::kernels

#include "kernels/attention/form.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "kernels/call/prepared_calls.h"

namespace ptxbuilder::kernels {
namespace {

const runtime::View& memory_of(const DeviceHeads& heads) { return heads.memory; }
const runtime::View& memory_of(const runtime::View& rows) { return rows; }

}  // namespace

AttentionKey key_of(const PlacedAttention& attention) {
  const AttentionOperation& o = attention.operation;
  const AttentionSize& s = attention.size;
  const auto pair = [](auto low, auto high) {
    return static_cast<uint64_t>(static_cast<uint32_t>(low)) | static_cast<uint64_t>(high) << 32;
  };
  uint64_t flags = uint64_t{o.type == DType::bf16};
  for (const bool flag : {o.causal, o.window, o.packed, o.lse, o.sinks, o.lengths, o.tree, o.e4m3,
                          o.e4m3_products, o.promotes, o.page_scales})
    flags = flags << 1 | uint64_t{flag};
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) flags = flags << 1 | uint64_t{o.name};
#include "kernels/attention/attention.def"
  return {flags,
          pair(o.depth, o.value_depth | o.heads_in_rows << 16),
          static_cast<uint64_t>(s.queries),
          static_cast<uint64_t>(s.keys),
          static_cast<uint64_t>(s.heads),
          static_cast<uint64_t>(s.batches),
          static_cast<uint64_t>(s.group),
          pair(s.visible, s.window_start),
          static_cast<uint64_t>(o.page)};
}

std::string call_text(const PlacedAttention& attention) {
  const AttentionOperation& o = attention.operation;
  const AttentionSize& s = attention.size;
  std::string form;
  const auto add = [&](bool has, const char* word) {
    if (has) form += fmt::format("{}{}", form.empty() ? "" : "+", word);
  };
  add(o.causal, "causal");
  add(o.window, "window");
  add(o.packed, "packed");
  add(o.lse, "lse");
  add(o.sinks, "sinks");
  add(o.lengths, "lengths");
  add(o.tree, "tree");
  add(o.e4m3, o.e4m3_products ? "e4m3_products" : "e4m3");
  add(o.promotes, "promotes");
  add(o.page_scales, "page_scales");
  add(o.page > 0, fmt::format("page{}", o.page).c_str());
#define PTXBUILDER_ATTENTION_STEP(name, below, rule, meaning) add(o.name, #name);
#include "kernels/attention/attention.def"
  return fmt::format("{} {}x{} {} {} {} {} {} {} {} {} {}", name(o.type), o.depth, o.value_depth,
                     form.empty() ? "plain" : form, s.queries, s.keys, s.heads, s.batches, s.group, s.visible,
                     s.window_start, o.heads_in_rows);
}

float scale_of(const AttentionArguments& p) {
  return p.scale > 0 ? p.scale : static_cast<float>(1 / std::sqrt(static_cast<double>(p.depth)));
}

std::array<uint64_t, kAttentionSources> sources_of(const AttentionArguments& p) {
  std::array<uint64_t, kAttentionSources> all = {0, p.workspace.address};
#define PTXBUILDER_ATTENTION_TENSOR(name, word, is_written) all[from_##name] = memory_of(p.name).address;
#define PTXBUILDER_ATTENTION_NUMBER(name, below, rule, meaning) \
  all[from_##name] = std::bit_cast<uint32_t>(p.name);
#include "kernels/attention/attention.def"
  all[from_scale] = std::bit_cast<uint32_t>(scale_of(p));
  return all;
}

bool is_plain(const AttentionArguments& p) {
  const runtime::View& w = p.workspace;
  const bool is_latent = p.depth > AttentionOperation::kMostColumns;
  bool plain = p.score.empty() && w.address % kTma == 0 && (w.address != 0 || w.bytes == 0);
#define PTXBUILDER_ATTENTION_HEADS(name, word, is_written)                                         \
  plain &= (p.name.memory.address != 0) != (size_t{from_##name} == size_t{from_v} && is_latent) && \
           p.name.memory.address % kTma == 0;
#define PTXBUILDER_ATTENTION_ROWS(name, word, is_written) plain &= p.name.address % 4 == 0;
#define PTXBUILDER_ATTENTION_NUMBER(name, below, rule, meaning) plain &= is_number(p.name, below);
#include "kernels/attention/attention.def"
  const std::array all = {
#define PTXBUILDER_ATTENTION_TENSOR(name, word, is_written) std::pair(&memory_of(p.name), is_written),
#include "kernels/attention/attention.def"
      std::pair(&w, 1)};
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (all[i].second || all[k].second) plain &= lie_apart(*all[i].first, *all[k].first);
  return plain;
}

}  // namespace ptxbuilder::kernels

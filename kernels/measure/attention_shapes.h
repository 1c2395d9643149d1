// The attention problems that the benchmark runs, with the weights with which its score counts them.
#pragma once

#include <functional>
#include <span>

#include "kernels/measure/workload.h"

namespace ptxbuilder::bench {

struct AttentionSet {
  std::string name, help;
  std::function<std::vector<Case>(uint64_t seed)> cases;
};

// grid: f16, 16384 tokens and 2048 columns in all heads, of lengths from 512 to 16384 in heads of 64, 128 and
// 256 columns, with a causal mask and without. extra: heads that share keys, of 96 and of 192 and 128
// columns, lengths that fill whole waves, packed sequences of a long-tailed mix that the seed draws, and
// bf16. e4m3: some of grid's with Q, K and V of e4m3, each with the same in bf16. Heads of 128 columns count
// twice as much as others, and causal ones 60 for 40.
std::span<const AttentionSet> attention_sets();
const AttentionSet& attention_set(const std::string& name);  // throws Error that lists the names

// Parses what size_text() prints, except for packed sequences, with the words after colons in any order.
// Throws Error that shows the syntax.
AttentionProblem parse_attention(const std::string& text);

}  // namespace ptxbuilder::bench

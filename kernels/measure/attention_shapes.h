// The attention problems that the benchmark runs, with their weights in its score.
#pragma once

#include <functional>
#include <span>

#include "kernels/measure/workload.h"

namespace ptxbuilder::bench {

struct AttentionSet {
  std::string name, help;
  std::function<std::vector<Case>(uint64_t seed)> cases;
};

// Returns the sets:
// - grid: f16, 16384 tokens and 2048 columns over all heads, with lengths from 512 to 16384, heads of 64, 128
//   and 256 columns, and with and without a causal mask.
// - extra: heads that share keys, heads of 96 columns and of 192 and 128 columns, lengths that fill whole
//   waves, packed sequences with a long-tailed distribution of lengths that the seed draws, and bf16.
// - e4m3: some problems of grid with Q, K and V in e4m3, each together with the same problem in bf16.
// Heads of 128 columns have twice the weight of others, and causal problems a weight of 60 for every 40 of
// others.
std::span<const AttentionSet> attention_sets();
const AttentionSet& attention_set(const std::string& name);  // throws Error that lists the names

// Parses what size_text() prints, except for packed sequences; the words after colons may be in any order.
// Throws Error that shows the syntax.
AttentionProblem parse_attention(const std::string& text);

}  // namespace ptxbuilder::bench

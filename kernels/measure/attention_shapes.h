// The attention problems that the benchmark runs, and their weights in its score.
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
// - grid: f16, 16384 tokens and a total of 2048 columns in all heads, with lengths from 512 to 16384, heads
//   of 64, 128 and 256 columns, both with and without a causal mask.
// - extra: heads that share keys, heads of 96 columns, heads of 192 columns of Q and K and 128 of V, lengths
//   that fill complete waves, packed sequences with random lengths from a long-tailed distribution, and bf16.
// - e4m3: some problems of grid with e4m3 Q, K and V, each together with the same problem in bf16.
// Heads of 128 columns have twice the weight of other heads. The weights of causal problems and of other
// problems have the ratio 60 to 40.
std::span<const AttentionSet> attention_sets();
const AttentionSet& attention_set(const std::string& name);  // throws an Error that lists the names

// Parses text in the form that size_text() returns, except for packed sequences. The words after colons may
// be in any order. If the text is not valid, throws an Error that shows the syntax.
AttentionProblem parse_attention(const std::string& text);

}  // namespace ptxbuilder::bench

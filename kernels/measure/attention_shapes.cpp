#include "kernels/measure/attention_shapes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>

#include "kernels/gemm/split.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::bench {
namespace {

constexpr int64_t kTokens = 16384, kColumns = 2048;

AttentionProblem problem(int64_t length, int64_t depth, bool causal) {
  AttentionProblem p;
  p.queries = p.keys = length;
  p.batches = std::max<int64_t>(kTokens / length, 1);
  p.depth = p.value_depth = depth;
  p.heads = p.key_heads = kColumns / depth;
  p.causal = causal;
  return p;
}

Case counted(const std::string& group, const AttentionProblem& p) {
  return {group, p, (p.depth == 128 ? 50 : 25) * (p.causal ? 10.0 : 20.0 / 3)};
}

std::vector<Case> grid(uint64_t) {
  std::vector<Case> all;
  for (int64_t depth : {64, 128, 256})
    for (bool causal : {false, true})
      for (int64_t length : {512, 1024, 2048, 4096, 8192, 16384})
        all.push_back(
            counted(fmt::format("d{}{}", depth, causal ? "-causal" : ""), problem(length, depth, causal)));
  return all;
}

std::vector<Case> of_e4m3(uint64_t) {
  std::vector<Case> all;
  for (int64_t depth : {64, 128, 256})
    for (bool causal : {false, true})
      for (int64_t length : {2048, 8192, 16384})
        for (const DType type : {DType::bf16, DType::e4m3}) {
          AttentionProblem p = problem(length, depth, causal);
          p.type = type;
          all.push_back(counted(fmt::format("d{}{}", depth, causal ? "-causal" : ""), p));
        }
  return all;
}

// Returns random lengths with a sum of up to kTokens. Their logarithms have the distribution N(6, 1.2).
std::vector<int64_t> long_tailed(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(6, 1.2);
  std::vector<int64_t> lengths;
  for (int64_t left = kTokens; left > 0; left -= lengths.back())
    lengths.push_back(std::min<int64_t>(static_cast<int64_t>(std::exp(normal(random))) + 1, left));
  return lengths;
}

std::vector<Case> extra(uint64_t seed) {
  std::vector<Case> all;
  const auto both = [&](const char* group, AttentionProblem p) {
    for (bool causal : {false, true}) {
      p.causal = causal;
      all.push_back(counted(group, p));
    }
  };
  AttentionProblem p;
  for (int64_t length : {2048, 8192}) {
    p = problem(length, 128, false);
    p.heads = 32, p.key_heads = 4;
    both("grouped", p);
  }
  p = problem(4096, 96, false);
  p.heads = p.key_heads = 16;
  both("d96", p);
  p.depth = 192, p.value_depth = 128;
  both("d192/128", p);
  for (int64_t length : {4224, 8448, 16896}) {
    p = problem(length, 128, false);
    p.batches = 1;
    all.push_back(counted("waves", p));
  }
  p = problem(8448, 128, false);
  p.batches = 4;
  both("waves", p);
  p = problem(kTokens, 128, true);
  p.pack(long_tailed(seed));
  all.push_back(counted("packed", p));
  for (int64_t length : {2048, 8192}) {
    p = problem(length, 128, false);
    p.type = DType::bf16;
    both("bf16", p);
  }
  return all;
}

bool parse_number(std::string_view text, int64_t& value, int64_t least) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= least;
}

// Parses text such as "s1024/4096", or "s4096" for two equal numbers.
bool parse_pair(std::string_view text, char letter, int64_t& first, int64_t& second) {
  if (text.empty() || text[0] != letter) return false;
  const std::vector<std::string_view> parts = kernels::split(text.substr(1), '/');
  return parts.size() <= 2 && parse_number(parts.front(), first, 1) && parse_number(parts.back(), second, 1);
}

bool parse_word(std::string_view word, AttentionProblem& p) {
  if (word == "causal") return p.causal = true;
  if (word.starts_with("left=")) return parse_number(word.substr(5), p.left, 0);
  if (word.starts_with("right=")) return parse_number(word.substr(6), p.right, 0);
  const auto type = dtype_from_name(word);
  if (type) p.type = *type;
  return type == DType::f16 || type == DType::bf16 || type == DType::e4m3;
}

}  // namespace

std::span<const AttentionSet> attention_sets() {
  static const std::vector<AttentionSet> all = {
      {"grid", "f16: 16384 tokens in lengths from 512, heads of 64, 128 and 256 columns, causal and not",
       grid},
      {"extra", "shared keys, other widths, whole waves, packed sequences that are drawn from the seed, bf16",
       extra},
      {"e4m3", "Q, K and V of e4m3, each with the same in bf16: lengths from 2048, heads like those of grid",
       of_e4m3}};
  return all;
}

const AttentionSet& attention_set(const std::string& name) {
  std::vector<std::string> known;
  for (const AttentionSet& set : attention_sets()) {
    if (set.name == name) return set;
    known.push_back(set.name);
  }
  throw Error(fmt::format("no shape set is named '{}'; the sets are {}", name, fmt::join(known, ", ")));
}

AttentionProblem parse_attention(const std::string& text) {
  AttentionProblem p;
  const std::vector<std::string_view> words = kernels::split(text, ':'),
                                      sizes = kernels::split(words[0], '_');
  int64_t batches = 0;
  bool right = sizes.size() == 4 && parse_pair(sizes[0], 'b', p.batches, batches) && batches == p.batches &&
               parse_pair(sizes[1], 's', p.queries, p.keys) &&
               parse_pair(sizes[2], 'h', p.heads, p.key_heads) &&
               parse_pair(sizes[3], 'd', p.depth, p.value_depth);
  for (size_t i = 1; right && i < words.size(); ++i) right = parse_word(words[i], p);
  if (!right)
    throw Error(
        fmt::format("attention '{}' is not bN_sN_hN_dN followed by :causal, :left=N, :right=N, :f16, :bf16 "
                    "or :e4m3, such as b1_s1024/4096_h32/4_d192/128:causal: batches, queries and keys, heads "
                    "of Q and of K, columns of Q and of V",
                    text));
  if (p.heads % p.key_heads != 0)
    throw Error(
        fmt::format("attention '{}': {} heads must be a multiple of K's {}", text, p.heads, p.key_heads));
  return p;
}

}  // namespace ptxbuilder::bench
